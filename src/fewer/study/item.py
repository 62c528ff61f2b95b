"""One question of a study: what is asked over which chunks, what counts as right, and how it is worded.

Not covered: the prompt's token ids; they belong to a model (`lay_out_item`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fewer.errors import bad
from fewer.prompt import lay_out
from fewer.types import Document, Prompt, Wording

__all__ = ["Item", "lay_out_item"]


@dataclass(frozen=True, slots=True)
class Item:
    """A question with its context, its answers and its place in a task.

    cluster: what repeats between items (a document, a haystack, a conversation); intervals resample clusters, not
    items. supporting: the chunks (by index) that hold the evidence, None where nobody labelled them, () where the
    answer needs none. answers: any one is right unless the metric wants all. meta: what the metric or the figures need,
    such as options, `depth` (of the needle, 0 to 1) or `length` (asked for, in tokens).
    """

    id: str
    task: str
    category: str
    cluster: str
    chunks: tuple[Document, ...]
    question: str
    answers: tuple[str, ...]
    metric: str
    wording: Wording = field(default_factory=Wording)
    answer_prefix: str = ""
    chat: bool = True
    max_tokens: int = 64
    stop: tuple[str, ...] = ()
    supporting: tuple[int, ...] | None = None
    source: str = ""
    licence: str = ""
    meta: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        way_out = "Correct the row, or leave it out."
        for name in ("id", "task", "category", "cluster", "question", "metric"):
            value = getattr(self, name)
            if not isinstance(value, str) or not value.strip():
                raise bad(f"{name} of item {self.id!r}", value, "a text that is not blank", way_out)
        if not self.answers or not all(isinstance(answer, str) for answer in self.answers):
            raise bad(f"answers of item {self.id!r}", self.answers, "at least one text", way_out)
        if not all(isinstance(chunk, Document) and chunk.text.strip() for chunk in self.chunks):
            raise bad(f"chunks of item {self.id!r}", self.chunks, "documents with text in them", way_out)
        if isinstance(self.max_tokens, bool) or not isinstance(self.max_tokens, int) or self.max_tokens < 1:
            raise bad(f"max_tokens of item {self.id!r}", self.max_tokens, "a whole number of at least 1", way_out)
        for index in self.supporting or ():
            if not 0 <= index < len(self.chunks):
                legal = f"indices of its {len(self.chunks)} chunks"
                raise bad(f"supporting of item {self.id!r}", self.supporting, legal, way_out)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of everything in it, so that a registration can tell whether an item has changed."""
        content = [
            [self.id, self.task, self.category, self.cluster, self.question, list(self.answers), self.metric],
            [[chunk.title, chunk.text] for chunk in self.chunks],
            [self.wording.before, self.wording.between, self.wording.ask, self.answer_prefix, self.chat],
            [self.max_tokens, list(self.stop), None if self.supporting is None else list(self.supporting)],
            dict(self.meta),
        ]
        text = json.dumps(content, sort_keys=True, ensure_ascii=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()

    def without_context(self) -> Item:
        """The same question with no chunks: what the model knows, or guesses, by itself."""
        return replace(self, chunks=(), supporting=None if self.supporting is None else ())

    def with_chunks(self, chosen: Sequence[int]) -> Item:
        """The same question over these of its chunks, ascending; of the supporting ones those that are among them."""
        supporting = self.supporting
        if supporting is not None:
            supporting = tuple(place for place, index in enumerate(chosen) if index in supporting)
        return replace(self, chunks=tuple(self.chunks[index] for index in chosen), supporting=supporting)


def lay_out_item(tokenizer: Any, item: Item, max_positions: int, truncate: bool = False, sinks: int = 4) -> Prompt:
    """The item's prompt under a model's tokenizer. Raises PromptTooLong where it does not fit with its max_tokens."""
    return lay_out(
        tokenizer,
        item.question,
        item.chunks,
        max_positions=max_positions,
        max_tokens=item.max_tokens,
        sinks=sinks,
        truncate=truncate,
        answer_prefix=item.answer_prefix,
        chat=item.chat,
        wording=item.wording,
    )
