"""Which chunks can go together: every attention row loses at most its tolerance, and enough chunks stay.

The exact screening problem (14) of the paper, its one-pass proposer, and its optimum for small cases. Constraint rows
are any rows with a mass on each chunk: absolute, relative to the row's document mass, of some heads or of all. `a` rows
and `k` candidate chunks of `N` tokens. Not covered: rows that are not in the table.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from fewer.errors import bad
from fewer.types.number import check_number

__all__ = ["Removal", "Screen", "exact", "scan"]

_ROUNDING = 1e-3  # a float32 softmax sums to a little more than one
_LARGEST = 1e9  # a chunk with more of a row than this times its tolerance is as impossible as one with this much


@dataclass(frozen=True, slots=True, eq=False)
class Screen:
    """The constraints and the target. A mass up to 1.001 is rounding and counts as 1. Raises BadInput.

    With no rows every removal meets the row constraints; with target 0 there is nothing to save. Without `barred`, no
    chunk has to stay by name.
    """

    mass: NDArray[np.float64]  # [a, k] in [0, 1]
    tolerance: NDArray[np.float64]  # [a] in [0, 1)
    sizes: NDArray[np.int64]  # [k] tokens, at least 1
    min_kept: int  # m_0: chunks that stay at least, 0..k
    target: int  # tokens to save at least, 0..N
    barred: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))  # [k] chunks that stay

    def __post_init__(self) -> None:
        mass = np.ascontiguousarray(self.mass, dtype=np.float64)
        tolerance = np.ascontiguousarray(self.tolerance, dtype=np.float64)
        sizes = np.asarray(self.sizes)
        if mass.ndim != 2 or tolerance.shape != mass.shape[:1] or sizes.shape != mass.shape[1:]:
            shapes = (mass.shape, tolerance.shape, sizes.shape)
            raise bad("mass, tolerance and sizes", shapes, "of shapes [a, k], [a] and [k]", "Pass one table's.")
        if not np.all((mass >= 0.0) & (mass <= 1.0 + _ROUNDING)):
            extremes = (float(mass.min()), float(mass.max()))
            raise bad("mass (lowest, highest)", extremes, "in 0 to 1", "Pass attention masses; bypass NaN.")
        if not np.all((tolerance >= 0.0) & (tolerance < 1.0)):
            extremes = (float(tolerance.min()), float(tolerance.max()))
            raise bad(
                "tolerance (lowest, highest)", extremes, "at least 0 and below 1", "Use 0.2 to let a row lose a fifth."
            )
        if sizes.size and (not np.issubdtype(sizes.dtype, np.integer) or sizes.min() < 1):
            raise bad("sizes", sizes, "whole numbers of at least 1 token", "Leave empty chunks out.")
        barred = np.asarray(self.barred, dtype=np.bool_)
        if not barred.size:
            barred = np.zeros(len(sizes), dtype=np.bool_)
        if barred.shape != sizes.shape:
            raise bad("barred", barred.shape, f"of shape {sizes.shape}, one a chunk", "Leave it out to bar none.")
        object.__setattr__(self, "barred", barred)
        check_number("min_kept", self.min_kept, int, 0, len(sizes), "Use 0 to let every chunk go.")
        check_number("target", self.target, int, 0, int(sizes.sum()), "Use 0 to save nothing.")
        object.__setattr__(self, "mass", np.minimum(mass, 1.0))
        object.__setattr__(self, "tolerance", tolerance)
        object.__setattr__(self, "sizes", sizes.astype(np.int64))

    @property
    def most_removed(self) -> int:
        """k - m_0: how many chunks may go."""
        return len(self.sizes) - self.min_kept

    @property
    def shares(self) -> NDArray[np.float64]:
        """[a, k]: masses in units of their row's tolerance. Nothing of a row without tolerance is 0, anything 1e9."""
        scale = self.tolerance[:, None]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            shares = np.where(self.mass > 0, self.mass / scale, 0.0)
        return np.minimum(shares, _LARGEST)


@dataclass(frozen=True, slots=True, eq=False)
class Removal:
    """A set of chunks that meets every constraint in float64, with no tolerance added."""

    removed: NDArray[np.bool_]  # [k]
    saving: int  # tokens
    slack: NDArray[np.float64]  # [a]: what is left of each row's tolerance, at least 0
    reached: bool  # saving >= target


def scan(screen: Screen, order: NDArray[np.intp]) -> Removal:
    """Offer the chunks once in this order and remove what fits, until the target is met: O(k a).

    A heuristic: a target it misses may still be possible. Raises BadInput for an order that is not of all k chunks.
    """
    count = len(screen.sizes)
    if not np.array_equal(np.sort(order), np.arange(count)):
        raise bad("order", order, f"each of the {count} chunks once", "Take it from order_chunks.")
    columns = np.ascontiguousarray(screen.mass.T)
    used = np.zeros_like(screen.tolerance)
    removed = np.zeros(count, dtype=np.bool_)
    saving, left = 0, screen.most_removed
    for number in order.tolist():
        if saving >= screen.target or not left:
            break
        after = used + columns[number]
        if not screen.barred[number] and (after <= screen.tolerance).all():
            used, left = after, left - 1
            removed[number] = True
            saving += int(screen.sizes[number])
    return Removal(removed, saving, screen.tolerance - used, saving >= screen.target)


def exact(screen: Screen, time_limit_s: float) -> int | None:
    """D*, the most tokens that a removal can save (the target is no limit), or None if not proven in time.

    A mixed-integer program (HiGHS). The solver's own tolerance is wider than a row's last digits, so the chunks it
    chooses are added up again: a set that does not fit is excluded by name and the rest solved again. Rounding of k
    float64 additions is granted, so no removal of `scan` saves more. Raises BadInput.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp

    check_number("time_limit_s", time_limit_s, float, 0.0, None, "Give it a second.", open_low=True)
    count, deadline = len(screen.sizes), perf_counter() + time_limit_s
    if not count:
        return 0
    hair = screen.tolerance * (1.0 + 2 * count * np.finfo(np.float64).eps)
    alone = (screen.mass <= hair[:, None]).all(axis=0) & ~screen.barred
    rows = np.where(alone, screen.shares, 0.0)
    limits = [LinearConstraint(np.vstack([rows, np.ones(count)]), ub=[*np.ones(len(rows)), screen.most_removed])]
    while (left := deadline - perf_counter()) > 0:
        options = {"time_limit": left, "mip_rel_gap": 0.0}
        found = milp(-screen.sizes, integrality=1, bounds=Bounds(0, alone), constraints=limits, options=options)
        if found.status != 0:
            return None
        chosen = np.flatnonzero(found.x > 0.5)
        too_many = _cover(screen.mass, hair, chosen)
        if too_many is None:
            return int(screen.sizes[chosen].sum())
        limits.append(LinearConstraint(np.isin(np.arange(count), too_many)[None], ub=len(too_many) - 1))
    return None


def _cover(mass: NDArray[np.float64], limit: NDArray[np.float64], chosen: NDArray[np.intp]) -> NDArray[np.intp] | None:
    """None if the chosen chunks fit; else some of them that already do not, none of which could be spared."""
    if (mass[:, chosen].sum(axis=1) <= limit).all():
        return None
    for number in chosen:
        rest = chosen[chosen != number]
        if not (mass[:, rest].sum(axis=1) <= limit).all():
            chosen = rest
    return chosen
