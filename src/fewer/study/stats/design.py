"""What clusters cost: how alike items of a cluster are, and how many independent items they are worth."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from fewer.errors import bad
from fewer.study.stats.sample import Labels, read_clusters, read_numbers


def icc(values: ArrayLike, clusters: Labels) -> float:
    """The intraclass correlation, by the one-way analysis of variance estimator (Donner 1986), for unequal sizes too.

    (MSB - MSW) / (MSB + (m0 - 1) MSW). Around a true 0 it is negative half of the time: plan with 0 then. Raises
    BadInput without two clusters, without two items in one cluster, and where all values are equal.
    """
    numbers = read_numbers("values", values)
    sample = read_clusters(clusters, numbers.size)
    n, count, sizes = sample.n, sample.count, sample.sum(np.ones_like(numbers))
    if not 2 <= count < n:
        shown = f"{count} clusters of {n} items"
        raise bad("clusters", shown, "2 clusters or more, one with 2 items", "Assume an icc, or 0 for single items.")
    means = sample.sum(numbers) / sizes
    between = float(np.sum(sizes * (means - numbers.mean()) ** 2) / (count - 1))
    inside = float(np.sum((numbers - means[sample.codes]) ** 2) / (n - count))
    size = (n - float(np.sum(sizes**2)) / n) / (count - 1)
    total = between + (size - 1) * inside
    if total <= 0:
        raise bad("values", numbers[:1].tolist(), "at least two different values", "Constants have no correlation.")
    return (between - inside) / total


def cluster_size(clusters: Labels, n: int) -> float:
    """The expected size of a random item's cluster, sum(m^2) / sum(m): what the design effect wants for unequal m."""
    sample = read_clusters(clusters, n)
    if n == 0:
        raise bad("n", 0, "1 or more", "A cluster size needs items.")
    sizes = sample.sum(np.ones(n))
    return float(np.sum(sizes**2) / n)


def design_effect(cluster_size: float, icc: float) -> float:
    """1 + (m - 1) icc: how many times as many items it takes as if they were independent (Kish 1965)."""
    if cluster_size < 1:
        raise bad("cluster_size", cluster_size, "1 or more", "Use 1 where items are independent.")
    if not 0 <= icc <= 1:
        raise bad("icc", icc, "between 0 and 1", "Plan with 0 where the estimate is negative.")
    return 1 + (cluster_size - 1) * icc
