"""One item to be made: its random numbers, its token counts, and what a generator answers with.

Every item has its own random numbers, seeded with the task, the seed and the item's number through SHA-256, one stream
for each purpose. So an item does not depend on how many are made, nor on any state of the process, and its keys and
values stay the same when only the length or the depth changes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

from fewer.study.tasks.generate.fit import Meter
from fewer.study.tasks.generate.haystack import Haystack, load_haystack
from fewer.types import Document, Wording

__all__ = ["Draw", "Filled", "Plan"]

GOLDEN = 0.6180339887498949


@dataclass(frozen=True, slots=True)
class Filled:
    """The chunks of an item, which of them hold the evidence, and what its meta says about them.

    `answers` is set where they are known only then.
    """

    chunks: tuple[Document, ...]
    supporting: tuple[int, ...]
    meta: Mapping[str, Any]
    answers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """What of an item does not depend on its length, and how to fill a number of tokens with its context.

    `prefix` is what the answer is made to begin with, without a space before it. `cluster` is what repeats between
    items of one seed. `metric` takes the place of the generator's.
    """

    question: str
    wording: Wording
    fill: Callable[[int], Filled]
    cluster: str
    answers: tuple[str, ...] = ()
    prefix: str = ""
    max_tokens: int = 64
    metric: str = ""
    meta: Mapping[str, Any] = field(default_factory=dict)
    source: str = ""
    licence: str = "Apache-2.0"


@dataclass(frozen=True, slots=True)
class Draw:
    """An item that is asked for: of which task, which one, how long (tokens), where its needle is, and the settings."""

    task: str
    index: int
    seed: int
    length: int
    depth: float | None
    tokenizer: Any
    haystack: Haystack | None
    settings: Mapping[str, Any]
    meters: dict[str, Meter] = field(default_factory=dict)

    def rng(self, purpose: str, index: int | None = None) -> Random:
        """Random numbers for one purpose; `index` takes the place of the item's own number."""
        name = f"{self.task}|{self.seed}|{self.index if index is None else index}|{purpose}"
        return Random(int.from_bytes(hashlib.sha256(name.encode()).digest()[:16], "big"))

    def meter(self, between: str) -> Meter:
        """Token counts of documents with this text between two of them; what one item counted the next one knows."""
        if between not in self.meters:
            self.meters[between] = Meter(self.tokenizer, between)
        return self.meters[between]

    def spread(self) -> float:
        """The depth asked for, or else one from a sequence that covers 0 to 1 evenly for any number of items."""
        if self.depth is not None:
            return self.depth
        return (self.rng("depths", 0).random() + self.index * GOLDEN) % 1.0

    def prose(self, default: str) -> Haystack:
        """The haystack asked for, or else the shipped one of this name."""
        return self.haystack or load_haystack(default)
