"""Closed forms against enumeration of everything that could have happened."""

from __future__ import annotations

from itertools import combinations, permutations

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score

from fewer.errors import BadInput
from fewer.study import stats
from tolerances import FP64

VALUES = [0.3, 0.9, 0.1, 0.9, 0.0, 0.5]
OTHERS = [0.2, 0.9, 0.4, 0.1, 0.0, 1.0]


def test_seeds_are_averaged_within_their_item():
    ids, means = stats.average_seeds([0.0, 0.2, 1.0, 0.4], ["b", "a", "b", "a"])
    assert (ids, means.tolist()) == (["b", "a"], pytest.approx([0.5, 0.3], abs=FP64))
    assert stats.average_seeds([], [])[1].shape == (0,)


def test_items_need_all_their_seeds():
    with pytest.raises(BadInput, match="seeds of item 'a' is 1; it must be 2, as many as the other items have"):
        stats.average_seeds([0.0, 0.2, 1.0], ["b", "a", "b"])


def test_seeds_counted_as_items_would_narrow_the_interval():
    rng = np.random.default_rng(0)
    items = np.repeat(np.arange(40), 5)
    values = rng.random(40)[items] + 0.01 * rng.random(200)
    _, means = stats.average_seeds(values, items.tolist())
    wrong, right = (stats.mean(scores, None, method="t") for scores in (values, means))
    assert right.estimate == pytest.approx(wrong.estimate, abs=FP64)
    assert right.upper - right.lower > 2 * (wrong.upper - wrong.lower)


def test_a_random_choice_among_options():
    assert stats.random_choice([[0.0, 1.0, 0.5], [1.0, 1.0, 1.0]]).tolist() == [0.5, 1.0]
    assert stats.chance_accuracy([4, 2, 1]).tolist() == [0.25, 0.5, 1.0]
    with pytest.raises(BadInput, match="a table of finite numbers"):
        stats.random_choice([0.1, 0.2])
    with pytest.raises(BadInput, match=r"options\[0\] is 0.0"):
        stats.chance_accuracy([0])


@pytest.mark.parametrize("draws", range(1, 7))
def test_the_best_of_some_draws(draws):
    best = [max(chosen) for chosen in combinations(VALUES, draws)]
    assert stats.expected_best(VALUES, draws) == pytest.approx(np.mean(best), abs=FP64)


def test_the_best_of_0_and_1_is_pass_at_k():
    """1 - C(n - c, k) / C(n, k), with c = 3 right of n = 10."""
    outcomes = [1] * 3 + [0] * 7
    assert stats.expected_best(outcomes, 4) == pytest.approx(1 - 35 / 210, abs=FP64)
    assert stats.expected_best(np.arange(2000) < 1000, 800) == 1.0


@pytest.mark.parametrize("drawn", range(7))
def test_the_chance_of_a_hit(drawn):
    hits = [bool({0, 1} & set(chosen)) for chosen in combinations(range(6), drawn)]
    assert stats.chance_of_hit(6, 2, drawn) == pytest.approx(np.mean(hits), abs=FP64)
    assert stats.chance_of_hit(6, 0, drawn) == 0.0


@pytest.mark.parametrize("drawn", range(1, 7))
def test_a_random_subset(drawn):
    means = [np.mean(chosen) for chosen in combinations(VALUES, drawn)]
    moments = stats.random_subset(VALUES, drawn)
    assert (moments.mean, moments.variance) == pytest.approx((np.mean(means), np.var(means)), abs=FP64)


def test_a_random_subset_of_one_value():
    assert stats.random_subset([0.4], 1) == stats.Moments(0.4, 0.0)


@pytest.mark.parametrize("recomputed", range(7))
def test_random_gating(recomputed):
    full, arm = np.array(VALUES), np.array(OTHERS)
    gated = []
    for chosen in combinations(range(6), recomputed):
        scores = arm.copy()
        scores[list(chosen)] = full[list(chosen)]
        gated.append(scores)
    expected = stats.random_gating(full, arm, recomputed / 6)
    assert expected == pytest.approx(np.mean(gated, axis=0), abs=FP64)


def test_random_gating_is_ready_for_a_paired_difference():
    gated = [0.3, 0.9, 0.4, 0.9, 0.0, 1.0]
    interval = stats.mean_difference(gated, stats.random_gating(VALUES, OTHERS, 0.5), None)
    assert interval.estimate == pytest.approx(np.mean(gated) - (np.mean(VALUES) + np.mean(OTHERS)) / 2, abs=FP64)


def test_random_pairing():
    distances = [np.mean(np.abs(np.subtract(VALUES, dealt))) for dealt in permutations(OTHERS)]
    assert stats.random_pairing(VALUES, OTHERS) == pytest.approx(np.mean(distances), abs=FP64)
    assert stats.random_pairing(OTHERS, VALUES) == pytest.approx(np.mean(distances), abs=FP64)


def test_agreement_by_chance_is_the_one_of_kappa():
    a, b = list("aabbcadc"), list("abbbcaad")
    chance, agreed = stats.chance_agreement(a, b), np.mean([x == y for x, y in zip(a, b, strict=True)])
    assert cohen_kappa_score(a, b) == pytest.approx((agreed - chance) / (1 - chance), abs=FP64)
    dealt = [np.mean([x == y for x, y in zip(a[:6], order, strict=True)]) for order in permutations(b[:6])]
    assert stats.chance_agreement(a[:6], b[:6]) == pytest.approx(np.mean(dealt), abs=FP64)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: stats.expected_best(VALUES, 7), "draws is 7; it must be 1 to 6"),
        (lambda: stats.random_subset(VALUES, 0), "draws is 0; it must be 1 to 6"),
        (lambda: stats.chance_of_hit(6, 7, 1), "relevant is 7; it must be 0 to 6"),
        (lambda: stats.random_gating(VALUES, OTHERS, 1.5), "fraction is 1.5; it must be between 0 and 1"),
        (lambda: stats.random_pairing([], []), r"len\(a\) is 0"),
        (lambda: stats.chance_agreement("ab", "a"), r"len\(b\) is 1; it must be 2"),
        (lambda: stats.chance_agreement("", ""), r"len\(b\) is 0"),
    ],
)
def test_expectations_that_are_none(call, says):
    with pytest.raises(BadInput, match=says):
        call()
