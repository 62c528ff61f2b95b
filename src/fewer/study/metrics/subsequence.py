"""Longest common subsequences: their length, and which one two ROUGE programs read out of the table."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

__all__ = ["find_common", "measure_common"]


def measure_common(first: Sequence[Hashable], second: Sequence[Hashable]) -> int:
    """Length of the longest common subsequence, bit-parallel (Hyyrö 2004): one big-integer step an item of `second`."""
    places: dict[Hashable, int] = {}
    for index, item in enumerate(first):
        places[item] = places.get(item, 0) | 1 << index
    every = (1 << len(first)) - 1
    row = every
    for item in second:
        matches = row & places.get(item, 0)
        row = (row + matches | row - matches) & every
    return len(first) - row.bit_count()


def find_common(reference: Sequence[str], output: Sequence[str], prefer_reference: bool) -> list[int]:
    """The places in `reference` of one longest common subsequence, read from the ends of the table, rising.

    Where both neighbours in the table are equally long, `prefer_reference` keeps the place in the reference and drops
    the output's last word (the `rouge` package); without it, the reference's last word goes (`rouge-score`). Which
    words are found differs, and so do scores that count the words of several subsequences together.
    """
    if not set(reference) & set(output):
        return []
    table = [[0] * (len(output) + 1)]
    for word in reference:
        above, row = table[-1], [0]
        for column, other in enumerate(output):
            row.append(above[column] + 1 if word == other else max(above[column + 1], row[column]))
        table.append(row)
    found: list[int] = []
    i, j = len(reference), len(output)
    while i and j:
        up, left = table[i - 1][j], table[i][j - 1]
        if reference[i - 1] == output[j - 1]:
            i, j = i - 1, j - 1
            found.append(i)
        elif up > left or (up == left and not prefer_reference):
            i -= 1
        else:
            j -= 1
    return found[::-1]
