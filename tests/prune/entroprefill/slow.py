"""The paper's equations (2) to (19) as plain loops over Python floats; nothing is shared with the package."""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import product
from math import exp, fsum, log, sqrt

Spans = list[tuple[int, int]]


def slow_masses(row: list[float], spans: Spans) -> list[float]:
    return [fsum(row[start:stop]) for start, stop in spans]


def slow_pool(
    rows: list[list[list[float]]], sinks: list[bool], num_groups: int, tau: float, zeta: float, z_min: float
) -> tuple[list[float], list[float | None], list[float], list[float]]:
    """(2) to (5): residuals, entropies (None where the residual is zero), weights, the pooled measure."""
    size, r = len(sinks), len(rows) // num_groups
    means = [[fsum(row[j] for row in head) / len(head) for j in range(size)] for head in rows]
    residuals = [fsum(a[j] for j in range(size) if not sinks[j]) for a in means]
    collisions = [
        fsum((a[j] / z) ** 2 for j in range(size) if not sinks[j]) if z > 0 else None
        for a, z in zip(means, residuals, strict=True)
    ]
    weights: list[float] = []
    for g in range(num_groups):
        members = range(g * r, (g + 1) * r)
        with localcontext() as context:
            context.prec, context.Emin, context.Emax = 40, -(10**9), 10**9
            powers = {h: Decimal(collisions[h]) ** (1 / Decimal(tau)) for h in members if residuals[h] >= z_min}
            v = {h: float(power / sum(powers.values())) for h, power in powers.items()}
        weights += [(1 - zeta) * (v.get(h, 0.0) if v else 1 / r) + zeta / r for h in members]
    mu = [fsum(weights[h] * means[h][j] for h in range(len(rows))) / num_groups for j in range(size)]
    return residuals, [None if c is None else -log(c) for c in collisions], weights, mu


def slow_priorities(
    mu: list[float], spans: Spans, eps_s: float, lam: float
) -> tuple[float, list[float], list[float], list[float], list[float]]:
    """(8) and (9): document mass, masses, lifts, concentrations, scores."""
    total = fsum(slow_masses(mu, spans))
    num_tokens = sum(stop - start for start, stop in spans)
    masses, lifts, concentrations, scores = [], [], [], []
    for start, stop in spans:
        n = stop - start
        pi = n / num_tokens
        p = [mu[j] / total for j in range(start, stop)]
        mass = fsum(p)
        phat = [(p_j + eps_s * pi / n) / (mass + eps_s * pi) for p_j in p]
        lift = (mass + eps_s * pi) / ((1 + eps_s) * pi)
        kappa = (n * fsum(x * x for x in phat) - 1) / (n - 1) if n > 1 else 0.0
        masses.append(mass)
        lifts.append(lift)
        concentrations.append(kappa)
        scores.append(log(lift) + lam * kappa)
    return total, masses, lifts, concentrations, scores


def slow_chi_square(row: list[float], mu: list[float]) -> float:
    """(11)."""
    return fsum((a - m) ** 2 / m for a, m in zip(row, mu, strict=True) if m > 0)


def slow_row_bound(q: float, omega: float, chi2: float) -> float:
    """(12)."""
    return min(1.0, q / omega, q + sqrt(chi2 * q * (1 - q)))


def slow_scan(
    mass: list[list[float]], tolerance: list[float], sizes: list[int], min_kept: int, target: int, order: list[int]
) -> list[int]:
    """The proposer of section 4.2: which chunks go."""
    removed: list[int] = []
    used = [0.0] * len(tolerance)
    for i in order:
        if sum(sizes[j] for j in removed) >= target:
            break
        fits = all(used[a] + mass[a][i] <= tolerance[a] for a in range(len(tolerance)))
        if fits and len(removed) + 1 <= len(sizes) - min_kept:
            removed.append(i)
            used = [used[a] + mass[a][i] for a in range(len(tolerance))]
    return removed


def slow_optimum(mass: list[list[float]], tolerance: list[float], sizes: list[int], min_kept: int) -> int:
    """D* of (14): every subset, in exact rational arithmetic."""
    table = [[Fraction(m) for m in row] for row in mass]
    limits = [Fraction(e) for e in tolerance]
    best = 0
    for x in product((0, 1), repeat=len(sizes)):
        saving = sum(n * x_i for n, x_i in zip(sizes, x, strict=True))
        if saving <= best or sum(x) > len(sizes) - min_kept:
            continue
        if all(sum(m for m, x_i in zip(row, x, strict=True) if x_i) <= e for row, e in zip(table, limits, strict=True)):
            best = saving
    return best


def slow_upper_bound(
    mass: list[list[float]], tolerance: list[float], sizes: list[int], min_kept: int, y: list[float], t: float
) -> float:
    """(15), in exact rational arithmetic until the end."""
    prices, count = [Fraction(price) for price in y], Fraction(t)
    total = sum((p * Fraction(e) for p, e in zip(prices, tolerance, strict=True)), count * (len(sizes) - min_kept))
    for i, n in enumerate(sizes):
        total += max(Fraction(0), n - count - sum(p * Fraction(row[i]) for p, row in zip(prices, mass, strict=True)))
    return float(total)


def slow_knapsack(mass: list[float], tolerance: float, sizes: list[int]) -> float:
    """The fractional knapsack of one row: the best by tokens for mass, the last one cut."""
    left, value = Fraction(tolerance), Fraction(0)
    ranked = sorted(zip(sizes, mass, strict=True), key=lambda c: Fraction(c[1]) / c[0])
    for n, m in ranked:
        part = Fraction(1) if m <= left else left / Fraction(m)
        value += n * part
        left -= Fraction(m) * part
    return float(value)


def slow_streak(history: list[frozenset[int] | None], theta: float) -> int:
    """Algorithm 1's bookkeeping for (19), forwards: a predecessor and a streak."""
    before, length = None, 0
    for kept in history:
        if kept is None:
            before, length = None, 0
            continue
        if before is not None:
            d = len(kept ^ before) / max(1, len(kept | before))
            length = length + 1 if d <= theta else 0
        before = kept
    return length


def slow_separation(zeta: float, r: int, s: int, delta: float, tau: float) -> float:
    """The right side of (6)."""
    return zeta / r + (1 - zeta) / (1 + (s - 1) * exp(-delta / tau))


def slow_sink_ceiling(zeta: float, r: int, n: int, c0: float, tau: float) -> float:
    """The right side of (7)."""
    return zeta / r + (1 - zeta) * n ** (-1 / tau) / (n ** (-1 / tau) + c0 ** (1 / tau))
