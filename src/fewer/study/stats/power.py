"""How many items a paired comparison needs, what it then detects, and how surely.

Differences are a - b paired by item, `sd` is their standard deviation over items, and the test is the one that
`mean(..., method="t")` inverts: Student's t on clusters - 1 degrees of freedom, with the variance of the mean taken
as sd^2 (1 + (m - 1) icc) / n for clusters of m items. With m = 1 it is the paired t-test's exact power, for normal
differences. For non-inferiority give the margin plus the expected difference as `difference`, sides=1 and the one-sided
alpha of the test (`noninferiority` takes .025).

Power is for planning. Computed from the difference that was observed it says nothing that the p-value did not.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from scipy.optimize import brentq
from scipy.special import ndtri
from scipy.stats import nct
from scipy.stats import t as student

from fewer.errors import bad
from fewer.study.stats.design import design_effect

MOST_ITEMS = 10**9


def paired_power(
    n: int,
    difference: float,
    sd: float,
    *,
    cluster_size: float = 1,
    icc: float = 0.0,
    alpha: float = 0.05,
    sides: int = 2,
) -> float:
    """The chance of p < alpha with `n` items when the mean difference truly is `difference`."""
    check_test(alpha, sides)
    if sd <= 0 or not math.isfinite(sd):
        raise bad("sd", sd, "above 0", "Give the standard deviation of the differences, from a pilot run.")
    effect, freedom = design_effect(cluster_size, icc), n / cluster_size - 1
    if freedom < 1:
        raise bad("n", n, f"at least {math.ceil(2 * cluster_size)}, two clusters", "Plan more items.")
    shift = abs(difference) / sd * math.sqrt(n / effect)
    edge = float(student.ppf(1 - alpha / sides, freedom))
    right_way = float(nct.sf(edge, freedom, shift))
    wrong_way = float(nct.cdf(-edge, freedom, shift)) if sides == 2 and shift < 7 else 0.0  # beyond 7, under 1e-11
    return right_way + wrong_way


def paired_sample_size(
    difference: float,
    sd: float,
    *,
    power: float = 0.8,
    cluster_size: float = 1,
    icc: float = 0.0,
    alpha: float = 0.05,
    sides: int = 2,
) -> int:
    """The fewest items (in all, not clusters) that detect `difference` with this power."""

    def reach(n: int) -> float:
        return paired_power(n, difference, sd, cluster_size=cluster_size, icc=icc, alpha=alpha, sides=sides)

    return least(reach, power, start=math.ceil(2 * cluster_size))


def detectable_difference(
    n: int,
    sd: float,
    *,
    power: float = 0.8,
    cluster_size: float = 1,
    icc: float = 0.0,
    alpha: float = 0.05,
    sides: int = 2,
) -> float:
    """The smallest true difference that `n` items detect with this power."""
    check_power(power, alpha)

    def short(difference: float) -> float:
        reached = paired_power(n, difference, sd, cluster_size=cluster_size, icc=icc, alpha=alpha, sides=sides)
        return reached - power

    top = sd
    while short(top) < 0:
        top *= 2
    return float(brentq(short, 0, top, xtol=1e-12 * sd))


def least(reach: Callable[[int], float], power: float, start: int) -> int:
    """The least whole number from `start` on whose power is enough, for a power that rises with it."""
    check_power(power, 0.0)
    low, high = start - 1, start
    while reach(high) < power:
        low, high = high, 2 * high
        if high > MOST_ITEMS:
            raise bad("power", power, "within reach of a billion items", "Plan for a larger difference.")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reach(middle) >= power else (middle, high)
    return high


def check_power(power: float, alpha: float) -> None:
    """Refuses a power that is no probability, or that not testing at all would reach."""
    if not alpha < power < 1:
        raise bad("power", power, f"above {alpha:g} and below 1", "Use 0.8 or 0.9.")


def check_test(alpha: float, sides: int) -> None:
    """Refuses a significance level or a number of sides that no test has."""
    if not 0 < alpha < 0.5:
        raise bad("alpha", alpha, "strictly between 0 and 0.5", "Use 0.05 two-sided, or 0.025 one-sided.")
    if sides not in (1, 2):
        raise bad("sides", sides, "1 or 2", "Use 2 unless the direction was fixed beforehand.")


def normal_edge(alpha: float, sides: int) -> float:
    """The standard normal quantile beyond which a test at alpha rejects."""
    check_test(alpha, sides)
    return float(ndtri(1 - alpha / sides))


def independent_items(n: int, cluster_size: float, icc: float) -> int:
    """How many independent items n clustered ones are worth, rounded down."""
    return math.floor(n / design_effect(cluster_size, icc))
