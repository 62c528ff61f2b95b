"""An upper bound on what any removal can save, from prices on the constraints: Theorem 4.3 of the paper.

Any prices give a valid bound (15); those of the linear relaxation give a tight one, and a closed form stands in where
the solver gives none. A bound below the target proves it impossible *under these constraints*; one above proves
nothing. Prices are in tokens for each unit of a row's mass, and tokens for each chunk.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from time import perf_counter
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fewer.errors import bad
from fewer.prune.entroprefill.screening import Screen
from fewer.types.number import check_number

__all__ = ["Bound", "Prices", "best_bound", "load_solver", "lp_prices", "row_prices", "upper_bound"]

_DEAREST = float(np.finfo(np.float64).max)


@dataclass(frozen=True, slots=True, eq=False)
class Prices:
    """Multipliers of (15), finite and at least 0. Raises BadInput."""

    rows: NDArray[np.float64]  # [a] y_a
    count: float  # t
    source: Literal["lp", "single row", "given"] = "given"

    def __post_init__(self) -> None:
        rows = np.asarray(self.rows, dtype=np.float64)
        if rows.ndim != 1 or not np.all((rows >= 0) & np.isfinite(rows)):
            raise bad("prices.rows", rows, "finite numbers of at least 0", "Use 0 for a row that costs nothing.")
        check_number("prices.count", self.count, float, 0.0, None, "Use 0 for chunks that cost nothing.")
        object.__setattr__(self, "rows", rows)


@dataclass(frozen=True, slots=True, eq=False)
class Bound:
    """No removal that meets the constraints saves more than `value` tokens. seconds: what it took to find out."""

    value: float
    prices: Prices
    seconds: float

    def excludes(self, target: int) -> bool:
        """Saving this many tokens is proven impossible under the constraints."""
        return self.value < target


def upper_bound(screen: Screen, prices: Prices) -> float:
    """U(y, t) of (15) in tokens, rounded upwards, so that the rounding of float64 sums cannot make it too small.

    A barred chunk cannot leave and adds nothing.

    Raises BadInput where the prices are of another number of rows.
    """
    if prices.rows.shape != screen.tolerance.shape:
        raise bad("prices.rows", prices.rows, f"one for each of {len(screen.tolerance)} rows", "Pass this table's.")
    hair = 2 * (sum(screen.mass.shape) + 8) * float(np.finfo(np.float64).eps)
    with np.errstate(over="ignore", under="ignore"):  # an infinite bound is a bound, and a lost denormal no token
        capacity = float(prices.rows @ screen.tolerance) + prices.count * screen.most_removed
        cost = prices.rows @ screen.mass + prices.count
        gain = np.where(screen.barred, 0.0, np.maximum(0.0, screen.sizes - cost * (1.0 - hair))).sum()
        return float((capacity + gain) * (1.0 + hair))


def load_solver() -> None:
    """Import SciPy's solver, most of a second once in a process, so that no prompt waits for it."""
    import_module("scipy.optimize")


def lp_prices(screen: Screen, time_limit_s: float) -> Prices | None:
    """The prices of the linear relaxation (HiGHS), or None if not solved in time. Raises BadInput.

    Rows are scaled by their tolerance. A row without tolerance is not the solver's: its price is free, and so high
    that no chunk with mass in it is worth it.
    """
    from scipy.optimize import linprog

    check_number("time_limit_s", time_limit_s, float, 0.0, None, "Give it a second.", open_low=True)
    strict = screen.tolerance == 0.0
    rows = _dearest(screen)
    allowed = ~(screen.mass[strict] > 0).any(axis=0) & ~screen.barred
    if not allowed.any():
        return Prices(rows, 0.0, "lp")
    table = np.vstack([screen.shares[~strict][:, allowed], np.ones(int(allowed.sum()))])
    limits = np.append(np.ones(len(table) - 1), screen.most_removed)
    options = {"time_limit": time_limit_s}
    found = linprog(-screen.sizes[allowed], table, limits, bounds=(0, 1), method="highs", options=options)
    if found.status != 0:
        return None
    prices = np.maximum(-found.ineqlin.marginals, 0.0)
    with np.errstate(over="ignore"):
        rows[~strict] = np.minimum(prices[:-1] / screen.tolerance[~strict], _DEAREST)
    return Prices(rows, float(prices[-1]), "lp")


def row_prices(screen: Screen) -> Prices:
    """The best prices on one constraint alone, in closed form: each row is a fractional knapsack, and so is the count.
    Barred chunks are in no knapsack.

    A knapsack's price is what its last chunk, in the order of tokens for mass, brings; 0 where everything fits.
    """
    mass, sizes = screen.mass[:, ~screen.barred], screen.sizes[~screen.barred].astype(np.float64)
    num_rows = len(mass)
    worth = np.full(mass.shape, _DEAREST)
    with np.errstate(over="ignore"):
        np.divide(sizes, mass, out=worth, where=mass > 0)
    np.minimum(worth, _DEAREST, out=worth)
    order = np.argsort(-worth, axis=1, kind="stable")
    filled = np.cumsum(np.take_along_axis(mass, order, axis=1), axis=1)
    fits = (filled <= screen.tolerance[:, None]).sum(axis=1)  # chunks that fit whole; the next is cut
    padded = np.hstack([np.take_along_axis(worth, order, axis=1), np.zeros((num_rows, 1))])
    price = padded[np.arange(num_rows), fits]
    with np.errstate(over="ignore"):
        bounds = price * screen.tolerance + np.maximum(0.0, sizes - price[:, None] * mass).sum(axis=1)
    descending, most = np.append(np.sort(sizes)[::-1], 0.0), min(screen.most_removed, len(sizes))
    if descending[:most].sum() <= bounds.min(initial=np.inf):
        return Prices(np.zeros(num_rows), float(descending[most]), "single row")
    best = np.arange(num_rows) == bounds.argmin()
    return Prices(np.where(best, price, 0.0), 0.0, "single row")


def best_bound(screen: Screen, time_limit_s: float) -> Bound:
    """The smaller of the bounds from `lp_prices`, if solved in time, and `row_prices`. Raises BadInput."""
    begin = perf_counter()
    choices = [prices for prices in (lp_prices(screen, time_limit_s), row_prices(screen)) if prices is not None]
    value, prices = min(((upper_bound(screen, prices), prices) for prices in choices), key=lambda pair: pair[0])
    return Bound(value, prices, perf_counter() - begin)


def _dearest(screen: Screen) -> NDArray[np.float64]:
    """[a]: of rows without tolerance, a price at which no chunk with mass in them brings anything; 0 of the others."""
    with np.errstate(divide="ignore", over="ignore"):
        worth = np.where(screen.mass > 0, screen.sizes / screen.mass, 0.0).max(axis=1, initial=0.0)
    return np.where(screen.tolerance == 0.0, np.minimum(worth * (1.0 + 1e-9), _DEAREST), 0.0)
