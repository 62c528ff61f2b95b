"""Every sample a design can draw, with its probability: written from the designs' definitions, slow, in float64.

An outcome is a frozenset of rows; a design's distribution is a dict from outcomes to probabilities.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import chain, combinations, pairwise, permutations
from math import floor, prod

import numpy as np

Outcomes = Mapping[frozenset[int], float]

TINY = 1e-12  # what rounding leaves of a zero


def list_poisson(pi: Sequence[float]) -> Outcomes:
    rows = range(len(pi))
    subsets = chain.from_iterable(combinations(rows, size) for size in range(len(pi) + 1))
    return {frozenset(kept): prod(pi[i] if i in kept else 1 - pi[i] for i in rows) for kept in subsets}


def list_conditional_poisson(working: Sequence[float], size: int) -> Outcomes:
    fitting = {kept: chance for kept, chance in list_poisson(working).items() if len(kept) == size}
    total = sum(fitting.values())
    return {kept: chance / total for kept, chance in fitting.items()}


def list_starts(pi: Sequence[float]) -> list[tuple[float, float, frozenset[int]]]:
    """The finitely many samples of systematic sampling in this order: (from, to, rows) over starts in [0, 1)."""
    ends = np.cumsum(pi)
    cuts = sorted({0.0, 1.0, *(float(end - floor(end)) for end in ends)})
    found = []
    for low, high in pairwise(cuts):
        if high - low > TINY:
            steps = (low + high) / 2 + np.arange(len(pi))
            rows = [k for k in range(len(pi)) if any(ends[k] - pi[k] <= step < ends[k] for step in steps)]
            found.append((low, high, frozenset(rows)))
    return found


def list_systematic(pi: Sequence[float]) -> Outcomes:
    found: dict[frozenset[int], float] = defaultdict(float)
    for low, high, rows in list_starts(pi):
        found[rows] += high - low
    return found


def list_tournament(pi: Sequence[float]) -> Outcomes:
    """The tree of duels: rows 0 and 1, 2 and 3, ...; then the survivors of the first two pairs, and so on."""
    places = 1
    while places < len(pi):
        places *= 2
    Branch = tuple[frozenset[int], int, float]  # taken so far, who goes on, with what

    def play(first: int, size: int) -> dict[Branch, float]:
        if size == 1:
            return {(frozenset(), first, pi[first] if first < len(pi) else 0.0): 1.0}
        half = size // 2
        after: dict[Branch, float] = defaultdict(float)
        for (taken_a, a, has_a), chance_a in play(first, half).items():
            for (taken_b, b, has_b), chance_b in play(first + half, half).items():
                chance, taken, total = chance_a * chance_b, taken_a | taken_b, has_a + has_b
                if total <= 1 + TINY:  # one of them gets all
                    first_wins = has_a / total if total else 0.0
                    after[taken, a, total] += chance * first_wins
                    after[taken, b, total] += chance * (1 - first_wins)
                else:  # one of them is in, the other goes on with the rest
                    first_in = (1 - has_b) / (2 - total) if total < 2 - TINY else 1.0
                    after[taken | {a}, b, total - 1] += chance * first_in
                    after[taken | {b}, a, total - 1] += chance * (1 - first_in)
        return after

    found: dict[frozenset[int], float] = defaultdict(float)
    for (taken, last, has), chance in play(0, places).items():
        assert min(has, abs(1 - has)) < TINY
        if chance > TINY:
            found[taken | {last} if has > 0.5 else taken] += chance
    return found


def shuffle(listing: Callable[[Sequence[float]], Outcomes], pi: Sequence[float]) -> Outcomes:
    """The same design after a random permutation of the rows."""
    found: dict[frozenset[int], float] = defaultdict(float)
    orders = list(permutations(range(len(pi))))
    for order in orders:
        for kept, chance in listing([pi[i] for i in order]).items():
            found[frozenset(order[k] for k in kept)] += chance / len(orders)
    return found


def joint(outcomes: Outcomes, n: int) -> np.ndarray:
    """How likely each pair of rows is to stay together; the diagonal is pi: [n, n]."""
    found = np.zeros((n, n))
    for kept, chance in outcomes.items():
        rows = sorted(kept)
        found[np.ix_(rows, rows)] += chance
    return found


def expect(outcomes: Outcomes, value: Callable[[frozenset[int]], float]) -> float:
    return sum(chance * value(kept) for kept, chance in outcomes.items())
