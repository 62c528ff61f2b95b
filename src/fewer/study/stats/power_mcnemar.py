"""The power of McNemar's exact test, without approximation: summed over the number of discordant items."""

from __future__ import annotations

import numpy as np
from scipy.stats import binom

from fewer.errors import bad
from fewer.study.stats.power import check_test, independent_items, least
from fewer.study.stats.sample import Floats


def mcnemar_power(
    n: int, wins: float, losses: float, *, cluster_size: float = 1, icc: float = 0.0, alpha: float = 0.05
) -> float:
    """The chance of p <= alpha, two-sided, with n items.

    `wins` and `losses` are the shares of items that only a, and only b, has right. Clusters count by the design effect
    (n / design effect independent items), which is an approximation; the rest is exact.
    """
    check_test(alpha, 2)
    if min(wins, losses) < 0 or not 0 < wins + losses <= 1:
        raise bad(
            "wins + losses", (wins, losses), "two shares with a sum above 0, up to 1", "Estimate them from a pilot."
        )
    items = independent_items(n, cluster_size, icc)
    middle, width = items * (wins + losses), 10 * np.sqrt(items * (wins + losses)) + 50  # all but 1e-15 of the chance
    discordant = np.arange(max(0, int(middle - width)), min(items, int(middle + width)) + 1)
    edge = find_edge(discordant.astype(np.float64), alpha)
    share = wins / (wins + losses)
    rejected = binom.cdf(edge, discordant, share) + binom.sf(discordant - edge - 1, discordant, share)
    return float(np.sum(binom.pmf(discordant, items, wins + losses) * rejected))


def find_edge(discordant: Floats, alpha: float) -> Floats:
    """The largest count of the rarer kind at which the test rejects, by number of discordant items; -1 if none."""
    edge = binom.ppf(alpha / 2, discordant, 0.5)
    edge = np.where(discordant > 0, edge, 0)
    too_many: Floats = edge - (binom.cdf(edge, discordant, 0.5) > alpha / 2)
    return too_many


def mcnemar_sample_size(
    wins: float,
    losses: float,
    *,
    power: float = 0.8,
    cluster_size: float = 1,
    icc: float = 0.0,
    alpha: float = 0.05,
) -> int:
    """The items it takes for this power.

    The power of an exact test climbs in small saws; this is a number at which it is reached and one less is not.
    """
    if wins == losses:
        raise bad("wins", wins, "different from losses", "Equal shares are the null hypothesis; nothing detects it.")

    def reach(n: int) -> float:
        return mcnemar_power(n, wins, losses, cluster_size=cluster_size, icc=icc, alpha=alpha)

    return least(reach, power, start=1)
