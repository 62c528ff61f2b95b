"""Second-order truth: every sample of every design, with its exact probability, for few rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product

import numpy as np
import pytest
import torch
from outcomes import (
    Outcomes,
    expect,
    joint,
    list_conditional_poisson,
    list_poisson,
    list_starts,
    list_systematic,
    list_tournament,
    shuffle,
)
from scipy.linalg import eigh

from fewer.evict.design.pivotal import count_duels, play
from fewer.evict.design.systematic import take_steps
from fewer.evict.design.working import find_inclusion, find_working
from fewer.evict.inclusion import inclusion
from tolerances import FP32, FP64

SIZES = [
    ([1.0, 1.0], 1),
    ([1.0, 3.0, 2.0], 2),
    ([0.2, 5.0, 1.0, 1.5, 0.7], 2),
    ([4.0, 0.1, 0.1, 3.0, 2.0], 3),
    ([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0], 3),
    ([1.0] * 8, 4),
    ([9.0, 0.5, 0.5, 2.0, 1.0, 8.0, 0.1, 3.0], 5),
    ([9.0, 0.5, 0.5, 2.0, 1.0, 8.0, 0.1], 1),
]
PI = [inclusion(torch.tensor([size], dtype=torch.float64), torch.tensor([m]), 0.1)[0].tolist() for size, m in SIZES]
SHORT = [pi for pi in PI if len(pi) <= 5]
MIXED = np.array([3.0, -1.0, 2.5, -4.0, 0.5, 7.0, -0.25, 1.0])  # the numbers whose sum is estimated


def list_maximum_entropy(pi: Sequence[float]) -> Outcomes:
    """Conditional Poisson with the package's working probabilities, all rows below 1 included."""
    tail = [i for i, share in enumerate(pi) if share < 1]
    m = round(sum(pi[i] for i in tail))
    working, _ = find_working(np.array([pi[i] for i in tail]), m)
    sure = frozenset(range(len(pi))) - frozenset(tail)
    listed = list_conditional_poisson(working.tolist(), m)
    return {sure | {tail[k] for k in kept}: chance for kept, chance in listed.items()}


FIXED: dict[str, tuple[Callable[[Sequence[float]], Outcomes], list[list[float]]]] = {
    "systematic, position": (list_systematic, PI),
    "systematic, random": (lambda pi: shuffle(list_systematic, pi), SHORT),
    "pivotal, position": (list_tournament, PI),
    "pivotal, random": (lambda pi: shuffle(list_tournament, pi), SHORT),
    "conditional Poisson": (list_maximum_entropy, PI),
}
CASES = [pytest.param(listing, pi, id=f"{name} {len(pi)}") for name, (listing, cases) in FIXED.items() for pi in cases]
NEGATIVE = [case for case in CASES if not str(case.id).startswith("systematic")]


def estimate(pi: Sequence[float], kept: frozenset[int]) -> float:
    return sum(MIXED[i] / pi[i] for i in kept)


@pytest.mark.parametrize("pi", PI)
def test_poisson_is_unbiased_and_its_variance_is_the_single_sum(pi: list[float]) -> None:
    outcomes, x = list_poisson(pi), MIXED[: len(pi)]
    assert sum(outcomes.values()) == pytest.approx(1.0, abs=FP64)
    assert expect(outcomes, lambda kept: estimate(pi, kept)) == pytest.approx(x.sum(), abs=FP64)
    variance = expect(outcomes, lambda kept: (estimate(pi, kept) - x.sum()) ** 2)
    share = np.array(pi)
    assert variance == pytest.approx(float(((1 - share) / share * x**2).sum()), rel=FP64)
    single_sum = expect(outcomes, lambda kept: sum((1 - pi[i]) / pi[i] ** 2 * x[i] ** 2 for i in kept))
    assert single_sum == pytest.approx(variance, rel=FP64)


@pytest.mark.parametrize(("listing", "pi"), CASES)
def test_fixed_size_designs_are_unbiased_and_of_exact_size(
    listing: Callable[[Sequence[float]], Outcomes], pi: list[float]
) -> None:
    outcomes = listing(pi)
    tolerance = FP32 if listing is list_maximum_entropy else FP64  # solved for; what was found holds to FP64, below
    assert sum(outcomes.values()) == pytest.approx(1.0, abs=FP64)
    assert {len(kept) for kept in outcomes} == {round(sum(pi))}
    assert joint(outcomes, len(pi)).diagonal() == pytest.approx(pi, abs=tolerance)
    assert expect(outcomes, lambda kept: estimate(pi, kept)) == pytest.approx(MIXED[: len(pi)].sum(), abs=tolerance)


