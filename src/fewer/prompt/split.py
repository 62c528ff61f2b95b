"""Cutting a document into chunks: whole, at blank lines, or every n tokens.

The pieces of a document, one after the other, are the document: no character is lost, added or moved. Not covered:
sentences, overlapping windows, and keeping a chunk under a size at paragraph grain.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from fewer.errors import bad

__all__ = ["Splitter"]

BLANK_LINES = re.compile(r"\n(?:[^\S\n]*\n)+")


@dataclass(frozen=True, slots=True)
class Splitter:
    """How documents become chunks. `Splitter.parse("document" | "paragraph" | "256")`."""

    unit: Literal["document", "paragraph", "tokens"] = "document"
    size: int = 0  # tokens in a chunk; only with the unit "tokens"

    @classmethod
    def parse(cls, value: str | int | Splitter) -> Splitter:
        """`document`, `paragraph`, or a number of tokens; anything else is BadInput."""
        if isinstance(value, Splitter):
            return value
        text = str(value).strip()
        if text == "document":
            return cls("document")
        if text == "paragraph":
            return cls("paragraph")
        if text.isascii() and text.isdigit() and int(text) >= 1:
            return cls("tokens", int(text))
        raise bad(
            "split",
            value,
            "document, paragraph, or a whole number of tokens of at least 1",
            "Write `document` to keep every document in one chunk, or 256 for chunks of 256 tokens.",
        )

    def split_text(self, text: str) -> list[str]:
        """The text in pieces that end after a blank line (unit "paragraph"), otherwise in one piece.

        A paragraph keeps the blank lines that follow it, and the first one those before it. However short, it
        stays a piece of its own.
        """
        if self.unit != "paragraph":
            return [text]
        last = len(text.rstrip())
        cuts = [
            match.end() for match in BLANK_LINES.finditer(text, len(text) - len(text.lstrip())) if match.end() < last
        ]
        return [text[start:stop] for start, stop in pairwise([0, *cuts, len(text)])]

    def split_ids(self, ids: Sequence[int]) -> list[list[int]]:
        """The ids in runs of exactly `size`, the last one shorter (unit "tokens"), otherwise in one run.

        A character that is spelled with several tokens may be cut between two runs.
        """
        size = self.size or max(1, len(ids))
        return [list(ids[start : start + size]) for start in range(0, len(ids), size)]

    def __str__(self) -> str:
        return str(self.size) if self.unit == "tokens" else self.unit
