"""The prompts of a replay: generated ones, and documents where a folder of them is given."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fewer.errors import bad
from fewer.study.item import Item, lay_out_item
from fewer.study.replay.spec import Condition, Documents, ReplayStudy
from fewer.study.tasks import load_task
from fewer.study.tasks.generate import generate_task
from fewer.types import Prompt

__all__ = ["MOST_ROWS", "Unit", "make_units"]

MOST_ROWS = 128
"""Queries that a score may look with, at most: the newest of a longer question."""
STREAM_ROWS = 64

_ENDLESS = 10**9


@dataclass(frozen=True, slots=True, eq=False)
class Unit:
    """One prompt at its place in the run's order."""

    number: int
    kind: str  # "generated" or "document"
    item: Item
    prompt: Prompt

    @property
    def context(self) -> int:
        """Tokens before the question: where the stream condition compresses."""
        return max((chunk.stop for chunk in self.prompt.chunks), default=self.prompt.query[0])

    def num_rows(self, condition: Condition) -> int:
        """Tokens that have been read when the cache is compressed."""
        return len(self.prompt) if condition == "aware" else self.context

    def num_observed(self, condition: Condition) -> int:
        """Rows that a score looks with: those of the question and what follows it, or the newest of the context."""
        rows = len(self.prompt) - self.prompt.query[0] if condition == "aware" else STREAM_ROWS
        return min(rows, MOST_ROWS)


def make_units(study: ReplayStudy, tokenizer: Any, data: str | Path | None = None) -> tuple[Unit, ...]:
    """Every prompt, generated ones and documents in turn. data: the folder of the documents' tasks; None leaves them
    out. Raises BadInput for unknown tasks and where no item of a task has a fitting length, and DocumentError.
    """
    made = [
        ("generated", generate_task(each.task, tokenizer, length=each.length, num_items=1, seed=study.seed)[0])
        for each in study.generated
    ]
    found = [] if data is None else [("document", item) for item in _find(study.documents, tokenizer, data, study.seed)]
    items = [each for turn in range(max(len(made), len(found))) for each in (*made[turn:][:1], *found[turn:][:1])]
    return tuple(
        Unit(number, kind, item, lay_out_item(tokenizer, item, _ENDLESS)) for number, (kind, item) in enumerate(items)
    )


def _find(documents: Documents, tokenizer: Any, data: str | Path, seed: int) -> list[Item]:
    found = []
    for task in documents.tasks:
        for item in load_task(task, data, seed=seed):
            if documents.shortest <= len(lay_out_item(tokenizer, item, _ENDLESS)) <= documents.longest:
                found.append(item)
                break
        else:
            legal = f"a task with a prompt of {documents.shortest:,} to {documents.longest:,} tokens"
            raise bad("the task", task, legal, "Choose another task, or other lengths.")
    return found
