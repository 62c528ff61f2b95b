"""How each benchmark words its prompts, with where that is published."""

from __future__ import annotations

from fewer.study.tasks.wordings import conversations, leval, longbench, retrieval, ruler
from fewer.study.tasks.wordings.infinitebench import INFINITEBENCH, LONGBENCH_V2
from fewer.study.tasks.wordings.leval import LOOGLE
from fewer.study.tasks.wordings.longbench import LONGBENCH
from fewer.study.tasks.wordings.template import Row, Template

__all__ = ["INFINITEBENCH", "LONGBENCH", "LONGBENCH_V2", "LOOGLE", "PLAIN", "WORDINGS", "Row", "Template"]

WORDINGS: dict[str, Template] = (
    longbench.WORDINGS | ruler.WORDINGS | leval.WORDINGS | retrieval.WORDINGS | conversations.WORDINGS
)
"""By the task's name in rows of this package's format."""

PLAIN = Template("ours: the documents, a blank line, the question; chat template: the model's")
"""For rows of a task that is not listed."""
