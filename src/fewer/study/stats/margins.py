"""Claims against a margin that was fixed beforehand: non-inferior, superior, equivalent.

All three read one interval, the cluster-robust t of `mean_difference(..., method="t")` at level 1 - 2 alpha: a
one-sided test at alpha rejects exactly where that interval excludes the margin, so verdict, p-value and interval
cannot disagree. The default alpha of 0.025 is the 95% interval that the tables show.

Sources: Piaggio et al. 2012 (CONSORT for non-inferiority); Schuirmann 1987 (two one-sided tests). Higher scores are
better. A margin chosen after seeing the data makes the p-value meaningless; nothing here can tell.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from numpy.typing import ArrayLike
from scipy.stats import t as student

from fewer.errors import bad
from fewer.study.stats.means import Bounds, pair, spread_of_differences
from fewer.study.stats.ratio import Ratio
from fewer.study.stats.results import Interval
from fewer.study.stats.sample import Labels

Verdict = Literal["non-inferior", "inferior", "superior", "equivalent", "different", "inconclusive"]


@dataclass(frozen=True, slots=True)
class MarginTest:
    """A verdict on the mean of a - b, with the one-sided p-value and the interval (level 1 - 2 alpha) behind it.

    `p` is None, and the verdict "inconclusive", where there is no interval; `interval.method` says why.
    """

    verdict: Verdict
    claim: str  # what p is about: the alternative hypothesis
    p: float | None
    margin: float
    alpha: float  # one-sided
    interval: Interval


def noninferiority(
    a: ArrayLike, b: ArrayLike, clusters: Labels, *, margin: float, alpha: float = 0.025, bounds: Bounds = None
) -> MarginTest:
    """Whether a is worse than b by less than `margin` (in units of the score, above 0), paired by item.

    "non-inferior" where the whole interval is above -margin, "inferior" where all of it is below, "inconclusive"
    otherwise. An interval between -margin and 0 is both non-inferior and significantly worse: read the interval.
    `bounds` of the scores, as in `mean`, decide where a and b differ on no cluster.
    """
    ratio, interval = _read(a, b, clusters, alpha, bounds)
    _check_margin(margin)
    p = _tail(ratio, interval, -margin, bounds, above=True)
    verdict: Verdict = _side(interval, -margin, "non-inferior", "inferior")
    return MarginTest(verdict, f"mean(a - b) > {-margin:g}", p, margin, alpha, interval)


def superiority(
    a: ArrayLike, b: ArrayLike, clusters: Labels, *, alpha: float = 0.025, bounds: Bounds = None
) -> MarginTest:
    """Whether a is better than b: "superior", "inferior" or "inconclusive". The margin is 0."""
    ratio, interval = _read(a, b, clusters, alpha, bounds)
    p = _tail(ratio, interval, 0.0, bounds, above=True)
    return MarginTest(_side(interval, 0.0, "superior", "inferior"), "mean(a - b) > 0", p, 0.0, alpha, interval)


def equivalence(
    a: ArrayLike, b: ArrayLike, clusters: Labels, *, margin: float, alpha: float = 0.025, bounds: Bounds = None
) -> MarginTest:
    """Whether a and b differ by less than `margin` either way, by two one-sided tests, each at alpha.

    "equivalent" where the whole interval is inside (-margin, margin), "different" where all of it is outside.
    """
    ratio, interval = _read(a, b, clusters, alpha, bounds)
    _check_margin(margin)
    sides = [
        _tail(ratio, interval, -margin, bounds, above=True),
        _tail(ratio, interval, margin, bounds, above=False),
    ]
    p = None if None in sides else max(side for side in sides if side is not None)
    verdict: Verdict = "inconclusive"
    if interval.lower is not None and interval.upper is not None:
        if -margin < interval.lower and interval.upper < margin:
            verdict = "equivalent"
        elif interval.upper < -margin or interval.lower > margin:
            verdict = "different"
    return MarginTest(verdict, f"|mean(a - b)| < {margin:g}", p, margin, alpha, interval)


def _read(a: ArrayLike, b: ArrayLike, clusters: Labels, alpha: float, bounds: Bounds) -> tuple[Ratio, Interval]:
    if not 0 < alpha < 0.5:
        raise bad("alpha", alpha, "strictly between 0 and 0.5", "Use 0.025, one-sided: the 95% interval.")
    ratio = pair(a, b, clusters, bounds)
    spread = spread_of_differences(bounds)
    return ratio, ratio.interval(method="t", level=1 - 2 * alpha, resamples=10_000, seed=0, bounds=spread)


def _tail(ratio: Ratio, interval: Interval, null: float, bounds: Bounds, *, above: bool) -> float | None:
    """The one-sided p-value of "the mean is above (below) `null`", the inverse of the interval's lower (upper) end."""
    if not interval.known:
        return None
    away = ratio.estimate - null if above else null - ratio.estimate
    count = ratio.sample.count
    if not ratio.agrees:
        return float(student.sf(away / ratio.standard_error, count - 1))
    assert bounds is not None  # an interval is known: they were given
    room = ratio.estimate + (bounds[1] - bounds[0]) if above else bounds[1] - bounds[0] - ratio.estimate
    share = away / room if room > 0 else float(away > 0)  # of the clusters that would have to be at their worst
    return float((1 - min(1.0, max(0.0, share))) ** count)


def _check_margin(margin: float) -> None:
    if not 0 < margin < float("inf"):
        raise bad("margin", margin, "above 0, in units of the score", "Fix the largest loss that would not matter.")


def _side(interval: Interval, null: float, above: Verdict, below: Verdict) -> Verdict:
    if interval.lower is not None and interval.lower > null:
        return above
    if interval.upper is not None and interval.upper < null:
        return below
    return "inconclusive"
