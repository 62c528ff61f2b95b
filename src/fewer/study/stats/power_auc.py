"""The power of an area under the ROC curve against a null area (Hanley and McNeil 1982), for planning.

Their variance assumes exponential scores and needs only the area and the numbers of items. It is an approximation,
good to a few percent of the standard error for areas below 0.95; analyse with `auc`, not with this.
"""

from __future__ import annotations

import math

from scipy.special import ndtr

from fewer.errors import bad
from fewer.study.stats.design import design_effect
from fewer.study.stats.power import least, normal_edge


def auc_standard_error(area: float, positives: float, negatives: float) -> float:
    """The standard error of an area with so many independent items of each class."""
    if not 0 < area < 1:
        raise bad("area", area, "strictly between 0 and 1", "Plan with the area you expect, for example 0.7.")
    if min(positives, negatives) < 1:
        raise bad("positives, negatives", (positives, negatives), "1 or more each", "Plan more items.")
    two_positives, two_negatives = area / (2 - area), 2 * area**2 / (1 + area)
    variance = (
        area * (1 - area) + (positives - 1) * (two_positives - area**2) + (negatives - 1) * (two_negatives - area**2)
    )
    return math.sqrt(variance / (positives * negatives))


def auc_power(
    n: int,
    area: float,
    prevalence: float,
    *,
    null: float = 0.5,
    cluster_size: float = 1,
    icc: float = 0.0,
    alpha: float = 0.05,
    sides: int = 2,
) -> float:
    """The chance to reject `null` with n items of which the share `prevalence` is positive, when the area is `area`.

    Clusters multiply the variance by the design effect. Rejections on the wrong side are not counted.
    """
    if not 0 < prevalence < 1:
        raise bad("prevalence", prevalence, "strictly between 0 and 1", "Give the expected share of positives.")
    positives, inflate = n * prevalence, math.sqrt(design_effect(cluster_size, icc))
    expected = auc_standard_error(null, positives, n - positives) * inflate
    actual = auc_standard_error(area, positives, n - positives) * inflate
    return float(ndtr((abs(area - null) - normal_edge(alpha, sides) * expected) / actual))


def auc_sample_size(
    area: float,
    prevalence: float,
    *,
    power: float = 0.8,
    null: float = 0.5,
    cluster_size: float = 1,
    icc: float = 0.0,
    alpha: float = 0.05,
    sides: int = 2,
) -> int:
    """The fewest items, of both classes together, that reject `null` with this power."""

    def reach(n: int) -> float:
        return auc_power(n, area, prevalence, null=null, cluster_size=cluster_size, icc=icc, alpha=alpha, sides=sides)

    return least(reach, power, start=math.ceil(1 / max(min(prevalence, 1 - prevalence), 1e-9)))
