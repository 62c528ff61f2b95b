"""What other tolerances would do, against searches written out."""

from __future__ import annotations

import numpy as np
import pytest
from made_rows import screen_of

from fewer.prune.entroprefill.dual import Bound, Prices, best_bound
from fewer.prune.entroprefill.screening import Screen, exact, scan
from fewer.prune.entroprefill.sensitivity import smallest_tolerance, vary


@pytest.mark.parametrize("seed", range(12))
def test_the_smallest_tolerance_against_a_fine_search(seed):
    made = screen_of(seed, 6, 5)
    sizes = made.sizes
    target = int(sizes.sum() * 0.6)
    screen = Screen(made.mass, np.full(5, 0.2), sizes, 1, target)
    order = np.random.default_rng(seed).permutation(6)
    bound = best_bound(screen, 1.0)
    for wanted in (1, target // 2, target):
        found = smallest_tolerance(screen, order, wanted, bound)
        grid = np.linspace(0.0, 0.999, 4000)
        fits = [scan(Screen(made.mass, np.full(5, each), sizes, 1, target), order).saving >= wanted for each in grid]
        first = grid[int(np.argmax(fits))] if any(fits) else None
        assert (found is None) == (first is None)
        if found is None:
            continue
        assert first - (grid[1] - grid[0]) <= found <= first
        if found > 0:
            assert scan(Screen(made.mass, np.full(5, found), sizes, 1, target), order).saving >= wanted
            below = np.nextafter(found, 0.0)
            assert scan(Screen(made.mass, np.full(5, below), sizes, 1, target), order).saving < wanted


@pytest.mark.parametrize("seed", range(8))
def test_what_a_change_of_tolerance_would_do(seed):
    made = screen_of(seed, 7, 6)
    screen = Screen(made.mass, np.full(6, 0.3), made.sizes, 2, int(made.sizes.sum()))
    order = np.random.default_rng(seed).permutation(7)
    removal, bound = scan(screen, order), best_bound(screen, 1.0)
    index = tuple(range(10, 17))
    found = vary(screen, order, removal, bound, 1, index)
    for each in found.variants:
        other = Screen(made.mass, np.full(6, 0.3 * each.factor), made.sizes, 2, screen.target)
        again = scan(other, order)
        assert each.saving == again.saving
        assert {number - 10 for number in each.leaves_too} == set(np.flatnonzero(again.removed & ~removal.removed))
        assert {number - 10 for number in each.stays_then} == set(np.flatnonzero(removal.removed & ~again.removed))
        assert exact(other, 5.0) <= each.dual_bound
        rise = max(0.0, 0.3 * (each.factor - 1))
        assert each.dual_bound <= bound.value + found.tokens_per_tolerance * rise + 1e-6
    if found.one_more is not None:
        chunk = found.one_more.chunk - 10
        assert not removal.removed[chunk]
        both = removal.removed | (np.arange(7) == chunk)
        assert made.mass[:, both].sum(axis=1).max() == pytest.approx(found.one_more.tolerance, abs=1e-12)
        others = [
            made.mass[:, removal.removed | (np.arange(7) == other)].sum(axis=1).max()
            for other in np.flatnonzero(~removal.removed)
        ]
        assert found.one_more.tolerance == pytest.approx(min(others), abs=1e-12)
    else:
        assert removal.removed.sum() == 5


def test_prices_whose_sum_overflows_are_infinite_and_still_right() -> None:
    """Without tolerance a row of tiny masses has a price near the largest number."""
    screen = Screen(np.full((2, 3), 1e-300), np.zeros(2), np.array([4, 5, 6]), 0, 15)
    bound = Bound(15.0, Prices(np.full(2, 1.7e308), 0.0), 0.0)
    found = vary(screen, np.arange(3), scan(screen, np.arange(3)), bound, 9, (0, 1, 2))
    assert found.tokens_per_tolerance == np.inf
    assert (found.least_tolerance, found.target_tolerance) == (2e-300, 3e-300)
