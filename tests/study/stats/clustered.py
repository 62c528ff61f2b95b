"""Clustered data that the statistics tests share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Clustered:
    """Items in clusters of 1 to `largest` items with a shared effect; two correlated scores and a 0/1 label."""

    clusters: NDArray[np.int64]
    x: NDArray[np.float64]
    y: NDArray[np.float64]
    label: NDArray[np.int64]


def draw_clustered(seed: int | np.random.Generator, clusters: int = 12, largest: int = 6, ties: int = 0) -> Clustered:
    """`ties` rounds both scores to that many steps per unit, so that many are equal."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(clusters), rng.integers(1, largest + 1, size=clusters))
    effect = rng.standard_normal(clusters)[labels]
    x = (effect + rng.standard_normal(labels.size)) / np.sqrt(2)
    y = 0.6 * x + 0.8 * rng.standard_normal(labels.size)
    label = (y + 0.5 * rng.standard_normal(labels.size) > 0).astype(np.int64)
    if ties:
        x, y = np.round(x * ties) / ties, np.round(y * ties) / ties
    return Clustered(labels, x, y, label)
