"""Theorem 4.3: greedy <= optimum <= bound of the relaxation's prices <= bound of any prices."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_rows import lists, screen_of
from scipy.optimize import linprog
from slow import slow_knapsack, slow_optimum, slow_upper_bound

from fewer import BadInput
from fewer.prune.entroprefill import dual
from fewer.prune.entroprefill.dual import Prices, best_bound, lp_prices, row_prices, upper_bound
from fewer.prune.entroprefill.screening import Screen, exact, scan
from tolerances import FP64

HAIR = 1e-9  # the solver's own tolerance on tens of tokens is about this


def lp_value(screen: Screen) -> float:
    """The relaxation itself, solved as the paper writes it."""
    if not len(screen.sizes):
        return 0.0
    table = np.vstack([screen.mass, np.ones(len(screen.sizes))])
    limits = np.append(screen.tolerance, screen.most_removed)
    return -float(linprog(-screen.sizes, table, limits, bounds=(0, 1), method="highs-ipm").fun)


@given(st.integers(0, 10**6), st.integers(0, 9), st.integers(0, 6))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_the_chain_of_bounds(seed: int, count: int, rows: int) -> None:
    screen, rng = screen_of(seed, count, rows), np.random.default_rng(seed)
    best = slow_optimum(*lists(screen))
    found = best_bound(screen, 30.0)
    for order in (np.arange(count), rng.permutation(count)):
        assert scan(screen, order).saving <= best
    assert best <= found.value
    assert found.value == pytest.approx(lp_value(screen), abs=1e-4)  # the relaxation's rows give by up to 1e-7
    assert found.value == upper_bound(screen, found.prices)
    assert found.seconds > 0
    for scale in (0.1, 10.0, 1e4):
        given_prices = Prices(scale * rng.random(rows), float(scale * rng.random() * rng.integers(0, 2)))
        assert found.value <= upper_bound(screen, given_prices) + HAIR
    for target in range(int(screen.sizes.sum()) + 1):
        assert not (found.excludes(target) and target <= best)


@given(st.integers(0, 10**6), st.integers(0, 7), st.integers(0, 5), st.sampled_from([0.0, 1e-3, 1.0, 1e3, 1e9]))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_the_bound_is_the_papers_rounded_upwards(seed: int, count: int, rows: int, scale: float) -> None:
    screen, rng = screen_of(seed, count, rows), np.random.default_rng(seed)
    y, t = scale * rng.random(rows), float(scale * rng.random())
    exactly = slow_upper_bound(*lists(screen), y.tolist(), t)
    found = upper_bound(screen, Prices(y, t))
    assert exactly <= found <= exactly * (1 + 1e-12) + (1 + t + scale) * 1e-12


def test_prices_that_just_cover_a_chunk_do_not_round_its_gain_away() -> None:
    """The sum of a chunk's costs may round up past its tokens; in rational arithmetic something is left."""
    left = 0
    for seed in range(300):
        rng = np.random.default_rng(seed)
        screen = Screen(rng.random((7, 1)), np.zeros(7), np.array([40]), 0, 0)
        y = rng.random(7)
        y *= 40 / (y @ screen.mass[:, 0])
        exactly = slow_upper_bound(*lists(screen), y.tolist(), 0.0)
        left += exactly > 0
        assert exactly <= upper_bound(screen, Prices(y, 0.0)) <= exactly + 1e-11
    assert left > 50


@given(st.integers(0, 10**6), st.integers(0, 8), st.integers(0, 6))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_the_closed_form_is_the_best_single_knapsack(seed: int, count: int, rows: int) -> None:
    screen = screen_of(seed, count, rows)
    mass, tolerance, sizes, min_kept = lists(screen)
    alone = [slow_knapsack(row, limit, sizes) for row, limit in zip(mass, tolerance, strict=True)]
    expected = min([*alone, float(sum(sorted(sizes)[min_kept:]))])
    prices = row_prices(screen)
    assert prices.source == "single row"
    assert np.count_nonzero(prices.rows) + (prices.count > 0) <= 1
    assert upper_bound(screen, prices) == pytest.approx(expected, abs=HAIR)


