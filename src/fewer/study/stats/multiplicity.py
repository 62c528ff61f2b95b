"""Many comparisons: adjusted p-values, and the sentence a table of intervals owes its reader."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import false_discovery_control

from fewer.errors import bad
from fewer.study.stats.results import check_level
from fewer.study.stats.sample import Floats, read_numbers


def adjust(p_values: ArrayLike, *, method: Literal["holm", "benjamini-hochberg"] = "holm") -> Floats:
    """The p-values (m,), adjusted for being m, in the order given.

    "holm" (1979) bounds the chance of any false finding, however the tests depend on each other;
    "benjamini-hochberg" (1995) bounds the expected share of false ones among the findings, for tests that are
    independent or positively dependent.
    """
    if method not in ("holm", "benjamini-hochberg"):
        raise bad("method", method, "'holm' or 'benjamini-hochberg'", "Use 'holm'.")
    numbers = read_numbers("p_values", p_values, within=(0, 1))
    if method == "benjamini-hochberg":
        return np.asarray(false_discovery_control(numbers)) if numbers.size else numbers
    order = np.argsort(numbers)
    stepped = np.maximum.accumulate(numbers[order] * np.arange(numbers.size, 0, -1))
    adjusted = np.empty_like(numbers)
    adjusted[order] = np.minimum(stepped, 1)
    return adjusted


def multiplicity_note(intervals: int, *, level: float = 0.95, p_values: Mapping[str, float] | None = None) -> str:
    """One sentence: how many of so many intervals miss by chance, and the Holm-adjusted p of each named comparison."""
    check_level(level)
    if intervals < 0:
        raise bad("intervals", intervals, "0 or more", "Count the intervals of the table.")
    misses, missing = intervals * (1 - level), 1 - level**intervals
    noun = "1 interval" if intervals == 1 else f"{intervals} intervals"
    note = f"{noun} at {100 * level:.4g}%: about {misses:.2g} would miss the truth by chance"
    if intervals > 1:
        note += f" (at least one with probability {missing:.2f} if they were independent)"
    if p_values:
        adjusted = adjust(list(p_values.values()))
        note += "; Holm-adjusted p: " + ", ".join(
            f"{name} {_format(p)}" for name, p in zip(p_values, adjusted.tolist(), strict=True)
        )
    return note + "."


def _format(p: float) -> str:
    return "<0.0001" if p < 1e-4 else f"{p:.2g}" if p < 0.1 else f"{p:.2f}"