@pytest.mark.parametrize("pi", PI)
def test_conditional_poisson_is_unbiased_with_the_pi_it_hands_on(pi: list[float]) -> None:
    target = np.array([share for share in pi if share < 1])
    m, x = round(target.sum()), MIXED[: len(target)]
    working, found = find_working(target, m)
    outcomes = list_conditional_poisson(working.tolist(), m)
    assert joint(outcomes, len(target)).diagonal() == pytest.approx(found, abs=FP64)
    assert expect(outcomes, lambda kept: estimate(found, kept)) == pytest.approx(x.sum(), abs=FP64)


@pytest.mark.parametrize(("listing", "pi"), NEGATIVE)
def test_rows_meet_at_most_as_often_as_independent_ones(
    listing: Callable[[Sequence[float]], Outcomes], pi: list[float]
) -> None:
    """Negative pairwise dependence: for sums of numbers of one sign, Poisson's variance is then an upper bound."""
    outcomes, n = listing(pi), len(pi)
    together = joint(outcomes, n)
    share = together.diagonal()
    apart = ~np.eye(n, dtype=bool)
    assert (together - np.outer(share, share))[apart].max() < FP64
    x = np.abs(MIXED[:n])
    variance = expect(outcomes, lambda kept: (sum(x[i] / share[i] for i in kept) - x.sum()) ** 2)
    assert variance <= ((1 - share) / share * x**2).sum() * (1 + FP64)


@pytest.mark.parametrize(("listing", "pi"), NEGATIVE)
def test_numbers_of_both_signs_can_vary_more_than_the_single_sum_says(
    listing: Callable[[Sequence[float]], Outcomes], pi: list[float]
) -> None:
    """The largest ratio of the true variance to the single sum over all x: above 1, and at most 2 in these cases.

    Deviations from the attention output sum to 0 and so have both signs: for them the single sum is no upper bound.
    """
    together = joint(listing(pi), len(pi))
    share = together.diagonal()
    tail = np.array(pi) < 1
    covariance = (together - np.outer(share, share)) / np.outer(share, share)
    single = np.diag((1 - share) / share)
    ratios = eigh(covariance[np.ix_(tail, tail)], single[np.ix_(tail, tail)], eigvals_only=True)
    assert 1.0 < ratios[-1] <= 2.0 * (1 + FP64)


def test_systematic_sampling_can_bring_rows_together_more_often_than_chance() -> None:
    together = joint(list_systematic([0.5] * 8), 8)
    assert together[0, 2] == pytest.approx(0.5, abs=FP64)
    assert together[0, 1] == pytest.approx(0.0, abs=FP64)


def test_twins_of_a_duel_vary_twice_as_much_as_the_single_sum() -> None:
    outcomes = list_tournament([0.5, 0.5])
    x = {0: 1.0, 1: -1.0}
    assert expect(outcomes, lambda kept: sum(x[i] / 0.5 for i in kept) ** 2) == pytest.approx(4.0, abs=FP64)
    assert sum((1 - 0.5) / 0.5 * value**2 for value in x.values()) == 2.0


@pytest.mark.parametrize("pi", [pi for pi in PI if len(pi) == 8])
def test_a_tournament_of_neighbours_keeps_every_block_at_its_share(pi: list[float]) -> None:
    for kept in list_tournament(pi):
        for size in (2, 4, 8):
            for first in range(0, 8, size):
                share = sum(pi[first : first + size])
                assert abs(len(kept & set(range(first, first + size))) - share) < 1


def tail_of(pi: Sequence[float]) -> torch.Tensor:
    return torch.tensor([[share if share < 1 else 0.0 for share in pi]], dtype=torch.float64)


@pytest.mark.parametrize("pi", PI)
def test_steps_take_the_rows_of_every_start(pi: list[float]) -> None:
    tail = tail_of(pi)
    for low, high, rows in list_starts(tail[0].tolist()):
        for start in (low, low + 1e-9, (low + high) / 2, high - 1e-9):
            taken = take_steps(tail, torch.tensor([start], dtype=torch.float64))
            assert set(taken[0].nonzero()[:, 0].tolist()) == rows


