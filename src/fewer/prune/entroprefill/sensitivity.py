"""What another tolerance would have done to one layer's proposal, with the same attention and the same order.

The scan is a heuristic: the tokens it saves are a step function of the tolerance that rises on the whole and may fall
at a step. Prices bound what *any* removal gains. Not covered: the audit of the other removal, and the answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fewer.prune.entroprefill.dual import Bound, upper_bound
from fewer.prune.entroprefill.screening import Removal, Screen, scan

__all__ = ["FACTORS", "OneMore", "Sensitivity", "Variant", "smallest_tolerance", "vary"]

FACTORS = (0.9, 1.1)
_HIGHEST = 1 - 1e-9
_STEPS = 1000


@dataclass(frozen=True, slots=True)
class Variant:
    """The scan under another tolerance. Chunks are numbers among the prompt's, from 0."""

    factor: float
    tolerance: float
    saving: int  # tokens
    reaches_least: bool
    leaves_too: tuple[int, ...]  # beside, or in place of, those that leave now
    stays_then: tuple[int, ...]  # of those that leave now
    dual_bound: float  # tokens; at the present prices, so valid and perhaps not the tightest


@dataclass(frozen=True, slots=True)
class OneMore:
    """A chunk that fits beside those removed from this tolerance on; its number among the prompt's, from 0."""

    chunk: int
    tolerance: float


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """What moves with the tolerance. Tolerances are shares of a row's mass, tokens whole prompt tokens."""

    tolerance: float
    variants: tuple[Variant, ...]
    one_more: OneMore | None  # None: as many left as may, or none would fit below 1
    least_tolerance: float | None  # the smallest at which the scan saves what is asked at least; None: none found
    target_tolerance: float | None  # the same for the target, where it stops
    tokens_per_tolerance: (
        float  # may be infinite; a change of the tolerance by x raises the best removal's bound by at most x times it
    )


def vary(
    screen: Screen, order: NDArray[np.intp], removal: Removal, bound: Bound, least: int, index: Sequence[int]
) -> Sensitivity:
    """The sensitivity of a removal by `scan(screen, order)`; every row of the screen has one tolerance.

    least: tokens asked for at least. index: the candidates' numbers among the prompt's chunks.
    """
    names = np.array(index)
    tolerance, slope = float(screen.tolerance.max(initial=0.0)), _slope(bound)
    return Sensitivity(
        tolerance,
        tuple(_vary(screen, order, removal, bound, least, names, factor) for factor in FACTORS),
        _one_more(screen, removal, names),
        smallest_tolerance(screen, order, least, bound),
        smallest_tolerance(screen, order, screen.target, bound),
        slope,
    )


def smallest_tolerance(screen: Screen, order: NDArray[np.intp], wanted: int, bound: Bound) -> float | None:
    """The smallest tolerance, one for all rows, under which the scan saves `wanted` tokens; exact in float64.

    Between two tolerances at which some chunk begins to fit, the scan does the same; so it is run at these alone, from
    where the dual bound allows it on. None where none below 1 does, or more than 1,000 would have to be tried.
    """
    columns, sizes = np.ascontiguousarray(screen.mass.T), screen.sizes.tolist()
    slope, now = _slope(bound), float(screen.tolerance.max(initial=0.0))
    tolerance = max(0.0, now - (bound.value - wanted) / slope * (1 + 1e-9) - 1e-12) if 0 < slope < np.inf else 0.0
    for _ in range(_STEPS):
        used = np.zeros(columns.shape[1])
        saving, left, following = 0, screen.most_removed, np.inf
        for number in order.tolist():
            if saving >= screen.target or not left:
                break
            after = used + columns[number]
            needed = np.inf if screen.barred[number] else float(after.max(initial=0.0))
            if needed <= tolerance:
                used, left, saving = after, left - 1, saving + sizes[number]
            else:
                following = min(following, needed)
        if saving >= wanted:
            return float(used.max(initial=0.0))
        if following > _HIGHEST:
            return None
        tolerance = following
    return None


def _slope(bound: Bound) -> float:
    """The sum of the prices: tokens for a unit of tolerance of all rows; infinite where it overflows."""
    with np.errstate(over="ignore"):
        return float(bound.prices.rows.sum())


def _vary(
    screen: Screen,
    order: NDArray[np.intp],
    removal: Removal,
    bound: Bound,
    least: int,
    names: NDArray[np.int64],
    factor: float,
) -> Variant:
    other = min(float(screen.tolerance.max(initial=0.0)) * factor, _HIGHEST)
    changed = replace(screen, tolerance=np.full_like(screen.tolerance, other))
    found = scan(changed, order)
    return Variant(
        factor,
        other,
        found.saving,
        found.saving >= least,
        tuple(names[found.removed & ~removal.removed].tolist()),
        tuple(names[removal.removed & ~found.removed].tolist()),
        upper_bound(changed, bound.prices),
    )


def _one_more(screen: Screen, removal: Removal, names: NDArray[np.int64]) -> OneMore | None:
    """The kept chunk that fits at the smallest tolerance beside those removed; of equal ones the first."""
    if int(removal.removed.sum()) >= screen.most_removed:
        return None
    used = screen.mass[:, removal.removed].sum(axis=1)
    needed = (used[:, None] + screen.mass).max(axis=0, initial=0.0)
    needed[removal.removed | screen.barred] = np.inf
    chunk = int(needed.argmin())
    return OneMore(int(names[chunk]), float(needed[chunk])) if needed[chunk] <= _HIGHEST else None
