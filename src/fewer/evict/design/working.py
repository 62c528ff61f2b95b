"""Conditional Poisson sampling's two directions: from working probabilities to inclusion probabilities, and back.

Draw rows independently with working probabilities p and keep the draw only if it has m rows: that is the design. Its
inclusion probabilities are not p; both directions are here, for one head, in numpy and float64.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["find_inclusion", "find_working"]

Floats = NDArray[np.float64]

_CLOSE = 1e-9  # relative, of every pi; float32, in which they are stored, rounds by 6e-8
_MOST = 100
_SPAN = 20.0  # how many standard deviations of the count the frequencies must tell apart
_BELOW_ONE = float(np.nextafter(1.0, 0.0))
_GONE = 45.0  # a frequency counts for less than exp(-this)


def find_inclusion(p: Floats, m: int) -> Floats:
    """pi_i = p_i P(the others have m - 1 rows) / P(all have m rows), for n rows with p in (0, 1): [n].

    The two probabilities are sums over frequencies of the counts' characteristic function: exact in real arithmetic
    where there are n + 1 frequencies, and otherwise but for counts more than 20 standard deviations off and for
    frequencies that weigh less than exp(-45). Agrees with enumeration to 1e-10. sum(p) should be near m.
    """
    spread = float((p * (1.0 - p)).sum())
    grid = min(p.size + 1, int(_SPAN * np.sqrt(spread)) + 40)
    grid += 1 - grid % 2  # odd, so that no frequency is pi, where a factor can be 0
    angle = 2.0 * np.pi * np.arange((grid + 1) // 2) / grid
    angle = angle[2.0 * spread * np.sin(angle / 2.0) ** 2 < _GONE]
    turn = np.exp(1j * angle)[:, None]
    factor = 1.0 - p + p * turn  # [frequencies, n]
    product = factor.prod(axis=1, keepdims=True) * np.where(angle == 0.0, 1.0, 2.0)[:, None]  # each with its mirror
    all_rows = float((product * turn**-m).real.sum())
    others = ((product * turn ** (1 - m)) / factor).real.sum(axis=0)
    pi: Floats = np.minimum(p * others / all_rows, _BELOW_ONE)
    return pi


def find_working(target: Floats, m: int) -> tuple[Floats, Floats]:
    """Working probabilities p whose design has these inclusion probabilities, and the ones it has: [n] each.

    target: [n] in (0, 1), summing to m. The second is what `find_inclusion` gives for the first, and within 1e-9 of
    the target, relatively, unless a hundred steps were not enough; it is the one to keep either way.

    Each step moves the log-odds by (logit target - logit pi), times 1 - c / sum(c) with the c of Deville and Tillé
    (2005) for which c - c^2 / sum(c) = target (1 - target): Newton's step, with the inverse of the covariance of the
    draws taken as 1 / c on its diagonal. One dominating row makes the undamped step swing for ever. p exists and is
    unique up to a factor of the odds (Chen, Dempster and Liu 1994); the one that sums to m is taken.
    """
    goal = _logit(target)
    damping = 1.0 - _solve_shares(target * (1.0 - target))
    odds = goal.copy()
    best: tuple[float, Floats, Floats] | None = None
    for _ in range(_MOST):
        odds, p = _centre(odds, m)
        pi = find_inclusion(p, m)
        off = float(np.abs(pi / target - 1.0).max())
        if best is None or off < best[0]:
            best = off, p, pi
        if off < _CLOSE:
            break
        odds = odds + damping * (goal - _logit(pi))
    assert best is not None
    return best[1], best[2]


def _centre(odds: Floats, m: int) -> tuple[Floats, Floats]:
    """Log-odds shifted so that their probabilities sum to m, the likeliest count then; and the probabilities."""
    for _ in range(_MOST):
        p = 1.0 / (1.0 + np.exp(-odds))
        short = m - float(p.sum())
        if abs(short) < _CLOSE:
            break
        odds = odds + np.clip(short / float((p * (1.0 - p)).sum()), -2.0, 2.0)
    return odds, p


def _solve_shares(variance: Floats) -> Floats:
    """x = c / sum(c) with x (1 - x) sum(c) = variance for each row, summing to 1: [n].

    Given sum(c), each x is the smaller root, but for the largest row the larger one where the smaller ones cannot sum
    to 1. One unknown, found by bisection.
    """
    top = int(variance.argmax())

    def shares(total: float, sign: float) -> Floats:
        root = np.sqrt(np.maximum(1.0 - 4.0 * variance / total, 0.0))
        root[top] *= sign
        return (1.0 - root) / 2.0

    low = 4.0 * float(variance[top])
    sign = 1.0 if shares(low, 1.0).sum() >= 1.0 else -1.0
    high = 2.0 * low
    while (shares(high, sign).sum() - 1.0) * sign > 0.0 and high < low * 1e9:
        high *= 2.0
    for _ in range(60):
        middle = (low + high) / 2.0
        low, high = (middle, high) if (shares(middle, sign).sum() - 1.0) * sign > 0.0 else (low, middle)
    return shares(high, sign)


def _logit(pi: Floats) -> Floats:
    pi = np.clip(pi, 1e-300, _BELOW_ONE)
    return np.log(pi) - np.log1p(-pi)
