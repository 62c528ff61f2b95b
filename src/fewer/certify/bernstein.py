"""A radius that is a theorem, and what it asks for: the range of *all* rows, known beforehand."""

from __future__ import annotations

from math import log

import torch
from torch import Tensor

from fewer.certify.variance import check_delta
from fewer.errors import bad

__all__ = ["bernstein_radius"]


def bernstein_radius(vhat: Tensor, bound: float, delta: float = 0.1) -> Tensor:
    """With probability at least 1 - delta, ||sum of (I/pi - 1) x|| is at most this: [...], units of the output.

    vhat: [...], sum over the retained rows of (1 - pi)/pi^2 ||x||^2. bound: at least ||x||/pi of *every* row that could
    be evicted, fixed before the draw. Assumes Poisson sampling, and x that do not depend on the draw: one query, fixed
    before it, and the true y and N in x = a (v - y)/N. No direction is chosen: the inequality is one for vectors.

    Half of delta goes to the variance V, of which vhat is an unbiased sum of independent terms in [0, bound^2]:
    sqrt(V) <= sqrt(R) + sqrt(R + vhat), R = bound^2 ln(2/delta)/2 (the lower tail of a sum of non-negative terms). The
    other half goes to the sum itself: P(||sum|| >= s) <= 2 exp(-s^2 / (2V + 2 bound s/3)) (Pinelis 1994, "Optimum
    bounds for the distributions of martingales in Banach spaces", Theorem 3.4, in a Hilbert space).

    For several fresh draws give draw number b the level delta/(b (b + 1)): then all hold together, whenever one stops.

    In a served model nobody knows such a bound that is of use: ||x||/pi <= 2 max||v||/pi_min is true and above the
    output's norm. At the bound that the retained rows show it would be about 1.7 times the published radius. Raises
    BadInput for a bound that is not a positive number, and a delta outside (0, 1).
    """
    if not 0 < bound < float("inf"):
        raise bad("bound", bound, "a finite number above 0", "Pass the largest ||x||/pi that any row can have.")
    half = -log(check_delta(delta) / 2)
    room = bound * bound * half / 2
    variance = (room**0.5 + (room + vhat.double()).sqrt()).square()
    level = half + log(2)
    slope = bound * level / 3
    return slope + torch.sqrt(slope * slope + 2 * variance * level)
