"""Means within bins of another quantity, each with its interval: the table behind calibration and certificates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from fewer.errors import bad
from fewer.study.stats.bootstrap import check_resampling
from fewer.study.stats.means import mean
from fewer.study.stats.proportions import proportion
from fewer.study.stats.results import Interval
from fewer.study.stats.sample import Codes, Floats, Labels, read_clusters, read_numbers

Scheme = Literal["mass", "width"]


@dataclass(frozen=True, slots=True)
class BinnedMean:
    """One bin: the least, mean and largest of the binning quantity in it, and the mean of the values."""

    low: float
    centre: float
    high: float
    mean: Interval


def binned_means(
    values: ArrayLike,
    by: ArrayLike,
    clusters: Labels,
    *,
    bins: int = 10,
    scheme: Scheme = "mass",
    span: tuple[float, float] | None = None,
    level: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> list[BinnedMean]:
    """The means of `values` (items,) in bins of `by` (items,), empty bins left out.

    Shares of 0/1 values get Wilson's interval where no two items of the bin share a cluster, and all else the cluster
    bootstrap over the clusters that have items in the bin. The intervals are for one bin each, not for all together.
    Scheme and span are those of `find_bins`; `by` may be infinite with equal mass.
    """
    check_resampling("bca", level, resamples, seed)
    numbers = read_numbers("values", values)
    order = read_numbers("by", by, size=numbers.size, within=(-np.inf, np.inf))
    sample = read_clusters(clusters, numbers.size)
    codes = find_bins(order, bins, scheme, span)
    binary = bool(np.isin(numbers, (0, 1)).all())
    rows = []
    for code in np.unique(codes):
        inside = codes == code
        some, own = numbers[inside], sample.codes[inside]
        interval = (
            proportion(some, own, level=level, resamples=resamples, seed=seed)
            if binary
            else mean(some, own, level=level, resamples=resamples, seed=seed)
        )
        chosen = order[inside]
        rows.append(BinnedMean(float(chosen.min()), float(chosen.mean()), float(chosen.max()), interval))
    return rows


def find_bins(values: Floats, bins: int, scheme: Scheme, span: tuple[float, float] | None = None) -> Codes:
    """The bin of each value, 0..bins-1; equal values share a bin, and a value on an edge is in the lower one.

    "mass" puts the same number of values into every bin, as nearly as ties allow; "width" cuts `span` (or the range
    of the values) into pieces of equal width.
    """
    if bins < 1:
        raise bad("bins", bins, "at least 1", "Use 10.")
    if scheme == "mass":
        places = -(-np.arange(1, bins) * values.size // bins) - 1  # ceil(n i / bins) values up to the i-th edge
        edges = np.sort(values)[places] if values.size else np.empty(0)
    elif scheme == "width":
        low, high = span or (values.min(initial=0), values.max(initial=0))
        if not (np.isfinite(low) and np.isfinite(high)):
            raise bad("by", (float(low), float(high)), "finite for bins of equal width", "Use scheme='mass'.")
        edges = np.linspace(low, high, bins + 1)[1:-1]
    else:
        raise bad("scheme", scheme, "'mass' or 'width'", "Use 'mass': every bin then has items.")
    return np.searchsorted(edges, values)
