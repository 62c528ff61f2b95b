"""Shares of 0/1 outcomes: Clopper-Pearson, Wilson, and McNemar for pairs where items are independent draws.

Items that share a document are not independent: for those the share is a mean over clusters, and `sign_flip` takes the
place of McNemar.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import binomtest

from fewer.errors import bad
from fewer.study.stats.bootstrap import check_resampling
from fewer.study.stats.ratio import Method, Ratio
from fewer.study.stats.results import Interval, PValue
from fewer.study.stats.sample import Labels, read_clusters, read_outcomes


def proportion(
    outcomes: ArrayLike,
    clusters: Labels,
    *,
    method: Method | Literal["wilson", "clopper-pearson", "auto"] = "auto",
    level: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> Interval:
    """The share of ones among 0/1 outcomes.

    "wilson" (1927) is close to the level on average and can be a little under it; "clopper-pearson" (1934) is never
    under it and wider. Both want independent items and are refused where two items share a cluster. "bca",
    "percentile" and "t" are those of `mean`, with the bounds 0 and 1. "auto" is Wilson for independent items and BCa
    for the others.
    """
    values = read_outcomes("outcomes", outcomes)
    sample = read_clusters(clusters, values.size)
    if method == "auto":
        method = "wilson" if sample.alone else "bca"
    if method in ("bca", "percentile", "t"):
        ratio = Ratio.of(values, np.ones_like(values), sample)
        return ratio.interval(method=method, level=level, resamples=resamples, seed=seed, bounds=(0, 1))
    if method not in ("wilson", "clopper-pearson"):
        raise bad("method", method, "wilson, clopper-pearson, bca, percentile, t or auto", "Use 'auto'.")
    check_resampling("bca", level, resamples, seed)
    if not sample.alone:
        raise bad("method", method, "bca, percentile or t where items share clusters", "Use 'bca'.")
    n = values.size
    if n == 0:
        return Interval.unknown(None, level, 0, 0, "there are no items")
    test, name = binomtest(int(values.sum()), n), "Wilson" if method == "wilson" else "Clopper-Pearson"
    ends = test.proportion_ci(level, method="wilson" if method == "wilson" else "exact")
    return Interval(float(values.mean()), float(ends.low), float(ends.high), level, n, n, f"{name}, independent items")


def mcnemar(a: ArrayLike, b: ArrayLike) -> PValue:
    """The exact test that two arms are right on equally many items: 0/1 outcomes, paired by independent items.

    Only the items that one arm has right and the other wrong count; under the null each is a fair coin (McNemar 1947,
    two-sided binomial). Without any such item p is 1.
    """
    first = read_outcomes("a", a)
    second = read_outcomes("b", b, size=first.size)
    wins, losses = int(np.sum(first > second)), int(np.sum(first < second))
    p = float(binomtest(wins, wins + losses).pvalue) if wins + losses else 1.0
    name = f"McNemar, exact, {wins} against {losses} discordant items"
    return PValue(p, "two-sided", first.size, first.size, name)
