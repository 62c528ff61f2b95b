"""How well a score ranks the positive items above the negative ones: the area under the ROC curve, Mann-Whitney's U.

It is the share of pairs (a positive, a negative item) in which the positive has the higher score, ties counting half.
Positive is label 1, for instance "the arm's answer is wrong", and the score is higher where it is expected.

Never pool over budgets alone. At a small budget errors are common and scores high for every item, so pairs from
different budgets are won by knowing the budget, and the pooled area is large for a score that cannot tell two items
apart. `within=budgets` counts pairs of the same budget only: the mean of the areas within the budgets, weighted by
their numbers of pairs.

Intervals: "bca" and "percentile" draw whole clusters; "delong" (`delong.py`) is in closed form, for independent items
and without `within`. Not covered: areas over a part of the false positive rates, and weights.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from fewer.errors import bad
from fewer.study.stats.bootstrap import bootstrap, check_resampling
from fewer.study.stats.delong import delong_difference, delong_interval
from fewer.study.stats.results import Interval
from fewer.study.stats.sample import Clusters, Floats, Labels, read_clusters, read_levels, read_numbers, read_outcomes

AreaMethod = Literal["bca", "percentile", "delong"]


def auc(
    labels: ArrayLike,
    scores: ArrayLike,
    clusters: Labels,
    *,
    within: Labels = None,
    method: AreaMethod = "bca",
    level: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> Interval:
    """The area under the ROC curve of `scores` for `labels` (0 or 1), all (items,), over pairs `within` a group.

    Raises BadInput where no group has both classes: the area is not 0.5 then, it is undefined.
    """
    truth = read_outcomes("labels", labels)
    sample, groups = read_clusters(clusters, truth.size), _read_groups(within, truth)
    area = Area(truth, read_numbers("scores", scores, size=truth.size), sample, groups)
    if method == "delong":
        _check_delong(sample, within, level, resamples, seed)
        return delong_interval(truth, area.scores, level)
    return bootstrap(area.among, sample, method=method, level=level, resamples=resamples, seed=seed)


def auc_difference(
    labels: ArrayLike,
    a: ArrayLike,
    b: ArrayLike,
    clusters: Labels,
    *,
    within: Labels = None,
    method: AreaMethod = "bca",
    level: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> Interval:
    """The area of scores `a` minus that of scores `b` on the same items and labels."""
    truth = read_outcomes("labels", labels)
    sample, groups = read_clusters(clusters, truth.size), _read_groups(within, truth)
    first = Area(truth, read_numbers("a", a, size=truth.size), sample, groups)
    second = Area(truth, read_numbers("b", b, size=truth.size), sample, groups)
    if method == "delong":
        _check_delong(sample, within, level, resamples, seed)
        return delong_difference(truth, first.scores, second.scores, level)

    def difference(counts: Floats) -> Floats:
        return first.among(counts) - second.among(counts)

    return bootstrap(difference, sample, method=method, level=level, resamples=resamples, seed=seed)


class Area:
    """The area as a function of how often each cluster was drawn: counts (clusters, r) -> (r,)."""

    def __init__(self, truth: Floats, scores: Floats, sample: Clusters, groups: Clusters) -> None:
        self.scores = scores
        self.tables: list[tuple[sparse.csr_array, sparse.csr_array]] = []  # positives, negatives: (levels, clusters)
        for group in range(groups.count):
            inside = groups.codes == group
            own, levels = Clusters(sample.codes[inside], sample.count), read_levels(scores[inside])
            tables = own.table(levels, truth[inside]), own.table(levels, 1 - truth[inside])
            for table in tables:
                table.eliminate_zeros()
            self.tables.append(tables)

    def among(self, counts: Floats) -> Floats:
        """The area among the items drawn; NaN where no group has both classes."""
        wins, pairs = np.zeros(counts.shape[1]), np.zeros(counts.shape[1])
        for positive, negative in self.tables:
            high, low = positive @ counts, negative @ counts  # (levels, r), in ascending order of the score
            below = np.cumsum(low, axis=0) - low / 2
            wins += np.einsum("lr,lr->r", high, below)
            pairs += high.sum(axis=0) * low.sum(axis=0)
        return np.divide(wins, pairs, out=np.full_like(wins, np.nan), where=pairs > 0)


def _read_groups(within: Labels, truth: Floats) -> Clusters:
    one = Clusters(np.zeros(truth.size, dtype=np.intp), 1)
    groups = one if within is None else read_clusters(within, truth.size)
    if not np.any((groups.sum(truth) > 0) & (groups.sum(1 - truth) > 0)):
        shown = f"{int(truth.sum())} ones and {int((1 - truth).sum())} zeros"
        where = "" if within is None else " in one group"
        raise bad("labels", shown, f"of both classes{where}", "No pair can be ranked: report the count instead.")
    return groups


def _check_delong(sample: Clusters, within: Labels, level: float, resamples: int, seed: int) -> None:
    check_resampling("bca", level, resamples, seed)
    if within is not None or not sample.alone:
        raise bad("method", "delong", "'bca' or 'percentile' with `within` or shared clusters", "Use 'bca'.")