def test_of_one_row_the_relaxation_and_the_closed_form_agree() -> None:
    for seed in range(20):
        screen = replace(screen_of(seed, 9, 1), min_kept=0)
        there = upper_bound(screen, row_prices(screen))
        assert best_bound(screen, 30.0).value == pytest.approx(there, abs=HAIR)


def test_an_impossible_target_is_proven_impossible() -> None:
    """Ten equal chunks with a tenth of a row each: a tolerance of .25 lets two go, 2.5 by the relaxation."""
    screen = Screen(np.full((1, 10), 0.1), np.array([0.25]), np.full(10, 8), 0, 21)
    found = best_bound(screen, 30.0)
    assert found.value == pytest.approx(20.0, abs=HAIR)
    assert found.prices.rows == pytest.approx([80.0], abs=HAIR)
    assert found.excludes(21)
    assert not found.excludes(20)  # not possible either (16 is the most), but a bound alone does not say so
    assert exact(screen, 30.0) == 16


def test_a_target_that_is_just_possible_is_never_excluded() -> None:
    """The optimum fills its row exactly, with masses that float64 cannot hold: the bound must not fall below it."""
    for count in range(1, 60):
        mass = np.full((1, count), 1 / (count + 1))
        screen = Screen(mass, mass.sum(axis=1).clip(max=0.999999), np.full(count, 7), 0, 7 * count)
        found = best_bound(screen, 30.0)
        assert scan(screen, np.arange(count)).saving <= found.value
        assert not found.excludes(scan(screen, np.arange(count)).saving)


def test_the_count_is_priced_where_it_binds() -> None:
    screen = Screen(np.full((2, 4), 1e-4), np.array([0.5, 0.5]), np.array([3, 9, 5, 7]), 2, 0)
    found = best_bound(screen, 30.0)
    assert found.value == pytest.approx(16.0, abs=HAIR)
    assert 5.0 - HAIR <= found.prices.count <= 7.0 + HAIR


def test_with_all_chunks_to_keep_the_bound_is_nothing() -> None:
    for seed in range(5):
        found = best_bound(replace(screen_of(seed, 6, 4), min_kept=6), 30.0)
        assert found.value == pytest.approx(0.0, abs=HAIR)


def test_rows_without_tolerance_are_priced_for_nothing() -> None:
    mass = np.array([[0.0, 1e-12, 0.2, 0.0], [1e-300, 0.0, 0.0, 0.0], [0.1, 0.1, 0.1, 0.3]])
    screen = Screen(mass, np.array([0.0, 0.0, 0.5]), np.array([4, 5, 6, 7]), 0, 0)
    assert best_bound(screen, 30.0).value == pytest.approx(7.0, abs=HAIR)
    strict = replace(screen, tolerance=np.zeros(3))
    assert best_bound(strict, 30.0).value == pytest.approx(0.0, abs=HAIR)


def test_tolerances_of_any_size_give_the_same_bound() -> None:
    for seed in range(5):
        screen = screen_of(seed, 8, 6)
        there = best_bound(screen, 30.0)
        for scale in (2.0**-10, 2.0**-40, 2.0**-200):
            units = replace(screen, mass=screen.mass * scale, tolerance=screen.tolerance * scale)
            assert best_bound(units, 30.0).value == pytest.approx(there.value, abs=HAIR)
            dearer = Prices(there.prices.rows / scale, there.prices.count)
            assert upper_bound(units, dearer) == pytest.approx(there.value, abs=HAIR)


def test_longer_chunks_moved_chunks_and_repeated_rows() -> None:
    for seed in range(5):
        screen, swap = screen_of(seed, 8, 6), np.random.default_rng(seed).permutation(8)
        there = best_bound(screen, 30.0).value
        longer = replace(screen, sizes=screen.sizes * 3)
        assert best_bound(longer, 30.0).value == pytest.approx(3 * there, abs=HAIR)
        moved = replace(screen, mass=screen.mass[::-1][:, swap], tolerance=screen.tolerance[::-1])
        moved = replace(moved, sizes=screen.sizes[swap])
        assert best_bound(moved, 30.0).value == pytest.approx(there, abs=HAIR)
        twice = replace(screen, mass=np.tile(screen.mass, (2, 1)), tolerance=np.tile(screen.tolerance, 2))
        assert best_bound(twice, 30.0).value == pytest.approx(there, abs=HAIR)


