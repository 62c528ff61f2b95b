"""DeLong's closed-form variance of the area under the ROC curve, for independent items.

A positive's placement is the share of negatives below it, and a negative's the share of positives above it; the
areas' covariance is that of the placements (DeLong, DeLong and Clarke-Pearson 1988), found through midranks in
O(n log n) (Sun and Xu 2014). The interval of one area is made on the logit scale, where it cannot leave (0, 1) and
keeps its level better near the ends (Qin and Hotilovac 2008); that of a difference on the plain one.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit, logit, ndtri
from scipy.stats import rankdata

from fewer.study.stats.bootstrap import SAME
from fewer.study.stats.results import Interval
from fewer.study.stats.sample import Floats


def delong_interval(truth: Floats, scores: Floats, level: float) -> Interval:
    """The area of `scores` for `truth` (0 or 1)."""
    placed = place(truth, scores)
    area, error = float(placed[0].mean()), standard_error(*placed)
    n = truth.size
    if error is None:
        return Interval.unknown(
            area, level, n, n, "DeLong needs two items of each class, and not all pairs ranked alike"
        )
    half = ndtri((1 + level) / 2) * error / (area * (1 - area))
    low, high = expit(logit(area) - half), expit(logit(area) + half)
    return Interval(area, float(low), float(high), level, n, n, "DeLong, logit scale, independent items")


def delong_difference(truth: Floats, a: Floats, b: Floats, level: float) -> Interval:
    """The area of `a` minus that of `b`, paired by item."""
    first, second = place(truth, a), place(truth, b)
    positive, negative = first[0] - second[0], first[1] - second[1]
    difference, error = float(positive.mean()), standard_error(positive, negative)
    n = truth.size
    if error is None:
        return Interval.unknown(difference, level, n, n, "DeLong needs two items of each class, and some that differ")
    half = float(ndtri((1 + level) / 2)) * error
    name = "DeLong, paired, independent items"
    return Interval(difference, difference - half, difference + half, level, n, n, name)


def place(truth: Floats, scores: Floats) -> tuple[Floats, Floats]:
    """The placements of the positives (m,) and of the negatives (n,); the mean of either is the area."""
    positive, negative = scores[truth == 1], scores[truth == 0]
    ranks = rankdata(np.concatenate([positive, negative]))
    below = ranks[: positive.size] - rankdata(positive)
    above = positive.size - (ranks[positive.size :] - rankdata(negative))
    return below / negative.size, above / positive.size


def standard_error(positive: Floats, negative: Floats) -> float | None:
    """Of the mean of the placements; None where a class has one item or nothing varies."""
    if min(positive.size, negative.size) < 2:
        return None
    variance = positive.var(ddof=1) / positive.size + negative.var(ddof=1) / negative.size
    return float(np.sqrt(variance)) if variance > SAME**2 else None
