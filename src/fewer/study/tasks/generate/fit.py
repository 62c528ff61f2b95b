"""Counting the tokens of a prompt's documents where they stand, and text of exactly so many tokens.

Documents are tokenised apart from each other, so a prompt's length is the sum of its parts, each counted once. Not
covered: what stands around the documents; that is measured on the prompt itself (`draw.fit_item`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from random import Random
from typing import Any

from fewer.prompt.encode import Piece, encode_pieces

__all__ = ["Meter", "NoFit", "TooShort", "join_prose", "stretch"]

ENDS, CHANGES = 24, 16
LONG = 10  # characters of a word that is short enough for the last resort


class TooShort(Exception):
    """The context needs at least `needed` tokens."""

    def __init__(self, needed: int) -> None:
        super().__init__(needed)
        self.needed = needed


class NoFit(Exception):
    """No filler was found that has exactly the tokens that are left; so many fewer or more would do, where known."""

    def __init__(self, fewer: int = 0, more: int = 0) -> None:
        super().__init__(fewer, more)
        self.fewer, self.more = fewer, more


class Meter:
    """Token counts of documents that have the same text between two of them. `between` is that text's own count."""

    def __init__(self, tokenizer: Any, between: str) -> None:
        self._tokenizer = tokenizer
        self._joint = Piece(between, trusted=True)
        self._known: dict[str, int] = {}
        pieces = encode_pieces(tokenizer, [Piece("a"), self._joint, Piece("a")])
        self.between = len(pieces[1])

    def count(self, texts: Sequence[str]) -> list[int]:
        """The tokens of each text as a document; each text is tokenised once in the meter's life."""
        fresh = [text for text in dict.fromkeys(texts) if text not in self._known]
        if fresh:
            pieces = [self._joint, *(piece for text in fresh for piece in (Piece(text), self._joint))]
            for text, ids in zip(fresh, encode_pieces(self._tokenizer, pieces)[1::2], strict=True):
                self._known[text] = len(ids)
        return [self._known[text] for text in texts]

    def total(self, texts: Sequence[str]) -> int:
        """The tokens of these documents and of what stands between them."""
        return sum(self.count(texts)) + self.between * max(0, len(texts) - 1)


def join_prose(words: Sequence[str]) -> str:
    """The words as a sentence: a capital first, a full stop last."""
    text = " ".join(words).strip().rstrip(" ,;:-.!?(\"'")
    return text[:1].upper() + text[1:] + "." if text else ""


def stretch(
    meter: Meter,
    units: Sequence[str],
    target: int,
    rng: Random,
    *,
    render: Callable[[str], str] = str,
    join: Callable[[Sequence[str]], str] = join_prose,
    ends: Callable[[int], Sequence[str]] | None = None,
) -> str:
    """As many of the units as make `render(join(units))` exactly `target` tokens long, joined.

    Where no number of them does, one more is tried and then the last ones are exchanged, one after the other: `ends(k)`
    gives what may stand at place k (by default one or two of the other words, at random). The last resort is to leave
    long words out. Raises NoFit where nothing helps.
    """
    for some in (units, [unit for unit in units if len(unit) <= LONG] if ends is None else []):
        text = _search(meter, some, target, rng, render, join, ends) if some else ""
        if text:
            return text
    raise NoFit


def _search(
    meter: Meter,
    units: Sequence[str],
    target: int,
    rng: Random,
    render: Callable[[str], str],
    join: Callable[[Sequence[str]], str],
    ends: Callable[[int], Sequence[str]] | None,
) -> str:
    """What `stretch` looks for among these units, or nothing."""

    def measure(tries: Sequence[Sequence[str]]) -> list[int]:
        return meter.count([render(join(units)) for units in tries])

    def choose_ends(place: int, chosen: Sequence[str]) -> Sequence[str]:
        if ends:
            return [end for end in ends(place) if end not in chosen]
        words = [rng.choice(units).strip(" .,;:!?\"'()") for _ in range(2 * ENDS)]
        return [*words[:ENDS], *map(" ".join, pairwise(words[ENDS:]))]

    step = max(1, len(units) // 16)
    marks = list(range(0, len(units) + 1, step))
    counts = measure([units[:mark] for mark in marks])
    under = max((mark for mark, count in zip(marks, counts, strict=True) if count <= target), default=0)
    window = range(max(0, under - 2), min(len(units), under + step) + 1)
    counts = measure([units[:place] for place in window])
    best = 0
    for place, count in zip(window, counts, strict=True):
        if count == target and place:
            return join(units[:place])
        best = place if count < target else best
    chosen = list(units[:best])
    for place in [best, *range(best - 1, max(-1, best - CHANGES), -1)]:
        tries = [chosen, *([*chosen[:place], end, *chosen[place + 1 :]] for end in choose_ends(place, chosen))]
        counts = measure(tries)
        if target in counts:
            return join(tries[counts.index(target)])
        below = [(count, number) for number, count in enumerate(counts) if count < target]
        if below and place < best:
            chosen = tries[max(below)[1]]
    return ""
