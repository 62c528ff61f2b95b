"""A ratio of two sums over items, the one statistic behind means, differences and speedups; with its intervals.

With clusters of unequal size a mean over items is a ratio too: the sum of the scores over the number of items, both
random. Linearised, its variance is that of the clusters' residuals (Liang and Zeger 1986; Cochran 1977, 6.4), equal to
the cluster-robust variance of a regression on a constant with the usual factor clusters / (clusters - 1), and read
with Student's t on clusters - 1 degrees of freedom (Cameron and Miller 2015).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.stats import t as student

from fewer.errors import bad
from fewer.study.stats.bootstrap import SAME, bootstrap, check_resampling
from fewer.study.stats.results import Interval
from fewer.study.stats.sample import FINITE, Clusters, Floats

Method = Literal["bca", "percentile", "t"]


@dataclass(frozen=True, slots=True, eq=False)
class Ratio:
    """sum(above) / sum(below), with the two sums by cluster (clusters,)."""

    above: Floats
    below: Floats
    sample: Clusters

    @classmethod
    def of(cls, above: Floats, below: Floats, sample: Clusters) -> Ratio:
        """From the values of the items (n,)."""
        return cls(sample.sum(above), sample.sum(below), sample)

    @property
    def estimate(self) -> float:
        """The ratio of the totals."""
        return float(self.above.sum() / self.below.sum())

    @property
    def residuals(self) -> Floats:
        """What each cluster has above its share of the ratio; they sum to zero."""
        return self.above - self.estimate * self.below

    @property
    def scale(self) -> float:
        """The largest size of what a cluster contributes to the ratio."""
        size = np.abs(self.above) + abs(self.estimate) * self.below
        return float(size.max() / self.below.max())

    @property
    def agrees(self) -> bool:
        """Whether every cluster has exactly this ratio, so that nothing varies."""
        return bool(np.all(np.abs(self.residuals) <= SAME * self.scale * self.below.max()))

    @property
    def standard_error(self) -> float:
        """Linearised over clusters."""
        count = self.sample.count
        return float(np.sqrt(count / (count - 1) * np.sum(self.residuals**2)) / self.below.sum())

    def resample(self, counts: Floats) -> Floats:
        """The ratio in resamples, counts (clusters, r) -> (r,)."""
        values: Floats = (self.above @ counts) / (self.below @ counts)
        return values

    def interval(
        self,
        *,
        method: str,
        level: float,
        resamples: int,
        seed: int,
        bounds: tuple[float, float] | None = None,
    ) -> Interval:
        """By the cluster bootstrap or by t. `bounds` (of a mean) cut t's, and give agreeing clusters one."""
        check_resampling("bca" if method == "t" else method, level, resamples, seed)
        n, count = self.sample.n, self.sample.count
        if count == 0:
            return Interval.unknown(None, level, 0, 0, "there are no items")
        if count > 1 and self.agrees:
            return self._agreed(level, bounds)
        if method != "t":
            return bootstrap(
                self.resample,
                self.sample,
                method=method,
                level=level,
                resamples=resamples,
                seed=seed,
                scale=self.scale,
            )
        if count == 1:
            return Interval.unknown(self.estimate, level, n, count, "one cluster says nothing about others")
        half = float(student.ppf((1 + level) / 2, count - 1)) * self.standard_error
        name = f"cluster-robust t, {count - 1} degrees of freedom"
        low, high = bounds or (-math.inf, math.inf)
        lower, upper = self.estimate - half, self.estimate + half
        if lower < low or upper > high:
            lower, upper, name = max(low, lower), min(high, upper), f"{name}, cut at [{low:g}, {high:g}]"
        return Interval(self.estimate, lower, upper, level, n, count, name)

    def _agreed(self, level: float, bounds: tuple[float, float] | None) -> Interval:
        """Nothing varied. What could still hide: the share of clusters that 0 of k does not exclude, at its worst."""
        n, count, estimate = self.sample.n, self.sample.count, self.estimate
        if bounds is None:
            why = f"all {count} clusters agree; without bounds on the scores nothing is known of what was not drawn"
            return Interval.unknown(estimate, level, n, count, why)
        low, high = bounds
        share = 1 - ((1 - level) / 2) ** (1 / count)
        name = f"all {count} clusters agree: Clopper-Pearson for 0 of {count}, scores in [{low:g}, {high:g}]"
        lower, upper = estimate - share * (estimate - low), estimate + share * (high - estimate)
        return Interval(estimate, lower, upper, level, n, count, name)


def read_bounds(bounds: tuple[float, float] | None) -> tuple[float, float]:
    """The bounds of a score; None says only that it is finite."""
    if bounds is None:
        return FINITE
    low, high = bounds
    if not (np.isfinite(low) and np.isfinite(high) and low < high):
        raise bad("bounds", bounds, "two finite numbers, ascending", "Use (0, 1) for scores, None for no bounds.")
    return float(low), float(high)
