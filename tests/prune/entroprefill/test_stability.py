"""The change of the retained chunks between layers, and its streaks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slow import slow_streak

from fewer import BadInput
from fewer.prune.entroprefill.stability import change, streak

SETS = st.frozensets(st.integers(0, 4), max_size=5)


def kept(*numbers: int) -> frozenset[int]:
    return frozenset(numbers)


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (kept(), kept(), 0.0),
        (kept(1, 2), kept(1, 2), 0.0),
        (kept(1, 2), kept(3), 1.0),
        (kept(), kept(3), 1.0),
        (kept(1, 2, 3), kept(2, 3, 4), 0.5),
        (kept(1, 2, 3), kept(1, 2, 3, 4), 0.25),
    ],
)
def test_changes(a: frozenset[int], b: frozenset[int], expected: float) -> None:
    assert change(a, b) == expected


@given(SETS, SETS, SETS)
@settings(max_examples=100, deadline=None, derandomize=True)
def test_a_change_is_a_distance_in_either_form(a: frozenset[int], b: frozenset[int], c: frozenset[int]) -> None:
    def mask(chunks: frozenset[int]) -> np.ndarray:
        return np.isin(np.arange(5), list(chunks))

    assert change(mask(a), mask(b)) == change(a, b) == change(b, a)
    assert 0.0 <= change(a, b) <= 1.0
    assert (change(a, b) == 0.0) == (a == b)
    assert change(a, c) <= change(a, b) + change(b, c) + 1e-15


@given(st.lists(st.none() | SETS, max_size=8), st.sampled_from([0.0, 0.25, 0.5, 1.0]))
@settings(max_examples=150, deadline=None, derandomize=True)
def test_streaks_are_those_of_the_forward_bookkeeping(history: list[frozenset[int] | None], theta: float) -> None:
    assert streak(history, theta) == slow_streak(history, theta)


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        ([], 0),
        ([kept(1)], 0),
        ([kept(1), kept(1), kept(1)], 2),
        ([kept(1), kept(1), None], 0),
        ([kept(1), None, kept(1)], 0),
        ([None, kept(1), kept(1)], 1),
        ([kept(1), kept(2), kept(2)], 1),
        ([kept(1), kept(1), kept(2)], 0),
        ([kept(), kept()], 1),
    ],
)
def test_streaks_with_no_change_allowed(history: list[frozenset[int] | None], expected: int) -> None:
    assert streak(history, 0.0) == expected


def test_a_change_of_exactly_theta_counts() -> None:
    assert streak([kept(1, 2, 3), kept(2, 3, 4)], 0.5) == 1
    assert streak([kept(1, 2, 3), kept(2, 3, 4)], 0.49) == 0


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (np.array([True]), np.array([True, False])),
        (np.array([1, 0]), np.array([1, 0])),
        (kept(1), np.array([True])),
        ([1], [1]),
    ],
)
def test_sets_that_cannot_be_compared_are_refused(a: object, b: object) -> None:
    with pytest.raises(BadInput, match="retained chunks"):
        change(a, b)


@pytest.mark.parametrize("theta", [-0.1, 1.1, float("nan")])
def test_a_bad_theta_is_named(theta: float) -> None:
    with pytest.raises(BadInput, match="theta"):
        streak([kept(1)], theta)
