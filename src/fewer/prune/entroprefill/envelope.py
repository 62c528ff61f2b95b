"""What a removal can take from single attention rows, when only its pooled mass is known.

Theorem 4.1 and Lemma 4.2 of the paper, for the rows that were pooled and fixed queries, keys and values. Nothing here
speaks of other rows or deeper layers, and with many heads the bounds are often 1: they say so. Numbers are float64.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from fewer.errors import bad
from fewer.types.number import check_number

__all__ = ["all_rows_bound", "chi_square", "output_bound", "row_bound"]

_ROUNDING = 1e-3  # a float32 softmax sums to a little more than one


def chi_square(row: Tensor, mu: Tensor) -> Tensor:
    """D(a || mu) of (11) for rows [..., n] and a measure [n]: [...] float64; infinite off its support."""
    a, m = row.to(torch.float64), mu.to(torch.float64)
    held = m > 0
    terms = torch.where(held, (a - m).square() / torch.where(held, m, 1.0), torch.where(a > 0, torch.inf, 0.0))
    return terms.sum(-1)


def row_bound(q: ArrayLike, omega: ArrayLike, chi2: ArrayLike | None = None) -> NDArray[np.float64]:
    """The most that a row of coefficient `omega` can have on a removal of pooled mass q: (12), broadcast.

    chi2: the row's `chi_square`. Without it the bound is min(1, q/omega): at the most that a divergence can be,
    1/omega - 1, the third term of (12) is never the smallest. Raises BadInput for a q outside [0, 1] (up to 1.001 is
    rounding and counts as 1), an omega outside (0, 1] and a negative chi2.
    """
    mass, share = np.asarray(q, dtype=np.float64), np.asarray(omega, dtype=np.float64)
    if not np.all((mass >= 0) & (mass <= 1 + _ROUNDING)):
        raise bad("q", q, "at least 0 and at most 1", "Pass the pooled mass of the removal.")
    if not np.all((share > 0) & (share <= 1 + _ROUNDING)):
        raise bad("omega", omega, "above 0 and at most 1", "Pass the rows' mixture coefficients.")
    mass = np.minimum(mass, 1.0)
    with np.errstate(over="ignore"):  # an infinite term is cut at 1
        bound = np.minimum(1.0, mass / np.minimum(share, 1.0))
    if chi2 is None:
        return np.asarray(bound)
    spread, room = np.asarray(chi2, dtype=np.float64), mass * (1.0 - mass)
    if not np.all(spread >= 0):
        raise bad("chi2", chi2, "at least 0", "Pass what chi_square gave.")
    return np.asarray(np.minimum(bound, mass + np.sqrt(np.where(room > 0, spread, 0.0) * room)))


def all_rows_bound(q: float, num_heads: int, num_observers: int, zeta: float) -> float:
    """The most that any pooled row can have on a removal of pooled mass q: min(1, H W q/zeta).

    With num_observers 1, the most of any head's mean over its observers. Raises BadInput.
    """
    check_number("q", q, float, 0.0, 1.0 + _ROUNDING, "Pass the pooled mass of the removal.")
    check_number("num_heads", num_heads, int, 1, None, "Count the query heads that were pooled.")
    check_number("num_observers", num_observers, int, 1, None, "Count the rows of each head.")
    check_number("zeta", zeta, float, 0.0, 1.0, "Pass what the heads were pooled with.", open_low=True)
    return min(1.0, num_heads * num_observers * q / zeta)


def output_bound(eta: float, value_norm: float) -> float:
    """How far one row's attention output moves when mass eta in [0, 1) is removed: 2 V eta, in the values' units.

    value_norm: the largest norm of a value. For this row's fixed query, keys and values only (Lemma 4.2). Raises
    BadInput.
    """
    check_number("eta", eta, float, 0.0, None, "Pass the row's mass on the removal.")
    if eta >= 1.0:
        raise bad("eta", eta, "below 1", "A row that loses everything has no output to compare.")
    check_number("value_norm", value_norm, float, 0.0, None, "Pass the largest norm of a value.")
    return 2.0 * value_norm * eta
