"""A benchmark's wording with the places that a row fills in."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from fewer.types import Document, Wording

__all__ = ["Row", "Template", "as_passage", "keep", "with_colon"]

Row = Mapping[str, Any]
"""A row in this package's format: `question`, `answers`, `context_chunks`, `meta` and the other fields."""


def keep(number: int, title: str, text: str) -> Document:
    """A chunk as it stands: title, line end, text."""
    return Document(text, title)


def as_passage(number: int, title: str, text: str) -> Document:
    """A chunk as LongBench's multi-document tasks write it: `Passage 1:`, the title, the text, each on a line."""
    return Document(f"{title}\n{text}" if title else text, f"Passage {number}:")


def with_colon(number: int, title: str, text: str) -> Document:
    """A chunk as LongBench's paragraph tasks write it: `Paragraph 1: text`, on one line."""
    return Document(f"{title}: {text}" if title else text)


def _as_written(row: Row) -> dict[str, str]:
    return {"question": row["question"]}


@dataclass(frozen=True, slots=True)
class Template:
    """How the rows of a task become prompts.

    before, ask, between: as in `Wording`, with further `{names}` in `before`, `ask` and `answer_prefix` that `fill`
    gives from the row. `fill` also gives `question`, the item's question: the row's own, less what the wording says
    already. `chunk` writes a chunk from its number (from 1), title and text, which it never changes. `origin`: where
    the wording is published, what was changed, and whether the benchmark's own code uses a chat template (`chat`).
    `needle`: the supporting chunk's place is the needle's depth.
    """

    origin: str
    before: str = ""
    ask: str = "\n\n{question}"
    between: str = "\n\n"
    answer_prefix: str = ""
    max_tokens: int = 64
    chat: bool = True
    stop: tuple[str, ...] = ()
    fill: Callable[[Row], dict[str, str]] = _as_written
    chunk: Callable[[int, str, str], Document] = keep
    needle: bool = False

    def word(self, row: Row) -> tuple[str, Wording, str]:
        """Question, wording and answer prefix for a row."""
        values = self.fill(row)
        question = values.pop("question")
        before, ask, prefix = (_fill(text, values) for text in (self.before, self.ask, self.answer_prefix))
        return question, Wording(before, self.between, ask), prefix


def _fill(text: str, values: Mapping[str, str]) -> str:
    """`text` with each `{name}` of `values` replaced; other braces, and those within a value, stay."""
    return re.sub(r"\{(\w+)\}", lambda match: values.get(match[1], match[0]), text)