def test_without_chunks_or_rows() -> None:
    none = Screen(np.zeros((3, 0)), np.full(3, 0.2), np.zeros(0, dtype=np.int64), 0, 0)
    assert best_bound(none, 30.0).value == 0.0
    free = Screen(np.zeros((0, 2)), np.zeros(0), np.array([4, 5]), 1, 0)
    assert best_bound(free, 30.0).value == pytest.approx(5.0, abs=HAIR)


def test_where_the_solver_gives_nothing_the_closed_form_stands_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dual, "lp_prices", lambda screen, time_limit_s: None)
    screen = screen_of(3, 8, 6)
    found = best_bound(screen, 30.0)
    assert found.prices.source == "single row"
    assert found.value == upper_bound(screen, row_prices(screen))
    assert exact(screen, 30.0) <= found.value


def test_the_relaxations_prices_say_so() -> None:
    prices = lp_prices(screen_of(4, 8, 6), 30.0)
    assert prices is not None
    assert prices.source == "lp"
    assert prices.rows.shape == (6,)
    assert Prices(np.zeros(2), 0.0).source == "given"


def test_the_dearest_prices_are_a_bound_too() -> None:
    screen = replace(screen_of(5, 6, 3), tolerance=np.full(3, 0.9))
    assert upper_bound(screen, Prices(np.full(3, 1.7e308), 0.0)) == math.inf
    assert upper_bound(screen, Prices(np.zeros(3), 0.0)) == pytest.approx(screen.sizes.sum(), rel=FP64)


@pytest.mark.parametrize(
    ("rows", "count", "says"),
    [
        ([0.1, -0.1], 0.0, "prices.rows"),
        ([0.1, math.inf], 0.0, "prices.rows"),
        ([0.1, math.nan], 0.0, "prices.rows"),
        ([[0.1]], 0.0, "prices.rows"),
        ([0.1], -1.0, "prices.count"),
        ([0.1], math.nan, "prices.count"),
    ],
)
def test_bad_prices_are_named(rows: list[float], count: float, says: str) -> None:
    with pytest.raises(BadInput, match=says):
        Prices(np.array(rows), count)


def test_prices_of_another_problem_are_refused() -> None:
    with pytest.raises(BadInput, match="one for each of 6 rows"):
        upper_bound(screen_of(0, 8, 6), Prices(np.zeros(5), 0.0))


def test_a_time_limit_is_positive() -> None:
    with pytest.raises(BadInput, match="time_limit_s is 0"):
        best_bound(screen_of(0, 3, 2), 0.0)


@given(st.integers(0, 10**6), st.integers(1, 9), st.integers(0, 5))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_a_barred_chunk_is_as_if_it_were_not_there(seed: int, count: int, rows: int) -> None:
    whole, rng = screen_of(seed, count, rows), np.random.default_rng(seed)
    barred = rng.random(count) < 0.4
    screen, free = replace(whole, barred=barred), ~barred
    rest = max(0, whole.min_kept - int(barred.sum()))
    target = min(whole.target, int(whole.sizes[free].sum()))
    alone = Screen(whole.mass[:, free], whole.tolerance, whole.sizes[free], rest, target)
    order = rng.permutation(count)
    place = np.cumsum(free) - 1
    removal, same = scan(screen, order), scan(alone, place[[number for number in order if free[number]]])
    assert not removal.removed[barred].any()
    assert removal.removed[free].tolist() == same.removed.tolist()
    assert exact(screen, 30.0) == exact(alone, 30.0) == slow_optimum(*lists(alone))
    found = best_bound(screen, 30.0)
    assert slow_optimum(*lists(alone)) <= found.value == pytest.approx(lp_value(alone), abs=1e-4)
    single = upper_bound(screen, row_prices(screen))
    assert slow_optimum(*lists(alone)) <= single <= upper_bound(alone, row_prices(alone)) + HAIR


def test_bars_that_are_not_one_a_chunk() -> None:
    with pytest.raises(BadInput, match="barred is \\(3,\\); it must be of shape \\(2,\\)"):
        Screen(np.zeros((1, 2)), np.zeros(1), np.array([4, 4]), 0, 0, np.zeros(3, dtype=bool))
