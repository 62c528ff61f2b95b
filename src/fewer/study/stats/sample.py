"""What goes in: finite numbers and whole labels, of equal lengths; refused with the place where they are not."""

from __future__ import annotations

import sys
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from fewer.errors import bad

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]
Labels = Sequence[Hashable] | NDArray[Any] | None
FINITE = (-sys.float_info.max, sys.float_info.max)


@dataclass(frozen=True, slots=True, eq=False)
class Clusters:
    """Which cluster each item is in: `codes` (n,) in 0..count-1."""

    codes: Codes
    count: int

    @property
    def n(self) -> int:
        """Items."""
        return self.codes.size

    @property
    def alone(self) -> bool:
        """Whether every item is its own cluster, so that items are independent."""
        return self.count == self.n

    def sum(self, values: ArrayLike) -> Floats:
        """The values (n,) added up within each cluster (count,)."""
        totals = np.bincount(self.codes, weights=np.asarray(values, dtype=np.float64), minlength=self.count)
        return totals.astype(np.float64)  # without items they are whole numbers

    def table(self, levels: Codes, weights: Floats) -> sparse.csr_array:
        """Weights added up by level and cluster, (levels, count): times counts (count, r) it is r resampled columns."""
        shape = (int(levels.max()) + 1, self.count)
        return sparse.csr_array(sparse.coo_array((weights, (levels, self.codes)), shape=shape))


def read_numbers(
    name: str, values: ArrayLike, *, size: int | None = None, within: tuple[float, float] = FINITE
) -> Floats:
    """One-dimensional float64 values: no NaN, none outside `within`, and `size` of them where that is given."""
    try:
        array = np.asarray(values)
        numbers: Floats = array.astype(np.float64) if array.dtype.kind in "biufO" else np.array(np.nan)
    except (TypeError, ValueError):
        raise bad(name, values, "a list of numbers", "Turn textual scores into numbers first.") from None
    if numbers.ndim != 1:
        raise bad(name, values, "a one-dimensional list of numbers", "Give one number per item.")
    if size is not None and numbers.size != size:
        raise bad(f"len({name})", numbers.size, f"{size}, one per item", "Pair the arrays by item before comparing.")
    low, high = within
    for index in np.flatnonzero(np.isnan(numbers)):
        raise bad(f"{name}[{index}]", np.nan, "a number", "A failed request has a score (0), it is not a hole.")
    for index in np.flatnonzero((numbers < low) | (numbers > high)):
        legal = "finite" if within == FINITE else f"in [{low:g}, {high:g}]"
        raise bad(f"{name}[{index}]", float(numbers[index]), legal, "Correct it, or give bounds that hold.")
    return numbers


def read_outcomes(name: str, values: ArrayLike, *, size: int | None = None) -> Floats:
    """One-dimensional 0/1 (or false/true) outcomes as float64."""
    numbers = read_numbers(name, values, size=size)
    for index in np.flatnonzero((numbers != 0) & (numbers != 1)):
        raise bad(f"{name}[{index}]", float(numbers[index]), "0 or 1", "Use `mean` for scores between the two.")
    return numbers


def read_clusters(clusters: Labels, n: int) -> Clusters:
    """Labels as codes in ascending order (of their text where they have none): the items' order does not matter.

    None says that every item is its own cluster: the items are independent draws. It has to be said, never assumed.
    """
    if clusters is None:
        return Clusters(np.arange(n), n)
    labels = clusters.tolist() if isinstance(clusters, np.ndarray) else list(clusters)
    if len(labels) != n:
        raise bad("len(clusters)", len(labels), f"{n}, one label per item", "Give None where items are independent.")
    for index, label in enumerate(labels):
        if label is None or label != label:
            raise bad(f"clusters[{index}]", label, "a label", "Name the document (or other source) of every item.")
    try:
        ordered = sorted(set(labels))
    except TypeError:
        ordered = sorted(set(labels), key=repr)
    numbers = {label: code for code, label in enumerate(ordered)}
    return Clusters(np.array([numbers[label] for label in labels], dtype=np.intp), len(numbers))


def read_levels(values: Floats) -> Codes:
    """Each value's place among the distinct values, ascending: equal values share a level."""
    _, levels = np.unique(values, return_inverse=True)
    return np.asarray(levels, dtype=np.intp)
