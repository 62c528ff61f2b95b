"""How often a certificate holds: the share of items whose true error is at most the certified radius.

Overall coverage can be right while the certificate fails where it matters, so it is also given within bins of the
radius (do tight certificates hold?) and of the error (are large errors caught?). Coverage within bins of the error is
a diagnostic: large errors are by themselves the likelier failures, and no certificate promises a level there.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from fewer.errors import bad
from fewer.study.stats.bins import BinnedMean, binned_means
from fewer.study.stats.proportions import proportion
from fewer.study.stats.results import Interval
from fewer.study.stats.sample import Floats, Labels, read_numbers


def certificate_coverage(
    errors: ArrayLike,
    radii: ArrayLike,
    clusters: Labels,
    *,
    level: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> Interval:
    """The share of items with error <= radius (an infinite radius always holds).

    Wilson's interval where items are independent, the cluster bootstrap otherwise.
    """
    wrong, radius = _read(errors, radii)
    return proportion(wrong <= radius, clusters, level=level, resamples=resamples, seed=seed)


def conditional_coverage(
    errors: ArrayLike,
    radii: ArrayLike,
    clusters: Labels,
    *,
    by: Literal["radius", "error"] = "radius",
    bins: int = 5,
    level: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> list[BinnedMean]:
    """The share of items with error <= radius in bins of equal mass of the radius or of the error."""
    wrong, radius = _read(errors, radii)
    if by not in ("radius", "error"):
        raise bad("by", by, "'radius' or 'error'", "Use 'radius'.")
    order = radius if by == "radius" else wrong
    return binned_means(wrong <= radius, order, clusters, bins=bins, level=level, resamples=resamples, seed=seed)


def _read(errors: ArrayLike, radii: ArrayLike) -> tuple[Floats, Floats]:
    wrong = read_numbers("errors", errors, within=(0, np.finfo(np.float64).max))
    return wrong, read_numbers("radii", radii, size=wrong.size, within=(0, np.inf))
