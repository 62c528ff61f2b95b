"""Cuts a context into chunks such that the chunks, put one after the other, are the context again.

Published benchmarks give a context as one text. Where it marks its own parts (passages, examples) the cuts are there;
otherwise chunks have about `SIZE` characters and end where a reader would pause. No chunk is blank.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise

__all__ = ["SIZE", "find_holders", "split_at", "split_text"]

SIZE = 900  # characters of a chunk where the context marks no parts; about 200 tokens of English
_PAUSES = ("\n\n", "\n", ". ", ", ", " ")  # where a chunk may end, best first


def split_text(text: str, size: int = SIZE) -> list[str]:
    """Pieces of `text` of about `size` characters (half to one and a half, where there is any place to cut).

    A piece ends after a paragraph, else a line, else a sentence, else a comma, else a word; a run of more characters
    without any is cut after one and a half sizes. `"".join(pieces) == text`, and no piece is blank unless `text` is.
    """
    pieces, start = [], 0
    while len(text) - start > size * 3 // 2:
        low, high = start + size // 2, start + size * 3 // 2
        end = next((end for pause in _PAUSES if (end := _find_pause(text, pause, low, start + size, high))), high)
        pieces.append(text[start:end])
        start = end
    return _merge_blank([*pieces, text[start:]])


def split_at(text: str, mark: re.Pattern[str], size: int | None = None) -> list[str]:
    """Pieces of `text` that each begin where `mark` matches; what stands before the first match goes with the first.

    With a `size`, pieces of more than two sizes are cut again as by `split_text`. Joined they are `text`; none is
    blank unless `text` is.
    """
    starts = [match.start() for match in mark.finditer(text)]
    cuts = [0, *starts[1:], len(text)] if starts else [0, len(text)]
    pieces = [text[start:end] for start, end in pairwise(cuts)]
    if size is not None:
        pieces = [part for piece in pieces for part in (split_text(piece, size) if len(piece) > 2 * size else [piece])]
    return _merge_blank(pieces)


def find_holders(pieces: Iterable[str], evidence: Iterable[str]) -> tuple[int, ...] | None:
    """The pieces (by index) that any evidence text lies in or reaches into; None where one is not found.

    The texts are looked for in the joined pieces, as they stand; only the first occurrence counts.
    """
    pieces = list(pieces)
    whole, holders = "".join(pieces), set()
    ends, end = [], 0
    for piece in pieces:
        end += len(piece)
        ends.append(end)
    for text in evidence:
        start = whole.find(text) if text.strip() else -1
        if start < 0:
            return None
        stop = start + len(text)
        holders |= {i for i, end in enumerate(ends) if end > start and end - len(pieces[i]) < stop}
    return tuple(sorted(holders))


def _find_pause(text: str, pause: str, low: int, middle: int, high: int) -> int:
    """Where to cut: after the last pause that ends before `middle`, else after the first before `high`; 0 if none."""
    found = text.rfind(pause, low, middle)
    if found < 0:
        found = text.find(pause, middle - len(pause) + 1, high)
    return found + len(pause) if found >= 0 else 0


def _merge_blank(pieces: list[str]) -> list[str]:
    """The pieces with every blank one put to the one before it, or to the next where there is none before."""
    merged: list[str] = []
    for piece in pieces:
        if merged and (not piece.strip() or not merged[-1].strip()):
            merged[-1] += piece
        else:
            merged.append(piece)
    return merged
