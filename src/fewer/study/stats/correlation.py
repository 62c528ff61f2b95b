"""Spearman's rank correlation with a cluster-bootstrap interval."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from fewer.errors import bad
from fewer.study.stats.bootstrap import Resampling, bootstrap
from fewer.study.stats.results import Interval
from fewer.study.stats.sample import Clusters, Codes, Floats, Labels, read_clusters, read_levels, read_numbers


def spearman(
    x: ArrayLike,
    y: ArrayLike,
    clusters: Labels,
    *,
    method: Resampling = "bca",
    level: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> Interval:
    """Spearman's rho of x and y (items,), ties at their mean rank; ranks are found anew in every resample.

    Pooled over budgets it measures the budget first, as an AUC does: correlate within one budget. Raises BadInput where
    x or y is constant.
    """
    first = read_numbers("x", x)
    second = read_numbers("y", y, size=first.size)
    for name, numbers in (("x", first), ("y", second)):
        if np.unique(numbers).size < 2:
            raise bad(
                name, numbers[:1].tolist(), "at least two different values", "A constant has no rank correlation."
            )
    sample = read_clusters(clusters, first.size)
    ranked = [Ranks(sample, read_levels(numbers)) for numbers in (first, second)]

    def rho(counts: Floats) -> Floats:
        weights, total = counts[sample.codes], sample.sum(np.ones_like(first)) @ counts
        a, b = (ranks.among(counts) - (total + 1) / 2 for ranks in ranked)  # (items, r), around the mean rank
        both, own, other = (np.einsum("ir,ir,ir->r", weights, u, v) for u, v in ((a, b), (a, a), (b, b)))
        size = np.sqrt(own * other)
        values: Floats = np.divide(both, size, out=np.full_like(size, np.nan), where=size > 0)
        return values

    return bootstrap(rho, sample, method=method, level=level, resamples=resamples, seed=seed)


class Ranks:
    """The mean rank of each item among the items drawn: counts (clusters, r) -> (items, r)."""

    def __init__(self, sample: Clusters, levels: Codes) -> None:
        self.levels, self.table = levels, sample.table(levels, np.ones(sample.n))

    def among(self, counts: Floats) -> Floats:
        """Ties at their mean rank, copies of an item among them."""
        items = self.table @ counts
        ranks: Floats = (np.cumsum(items, axis=0) - (items - 1) / 2)[self.levels]
        return ranks
