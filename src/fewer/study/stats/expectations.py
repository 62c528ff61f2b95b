"""What chance alone would give, in closed form: no simulation, so no noise in the baseline.

A random baseline that is simulated once is one more random number; its expectation is known. Where the comparison
is paired by item, the functions give the expectation per item, ready for `mean_difference`.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import hypergeom

from fewer.errors import bad
from fewer.study.stats.sample import Floats, read_numbers


@dataclass(frozen=True, slots=True)
class Moments:
    """A random quantity's exact expectation and variance."""

    mean: float
    variance: float


def average_seeds(values: ArrayLike, items: Sequence[Hashable]) -> tuple[list[Hashable], Floats]:
    """Each item's mean over its seeds: the item ids in order of first appearance, and their means (items,).

    Seeds are not items: ten seeds on one question say how noisy the arm is there, not how it does on other questions,
    and counting them as ten items makes every interval too narrow. The mean over the seeds that were run is the exact
    expectation over those seeds, and what is left varies over items, as the intervals assume. Raises BadInput where
    items have unequal numbers of seeds: a missing run would count as if it had gone like the others.
    """
    ids = list(items)
    numbers = read_numbers("values", values, size=len(ids))
    places: dict[Hashable, int] = {}
    codes = np.array([places.setdefault(item, len(places)) for item in ids], dtype=np.intp)
    counts = np.bincount(codes, minlength=len(places))
    for place in np.flatnonzero(counts != counts.max(initial=0)):
        legal = f"{counts.max()}, as many as the other items have"
        raise bad(f"seeds of item {list(places)[place]!r}", int(counts[place]), legal, "Score failed runs, or drop it.")
    return list(places), np.bincount(codes, weights=numbers, minlength=len(places)) / counts


def random_choice(scores: ArrayLike) -> Floats:
    """The expected score per item (items,) of choosing one of its options at random; `scores` is (items, options)."""
    table = np.asarray(scores, dtype=np.float64)
    if table.ndim != 2 or table.size == 0 or not np.isfinite(table).all():
        raise bad("scores", scores, "a table of finite numbers, items by options", "Give the score of every option.")
    means: Floats = table.mean(axis=1)
    return means


def chance_accuracy(options: ArrayLike) -> Floats:
    """The expected 0/1 score per item of guessing among its options with one right: 1 / options (items,)."""
    counts = read_numbers("options", options, within=(1, 1e9))
    chances: Floats = 1 / counts
    return chances


def expected_best(values: ArrayLike, draws: int) -> float:
    """The expected largest of `draws` different values, drawn at random from these.

    For 0/1 values this is the unbiased pass@k of Chen et al. 2021. It is what picking the best of `draws` runs after
    the fact gains over `values.mean()` without any skill.
    """
    numbers = np.sort(read_numbers("values", values))
    _check_draws(draws, numbers.size)
    ways = [math.comb(place, draws - 1) for place in range(numbers.size)]  # the value at `place` is the largest drawn
    total = math.comb(numbers.size, draws)
    return float(sum(value * (way / total) for value, way in zip(numbers.tolist(), ways, strict=True)))


def chance_of_hit(n: int, relevant: int, drawn: int) -> float:
    """The chance that `drawn` of `n` chunks, chosen at random, hold at least one of the `relevant` ones.

    The expected share of the relevant ones among the chosen (recall at random) is drawn / n.
    """
    _check_draws(drawn, n, least=0)
    if not 0 <= relevant <= n:
        raise bad("relevant", relevant, f"0 to {n}", "Count the relevant chunks among the n.")
    return float(hypergeom.sf(0, n, relevant, drawn))


def random_subset(values: ArrayLike, drawn: int) -> Moments:
    """The mean of `drawn` of the values, chosen at random without replacement: its exact moments.

    The variance is S^2 / r (1 - r / n) with S^2 over n - 1 (Cochran 1977, 2.6): 0 where all are drawn.
    """
    numbers = read_numbers("values", values)
    _check_draws(drawn, numbers.size)
    n = numbers.size
    spread = float(numbers.var(ddof=1)) if n > 1 else 0.0
    return Moments(float(numbers.mean()), spread / drawn * (1 - drawn / n))


def random_gating(full: ArrayLike, arm: ArrayLike, fraction: float) -> Floats:
    """The expected score per item (items,) when a random `fraction` of the arm's answers is recomputed in full.

    f * full + (1 - f) * arm, exactly, however the fraction is drawn as long as every item has the same chance. A
    gate is better than chance where its scores exceed these, paired by item. `fraction` is taken as fixed.
    """
    if not 0 <= fraction <= 1:
        raise bad("fraction", fraction, "between 0 and 1", "Give the share of answers that the gate recomputed.")
    best = read_numbers("full", full)
    cheap = read_numbers("arm", arm, size=best.size)
    return fraction * best + (1 - fraction) * cheap


def random_pairing(a: ArrayLike, b: ArrayLike) -> float:
    """The expected mean |a - b| if the values of b were dealt to the items at random.

    What two arms would differ by if they had nothing in common but their distributions. (The mean of a - b does not
    depend on the pairing at all.) Sorting instead of all pairs: O(n log n).
    """
    first = read_numbers("a", a)
    second = np.sort(read_numbers("b", b, size=first.size))
    if first.size == 0:
        raise bad("len(a)", 0, "1 or more", "An expectation needs items.")
    below = np.searchsorted(second, first)
    sums = np.concatenate([[0.0], np.cumsum(second)])
    distances = first * below - sums[below] + (sums[-1] - sums[below]) - first * (first.size - below)
    return float(distances.sum() / first.size**2)


def chance_agreement(a: Sequence[Hashable], b: Sequence[Hashable]) -> float:
    """The expected share of equal labels if those of b were dealt at random (Cohen 1960): sum of p_a(x) p_b(x)."""
    first, second = list(a), list(b)
    if not first or len(first) != len(second):
        raise bad("len(b)", len(second), f"{len(first)}, as many as a, and 1 or more", "Pair the labels by item.")
    counts: dict[Hashable, int] = {}
    for label in second:
        counts[label] = counts.get(label, 0) + 1
    return sum(counts.get(label, 0) for label in first) / len(first) ** 2


def _check_draws(draws: int, n: int, least: int = 1) -> None:
    if not least <= draws <= n:
        raise bad("draws", draws, f"{least} to {n}, as many as there are", "Draw fewer, or give more values.")
