"""The one-pass proposer against a loop, and the exact optimum against every subset in rational arithmetic."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_rows import lists, screen_of
from slow import slow_optimum, slow_scan

from fewer import BadInput
from fewer.prune.entroprefill.screening import Removal, Screen, exact, scan


def small(
    mass: list[list[float]], tolerance: list[float], sizes: list[int], min_kept: int = 0, target: int | None = None
) -> Screen:
    table = np.array(mass, dtype=np.float64).reshape(len(tolerance), len(sizes))
    whole = sum(sizes) if target is None else target
    return Screen(table, np.array(tolerance), np.array(sizes, dtype=np.int64), min_kept, whole)


def chosen(removal: Removal) -> list[int]:
    return np.flatnonzero(removal.removed).tolist()


@given(st.integers(0, 10**6), st.integers(0, 9), st.integers(0, 6), st.floats(0.0, 1.0))
@settings(max_examples=100, deadline=None, derandomize=True)
def test_the_scan_is_the_papers_loop(seed: int, count: int, rows: int, part: float) -> None:
    screen = screen_of(seed, count, rows)
    screen = replace(screen, target=int(part * screen.target))
    order = np.random.default_rng(seed).permutation(count)
    mass, tolerance, sizes, min_kept = lists(screen)
    found = scan(screen, order)
    expected = slow_scan(mass, tolerance, sizes, min_kept, screen.target, order.tolist())
    assert chosen(found) == sorted(expected)
    assert found.saving == sum(sizes[i] for i in expected)
    assert found.reached == (found.saving >= screen.target)
    assert (found.slack >= 0).all()
    assert len(expected) <= count - min_kept


@given(st.integers(0, 10**6))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_a_removal_meets_every_constraint(seed: int) -> None:
    """In rational arithmetic the tolerance can be passed by the rounding of nine float64 additions, and no more."""
    screen = screen_of(seed, 9, 5)
    found = scan(screen, np.arange(9))
    for row, tolerance, slack in zip(screen.mass.tolist(), screen.tolerance.tolist(), found.slack, strict=True):
        used = sum((Fraction(row[i]) for i in chosen(found)), Fraction(0))
        assert used <= Fraction(tolerance) * (1 + Fraction(9, 2**52))
        assert float(used) + slack == pytest.approx(tolerance, abs=1e-15)


@given(st.integers(0, 10**6), st.integers(0, 10), st.integers(0, 5))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_the_exact_optimum_is_that_of_every_subset(seed: int, count: int, rows: int) -> None:
    screen = screen_of(seed, count, rows)
    best = exact(screen, 30.0)
    assert best == slow_optimum(*lists(screen))
    for order in (np.arange(count), np.arange(count)[::-1], np.random.default_rng(seed).permutation(count)):
        assert scan(screen, order).saving <= best


@pytest.mark.parametrize("excess", [1e-7, 1e-9, 1e-12, 1e-15])
@pytest.mark.parametrize("scale", [1.0, 1e-9])
def test_the_optimum_does_not_use_the_solvers_tolerance(excess: float, scale: float) -> None:
    """Two chunks are over by less than the solver sees: one may go, not two."""
    screen = small([[0.25 + excess, 0.25, 0.25 + excess]], [0.5], [7, 5, 3])
    screen = replace(screen, mass=screen.mass * scale, tolerance=screen.tolerance * scale)
    assert exact(screen, 30.0) == slow_optimum(*lists(screen)) == 7
    assert scan(screen, np.arange(3)).saving == 7


def test_the_optimum_counts_masses_that_the_solver_drops() -> None:
    """Many chunks with a billionth of a row that tolerates three of them."""
    screen = small([[1e-9] * 8, [0.0] * 8], [3.5e-9, 0.2], [1, 2, 3, 4, 5, 6, 7, 8])
    assert exact(screen, 30.0) == 21
    assert exact(replace(screen, tolerance=np.array([0.0, 0.2])), 30.0) == 0


def test_masses_that_fill_a_tolerance_exactly_fit() -> None:
    screen = small([[0.25, 0.25, 0.25]], [0.5], [4, 5, 6])
    found = scan(screen, np.array([0, 1, 2]))
    assert (chosen(found), found.slack.tolist()) == ([0, 1], [0.0])
    assert exact(screen, 30.0) == 11


def test_no_tolerance_is_added_to_the_scan() -> None:
    """0.1 + 0.2 > 0.3 in float64, though not in the decimals they are written in."""
    assert chosen(scan(small([[0.1, 0.2]], [0.3], [1, 1]), np.array([0, 1]))) == [0]


def test_a_chunk_that_does_not_fit_is_passed_over_not_the_end() -> None:
    assert chosen(scan(small([[0.1, 0.5, 0.1]], [0.3], [4, 5, 6]), np.array([0, 1, 2]))) == [0, 2]


def test_the_scan_stops_at_the_target() -> None:
    found = scan(small([[0.0] * 4], [0.1], [4, 5, 6, 7], target=9), np.array([0, 1, 2, 3]))
    assert (chosen(found), found.saving, found.reached) == ([0, 1], 9, True)
    nothing = scan(small([[0.0] * 4], [0.1], [4, 5, 6, 7], target=0), np.array([0, 1, 2, 3]))
    assert (chosen(nothing), nothing.saving, nothing.reached) == ([], 0, True)


@pytest.mark.parametrize(("min_kept", "expected"), [(4, 0), (3, 7), (1, 18), (0, 22)])
def test_enough_chunks_stay(min_kept: int, expected: int) -> None:
    screen = small([[0.01] * 4], [0.5], [4, 5, 6, 7], min_kept=min_kept)
    assert screen.most_removed == 4 - min_kept
    assert exact(screen, 30.0) == expected
    found = scan(screen, np.array([3, 2, 1, 0]))
    assert (found.saving, found.reached) == (expected, expected == 22)


def test_without_tolerance_only_chunks_without_mass_go() -> None:
    screen = small([[0.0, 1e-300, 0.2, 0.0], [0.3, 0.0, 0.0, 0.0]], [0.0, 0.5], [4, 5, 6, 7])
    assert exact(screen, 30.0) == scan(screen, np.arange(4)).saving == 11


def test_without_chunks_or_rows() -> None:
    none = scan(small([[]], [0.2], []), np.arange(0))
    assert (none.removed.shape, none.saving, none.slack.tolist(), none.reached) == ((0,), 0, [0.2], True)
    assert exact(small([[]], [0.2], []), 30.0) == 0
    free = small([], [], [4, 5])
    assert (scan(free, np.arange(2)).saving, exact(free, 30.0)) == (9, 9)


def test_the_order_of_rows_and_repeated_rows_do_not_matter() -> None:
    for seed in range(5):
        screen, order = screen_of(seed, 8, 6), np.random.default_rng(seed).permutation(8)
        rows = [*np.random.default_rng(seed).permutation(6), 3, 3]
        other = replace(screen, mass=screen.mass[rows], tolerance=screen.tolerance[rows])
        assert np.array_equal(scan(other, order).removed, scan(screen, order).removed)
        assert exact(other, 30.0) == exact(screen, 30.0)


def test_moving_chunks_with_their_order_moves_the_removal() -> None:
    for seed in range(5):
        screen, rng = screen_of(seed, 8, 6), np.random.default_rng(seed)
        order, swap = rng.permutation(8), rng.permutation(8)
        moved = replace(screen, mass=screen.mass[:, swap], sizes=screen.sizes[swap])
        places = np.argsort(swap)
        assert np.array_equal(scan(moved, places[order]).removed, scan(screen, order).removed[swap])
        assert exact(moved, 30.0) == exact(screen, 30.0)


def test_masses_and_tolerances_in_other_units_and_tokens_in_other_units() -> None:
    for seed in range(5):
        screen, order = screen_of(seed, 8, 6), np.random.default_rng(seed).permutation(8)
        units = replace(screen, mass=screen.mass / 1024, tolerance=screen.tolerance / 1024)
        assert np.array_equal(scan(units, order).removed, scan(screen, order).removed)
        assert exact(units, 30.0) == exact(screen, 30.0)
        longer = replace(screen, sizes=screen.sizes * 3, target=screen.target * 3)
        assert scan(longer, order).saving == 3 * scan(screen, order).saving
        assert exact(longer, 30.0) == 3 * exact(screen, 30.0)


def test_shares_are_masses_in_units_of_the_tolerance() -> None:
    screen = small([[0.1, 0.0, 0.4], [0.1, 0.0, 1e-20]], [0.2, 0.0], [1, 1, 1])
    assert screen.shares.tolist() == [[0.5, 0.0, 2.0], [1e9, 0.0, 1e9]]


def test_a_mass_a_little_above_one_counts_as_one() -> None:
    assert small([[1.0000002]], [0.9], [3]).mass.tolist() == [[1.0]]


def test_an_optimum_that_is_not_proven_in_time_is_none() -> None:
    assert exact(screen_of(0, 8, 6), 1e-9) is None


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"mass": [[0.1, math.nan]]}, r"mass \(lowest, highest\) is \(nan, nan\)"),
        ({"mass": [[0.1, 1.1]]}, r"mass \(lowest, highest\) is \(0.1, 1.1\)"),
        ({"mass": [[0.1, -1e-9]]}, "mass"),
        ({"mass": [0.1, 0.2]}, "of shapes"),
        ({"mass": [[0.1, 0.2, 0.3]]}, "of shapes"),
        ({"tolerance": [0.2, 0.2]}, "of shapes"),
        ({"tolerance": [1.0]}, "tolerance"),
        ({"tolerance": [-0.1]}, "tolerance"),
        ({"tolerance": [math.nan]}, "tolerance"),
        ({"sizes": [3, 0]}, "sizes"),
        ({"sizes": [3.0, 4.0]}, "sizes"),
        ({"min_kept": 3}, "min_kept is 3"),
        ({"min_kept": -1}, "min_kept is -1"),
        ({"target": 8}, "target is 8; it must be a whole number of at least 0 and at most 7"),
    ],
)
def test_a_bad_problem_is_named(changed: dict[str, object], says: str) -> None:
    fields = {"mass": [[0.1, 0.2]], "tolerance": [0.2], "sizes": [3, 4], "min_kept": 0, "target": 0} | changed
    arrays = {name: np.array(fields[name]) for name in ("mass", "tolerance", "sizes")}
    with pytest.raises(BadInput, match=says):
        Screen(**fields | arrays)


@pytest.mark.parametrize("order", [[0], [0, 0], [0, 2], [0, 1, 2]])
def test_an_order_that_is_none_is_refused(order: list[int]) -> None:
    with pytest.raises(BadInput, match="each of the 2 chunks once"):
        scan(small([[0.1, 0.2]], [0.2], [3, 4]), np.array(order))


def test_a_time_limit_is_positive() -> None:
    with pytest.raises(BadInput, match="time_limit_s is 0"):
        exact(screen_of(0, 3, 2), 0.0)