@pytest.mark.parametrize("pi", PI)
def test_duels_end_in_the_outcomes_of_the_tree_and_in_no_others(pi: list[float]) -> None:
    tail = tail_of(pi)
    ends = {frozenset(kept) for kept, chance in list_tournament(tail[0].tolist()).items() if chance > 0}
    luck = torch.tensor(list(product([0.0, 1.0 - 2.0**-53], repeat=count_duels(len(pi)))), dtype=torch.float64)
    taken = play(tail.expand(luck.shape[0], -1), luck)
    assert {frozenset(kept.nonzero()[:, 0].tolist()) for kept in taken} == ends


def probability_apart(p: Sequence[float], m: int, without: int) -> tuple[float, float]:
    """P(m rows of all) and P(m - 1 rows of all but one), adding one row at a time."""

    def count(rows: Sequence[float], wanted: int) -> float:
        chances = np.zeros(len(rows) + 1)
        chances[0] = 1.0
        for share in rows:
            chances[1:] = chances[1:] * (1 - share) + chances[:-1] * share
            chances[0] *= 1 - share
        return float(chances[wanted])

    return count(p, m), count([share for i, share in enumerate(p) if i != without], m - 1)


@pytest.mark.parametrize(("n", "m"), [(60, 1), (60, 30), (400, 7), (1_500, 600)])
def test_inclusion_of_many_rows_agrees_with_adding_one_row_at_a_time(n: int, m: int) -> None:
    rng = np.random.default_rng(n + m)
    target = inclusion(torch.tensor(np.exp(2 * rng.standard_normal((1, n)))), torch.tensor([m]), 0.1)[0].numpy()
    p = np.minimum(target, 0.999)
    p *= m / p.sum()
    found = find_inclusion(p, m)
    assert found.sum() == pytest.approx(m, rel=FP64)
    for row in rng.integers(0, n, 5):
        all_rows, others = probability_apart(p.tolist(), m, int(row))
        assert found[row] == pytest.approx(p[row] * others / all_rows, rel=FP64)


@pytest.mark.parametrize("seed", range(40))
def test_working_probabilities_are_found_however_skewed_the_target(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 200))
    spread, floor = float(rng.choice([0.1, 1.0, 4.0, 12.0])), float(rng.choice([1e-6, 1e-3, 0.1]))
    size = torch.tensor(np.exp(spread * rng.standard_normal((1, n))))
    pi = inclusion(size, torch.tensor([int(rng.integers(1, n))]), floor)[0].numpy()
    target = pi[pi < 1]
    working, found = find_working(target, round(target.sum()))
    assert np.abs(found / target - 1).max() < FP32
    assert ((working > 0) & (working < 1)).all()
    assert working.sum() == pytest.approx(round(target.sum()), abs=FP32)


STAGES = [
    pytest.param(list_poisson, list_poisson, id="Poisson, then Poisson"),
    pytest.param(list_tournament, list_poisson, id="pivotal, then Poisson"),
    pytest.param(list_systematic, list_tournament, id="systematic, then pivotal"),
]


@pytest.mark.parametrize(("first", "second"), STAGES)
@pytest.mark.parametrize("pi", SHORT)
def test_drawing_again_from_a_sample_multiplies_the_probabilities(
    first: Callable[[Sequence[float]], Outcomes], second: Callable[[Sequence[float]], Outcomes], pi: list[float]
) -> None:
    """The second draw's probabilities depend on what the first one left, and sum_S x / (pi1 pi2) is unbiased still."""
    x, size = MIXED[: len(pi)], [0.7, 3.0, 1.0, 0.1, 2.0]
    mean = chances = 0.0
    for kept, chance in first(pi).items():
        rows = sorted(kept)
        if not rows:
            chances += chance
            continue
        score = torch.tensor([[size[i] for i in rows]], dtype=torch.float64)
        again = inclusion(score, torch.tensor([max(1, len(rows) - 1)]), 0.1)[0].tolist()
        for left, then in second(again).items():
            mean += chance * then * sum(x[rows[k]] / (pi[rows[k]] * again[k]) for k in left)
            chances += chance * then
    assert chances == pytest.approx(1.0, abs=FP64)
    assert mean == pytest.approx(x.sum(), abs=FP64)
