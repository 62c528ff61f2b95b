"""The sign-flip test of a paired difference, over clusters.

If the arms were exchangeable, swapping them on a whole cluster would change nothing but the sign of that cluster's
difference. The test counts how many of the 2^clusters assignments of signs have a mean difference at least as large:
all of them where they are few, and otherwise a seeded sample with the observed assignment counted in (Phipson and
Smyth 2010), so that p is never 0 and the test is valid at any number of draws.

The null hypothesis is that each cluster's difference is symmetric about 0. A zero mean of skewed differences is not
enough for exactness with few clusters.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike

from fewer.errors import bad
from fewer.study.stats.bootstrap import CELLS, check_resampling
from fewer.study.stats.means import pair
from fewer.study.stats.results import Alternative, PValue, check_alternative
from fewer.study.stats.sample import Floats, Labels

MOST_EXACT = 20  # clusters with a difference: 2^20 sums


def sign_flip(
    a: ArrayLike,
    b: ArrayLike,
    clusters: Labels,
    *,
    alternative: Alternative = "two-sided",
    resamples: int = 10_000,
    seed: int = 0,
) -> PValue:
    """p for "the mean of a - b, paired by item, is 0"; "greater" says that a is larger.

    Exact for up to 20 clusters that differ, and by `resamples` seeded sign assignments beyond. Clusters whose
    differences sum to 0 say nothing about the sign; without any other, p is 1.
    """
    check_alternative(alternative)
    check_resampling("bca", 0.95, resamples, seed)
    ratio = pair(a, b, clusters, None)
    sample, sums = ratio.sample, ratio.above
    if sample.count == 0:
        raise bad("len(a)", 0, "1 or more", "A test needs items.")
    tolerance = 1e-9 * float(np.abs(sums).sum())  # equal sums differ by rounding only
    sums = sums[np.abs(sums) > tolerance]
    observed = float(sums.sum())

    def count(flipped: Floats) -> int:
        if alternative == "greater":
            return int(np.sum(flipped >= observed - tolerance))
        if alternative == "less":
            return int(np.sum(flipped <= observed + tolerance))
        return int(np.sum(np.abs(flipped) >= abs(observed) - tolerance))

    if sums.size <= MOST_EXACT:
        p = count(enumerate_flips(sums)) / 2**sums.size
        name = f"sign flips over clusters, exact, all 2^{sums.size}"
    else:
        hits = sum(count(flipped) for flipped in draw_flips(sums, resamples, seed))
        p = (hits + 1) / (resamples + 1)
        name = f"sign flips over clusters, {resamples} draws and the observed one, seed {seed}"
    return PValue(p, alternative, sample.n, sample.count, name)


def enumerate_flips(sums: Floats) -> Floats:
    """The totals of all 2^k ways to sign the sums (k,)."""
    totals = np.zeros(1)
    for value in sums:
        totals = np.concatenate([totals + value, totals - value])
    return totals


def draw_flips(sums: Floats, resamples: int, seed: int) -> Iterator[Floats]:
    """The totals of random signs, a few at a time."""
    rng = np.random.default_rng(seed)
    step = max(1, CELLS // sums.size)
    for start in range(0, resamples, step):
        signs = rng.integers(2, size=(min(step, resamples - start), sums.size)) * 2 - 1
        yield signs @ sums
