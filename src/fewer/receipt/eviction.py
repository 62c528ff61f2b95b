"""What happened to the cache after the prompt was read: every compression that took rows away, and the bytes it freed.

A row is one token's key and value in one key-value head of one layer. Not covered: which rows left, beyond the counts
for each head and for each chunk of the prompt.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import BaseModel, Field, model_validator

from fewer.errors import bad
from fewer.receipt.fields import STRICT, Count, PerLayer, Seconds, Text

TENTHS = 10

PerHead = tuple[PerLayer, ...]


class CompressionRecord(BaseModel):
    """One compression of the whole cache."""

    model_config = STRICT

    num_seen: Count
    """Tokens that the sequence had seen by then, of the prompt and of the answer."""
    rows_before: PerHead
    """For each layer, the rows of each key-value head that held something."""
    rows_after: PerHead
    """For each layer, the rows of each key-value head that stayed, without padding."""
    padding_per_layer: PerLayer
    """Rows that hold nothing, all heads together: shorter heads of a layer are filled up to its longest one."""
    used_bytes_before: Count
    """Keys and values of the rows before that held something: rows times the bytes of one."""
    used_bytes_after: Count
    """The same of the rows that stayed, without padding."""
    bytes_before: Count
    """Keys and values of all layers before, measured from the storages: with padding and reserved rows."""
    bytes_after: Count
    """The same afterwards, with the padding and the rows reserved for tokens that may come."""
    evict_s: Seconds
    """How long it took: scoring, drawing and copying, in seconds; with what repeating the text took."""
    num_certain: Count
    """Rows that stayed with inclusion probability 1; all that stayed, where the design has no known probabilities."""
    rows_by_pi: Annotated[tuple[Count, ...], Field(min_length=TENTHS, max_length=TENTHS)] | None
    """Of the rows that stayed with a probability below 1: how many lie in each tenth of (0, 1), the upper end belonging
    to it. The probabilities are of this draw alone. Null for designs without known probabilities."""
    repeated_tokens: Count
    """Tokens that went through all layers once more, as a score that has the text repeated needs them; they are in no
    other count."""

    @property
    def num_before(self) -> int:
        """Rows before, all layers and heads together."""
        return sum(map(sum, self.rows_before))

    @property
    def num_after(self) -> int:
        """Rows that stayed, all layers and heads together."""
        return sum(map(sum, self.rows_after))

    @property
    def num_padding(self) -> int:
        """Rows that hold nothing, all layers and heads together."""
        return sum(self.padding_per_layer)

    @model_validator(mode="after")
    def _check(self) -> CompressionRecord:
        shape = [len(heads) for heads in self.rows_before]
        if [len(heads) for heads in self.rows_after] != shape:
            found = [len(heads) for heads in self.rows_after]
            raise bad("the heads of rows_after by layer", found, f"{shape}, as in rows_before", "Fill every head.")
        if len(self.padding_per_layer) != len(shape):
            legal = f"{len(shape)}, as rows_before"
            raise bad("the length of padding_per_layer", len(self.padding_per_layer), legal, "Fill every layer.")
        for layer, (before, after) in enumerate(zip(self.rows_before, self.rows_after, strict=True), 1):
            for had, kept in zip(before, after, strict=True):
                if kept > had:
                    name = f"rows_after at layer {layer}"
                    raise bad(name, kept, f"at most {had}, the rows before", "Count the rows that stayed.")
            padding = sum(max(after, default=0) - kept for kept in after)
            if self.padding_per_layer[layer - 1] != padding:
                name, legal = f"padding_per_layer at layer {layer}", f"{padding}, what the longest head has more"
                raise bad(name, self.padding_per_layer[layer - 1], legal, "Count the rows that hold nothing.")
        for when, used, held in (
            ("before", self.used_bytes_before, self.bytes_before),
            ("after", self.used_bytes_after, self.bytes_after),
        ):
            if used > held:
                legal = f"at most bytes_{when} = {held}, what is held"
                raise bad(f"used_bytes_{when}", used, legal, "Count rows that are there.")
        if self.num_after == self.num_before:
            legal = f"below num_before = {self.num_before}"
            raise bad("num_after", self.num_after, legal, "Record compressions that took something away.")
        drawn = 0 if self.rows_by_pi is None else sum(self.rows_by_pi)
        if self.num_certain + drawn != self.num_after:
            legal = f"the rows that stayed, {self.num_after}"
            raise bad("num_certain plus rows_by_pi", self.num_certain + drawn, legal, "Count each row once.")
        return self


class EvictionRecord(BaseModel):
    """The eviction of keys and values: what the policy did with the cache."""

    model_config = STRICT

    name: Text
    """The policy's name: its score, or design:score."""
    compressions: tuple[CompressionRecord, ...]
    """Every compression that took something away, in order; empty where the budget covered every row."""
    most_bytes: Count
    """The most that keys and values held at a compression, before or after it; 0 where there was none."""
    rows_per_chunk: tuple[PerLayer, ...]
    """For each chunk of the prompt, in order, and for each layer: rows of its tokens that the cache holds at the end,
    all key-value heads together. A full run holds (stop - start) times num_kv_heads."""

    @model_validator(mode="after")
    def _check(self) -> EvictionRecord:
        held = [count for each in self.compressions for count in (each.bytes_before, each.bytes_after)]
        if self.most_bytes < max(held, default=0):
            legal = f"at least {max(held)}, what a compression found or left"
            raise bad("most_bytes", self.most_bytes, legal, "Take the largest of them.")
        seen = [each.num_seen for each in self.compressions]
        if seen != sorted(set(seen)):
            raise bad("num_seen of the compressions", seen, "in ascending order", "Record each compression once.")
        return self


def check_chunks(record: EvictionRecord, sizes: Sequence[int], num_kv_heads: int) -> None:
    """Raise BadInput unless there is an entry for each chunk, of no more rows than its tokens have in a layer."""
    if len(record.rows_per_chunk) != len(sizes):
        legal = f"{len(sizes)}, one for each chunk"
        raise bad("the length of rows_per_chunk", len(record.rows_per_chunk), legal, "Count every chunk's rows.")
    for number, (rows, size) in enumerate(zip(record.rows_per_chunk, sizes, strict=True), 1):
        if max(rows, default=0) > size * num_kv_heads:
            legal = f"at most {size * num_kv_heads}, tokens times heads"
            raise bad(f"rows_per_chunk of chunk {number}", max(rows), legal, "Count each row once.")
