"""Chunk priorities against loops over the equations, Proposition 3.2, orderings, and what must not matter."""

from __future__ import annotations

import math
from itertools import permutations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from made_rows import attention, candidates_of, spans_of
from slow import slow_priorities

from fewer import BadInput
from fewer.prune.entroprefill.priority import ORDERINGS, Priorities, largest_lifts, order_chunks, prioritise
from tolerances import FP64

SIZES = st.lists(st.integers(1, 12), min_size=1, max_size=8)


def close(found: np.ndarray, expected: object) -> None:
    np.testing.assert_allclose(found, expected, rtol=0, atol=FP64)


def made(scores: list[float], lift: list[float] | None = None) -> Priorities:
    zeros = np.zeros(len(scores))
    return Priorities(1.0, zeros, np.array(lift or np.ones(len(scores))), zeros, np.array(scores))


@given(SIZES, st.integers(0, 10**6), st.floats(1e-6, 2.0), st.floats(0.0, 5.0), st.sampled_from([0.1, 2.0, 9.0]))
@settings(max_examples=80, deadline=None, derandomize=True)
def test_priorities_agree_with_the_equations_and_proposition_3_2(
    sizes: list[int], seed: int, eps_s: float, lam: float, sharp: float
) -> None:
    candidates = candidates_of(*sizes)
    mu = attention(seed, 120, sharp=sharp)
    found = prioritise(mu, candidates, eps_s, lam)
    total, *expected = slow_priorities(mu.tolist(), spans_of(candidates), eps_s, lam)
    assert found.document_mass == pytest.approx(total, abs=FP64)
    for values, wanted in zip((found.mass, found.lift, found.concentration, found.score), expected, strict=True):
        assert values.dtype == np.float64
        close(values, wanted)
    assert ((found.concentration >= 0) & (found.concentration <= 1)).all()
    for i, j in permutations(range(len(sizes)), 2):
        assert found.score[i] - found.score[j] >= np.log(found.lift[i] / found.lift[j]) - lam - FP64
        if found.lift[i] / found.lift[j] > np.exp(lam) * (1 + FP64):
            assert found.score[i] > found.score[j]


@given(SIZES, st.floats(1e-6, 2.0), st.floats(0.0, 5.0), st.sampled_from([torch.float32, torch.float64]))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_uniform_attention_scores_zero_and_offers_long_chunks_first(
    sizes: list[int], eps_s: float, lam: float, dtype: torch.dtype
) -> None:
    found = prioritise(torch.full((120,), 1 / 120, dtype=dtype), candidates_of(*sizes), eps_s, lam)
    close(found.score, 0.0)
    close(found.lift, 1.0)
    close(found.concentration, 0.0)
    order = order_chunks("entropy", found, np.zeros((1, len(sizes))), np.array(sizes))
    assert order.tolist() == sorted(range(len(sizes)), key=lambda i: (-sizes[i], i))


def test_concentration_goes_from_even_to_one_token() -> None:
    mu = torch.zeros(12, dtype=torch.float64)
    mu[2:6] = 0.1
    mu[7] = 0.6
    even, sharp = prioritise(mu, candidates_of(4, 4), 1e-12, 1.0).concentration
    assert even == pytest.approx(0.0, abs=FP64)
    assert sharp == pytest.approx(1.0, abs=FP64)


def test_a_chunk_of_one_token_has_no_concentration() -> None:
    found = prioritise(attention(0, 12, sharp=5.0), candidates_of(1, 1, 1), 0.01, 3.0)
    assert found.concentration.tolist() == [0.0, 0.0, 0.0]
    close(found.score, np.log(found.lift))


def test_a_chunk_without_attention_has_the_least_lift() -> None:
    mu = attention(1, 20)
    mu[2:7] = 0.0
    found = prioritise(mu, candidates_of(5, 5, 5), 0.01, 1.0)
    assert found.lift[0] == pytest.approx(0.01 / 1.01, abs=FP64)
    assert found.concentration[0] == pytest.approx(0.0, abs=FP64)


@pytest.mark.parametrize("eps_s", [1e-300, 1e-12])
def test_the_smallest_smoothing_gives_numbers(eps_s: float) -> None:
    mu = torch.zeros(20)
    mu[10] = 1.0
    found = prioritise(mu, candidates_of(5, 5, 5), eps_s, 1.0)
    assert np.isfinite(found.score).all()
    close(found.concentration, [0.0, 1.0, 0.0])


def test_without_document_mass_nothing_tells_chunks_apart() -> None:
    mu = torch.zeros(20, dtype=torch.float64)
    mu[0] = 1.0
    found = prioritise(mu, candidates_of(4, 1, 7), 0.01, 1.0)
    assert found.document_mass == 0.0
    close(found.score, 0.0)
    close(found.mass, np.array([4, 1, 7]) / 12)


def test_without_candidates_everything_is_empty() -> None:
    found = prioritise(attention(2, 20), candidates_of(), 0.01, 1.0)
    assert found.document_mass == 0.0
    assert [len(v) for v in (found.mass, found.lift, found.concentration, found.score)] == [0] * 4
    for name in ORDERINGS:
        assert order_chunks(name, found, np.zeros((3, 0)), np.zeros(0, dtype=np.int64)).tolist() == []


def test_scaling_the_measure_changes_the_document_mass_alone() -> None:
    mu, candidates = attention(3, 60), candidates_of(5, 9, 1)
    whole, part = prioritise(mu, candidates, 0.01, 1.0), prioritise(mu / 7, candidates, 0.01, 1.0)
    close(part.score, whole.score)
    assert part.document_mass * 7 == pytest.approx(whole.document_mass, abs=FP64)


def test_moving_chunks_moves_their_priorities() -> None:
    sizes, swap = [4, 9, 1, 17], [2, 0, 3, 1]
    parts = [attention(seed, size) for seed, size in enumerate(sizes)]
    there = prioritise(torch.cat(parts), candidates_of(*sizes, first=0, gap=0), 0.01, 1.0)
    moved = candidates_of(*(sizes[i] for i in swap), first=0, gap=0)
    close(prioritise(torch.cat([parts[i] for i in swap]), moved, 0.01, 1.0).score, there.score[swap])


def test_splitting_every_token_in_two_keeps_lifts_and_lowers_concentrations() -> None:
    mu = attention(4, 17)
    whole = prioritise(mu, candidates_of(4, 9, 4, first=0, gap=0), 0.01, 1.0)
    halves = prioritise(mu.repeat_interleave(2) / 2, candidates_of(8, 18, 8, first=0, gap=0), 0.01, 1.0)
    close(halves.lift, whole.lift)
    n = np.array([4, 9, 4])
    close(halves.concentration, whole.concentration * (n - 1) / (2 * n - 1))


def test_cutting_an_evenly_read_chunk_in_two_gives_two_of_its_lift() -> None:
    mu = torch.cat([torch.full((8,), 0.05), torch.full((6,), 0.1)]).double()
    whole = prioritise(mu, candidates_of(8, 6, first=0, gap=0), 0.01, 1.0)
    cut = prioritise(mu, candidates_of(3, 5, 6, first=0, gap=0), 0.01, 1.0)
    close(cut.lift, whole.lift[[0, 0, 1]])


def test_each_ordering_has_its_key() -> None:
    found = made([3.0, 1.0, 2.0], lift=[2.0, 3.0, 1.0])
    shares = np.array([[0.1, 0.4, 0.9], [0.5, 0.2, 0.0]])
    sizes = np.array([5, 5, 5])
    assert order_chunks("entropy", found, shares, sizes).tolist() == [1, 2, 0]
    assert order_chunks("mass", found, shares, sizes).tolist() == [2, 0, 1]
    assert order_chunks("row", found, shares, sizes).tolist() == [1, 0, 2]


def test_of_equal_keys_the_longer_comes_first_and_then_the_earlier() -> None:
    assert order_chunks("entropy", made([0.5, 0.5, 0.5, 0.1]), np.zeros((1, 4)), np.array([3, 8, 3, 1])).tolist() == [
        3, 1, 0, 2,
    ]  # fmt: skip


def test_keys_that_differ_by_rounding_are_equal() -> None:
    """0.1 + 0.2 is not 0.3 in float64."""
    assert order_chunks("entropy", made([0.3, 0.1 + 0.2]), np.zeros((1, 2)), np.array([3, 8])).tolist() == [1, 0]
    assert order_chunks("entropy", made([0.3, 0.3 + 1e-9]), np.zeros((1, 2)), np.array([3, 8])).tolist() == [0, 1]


@given(st.lists(st.tuples(st.floats(-5, 5), st.integers(1, 4)), max_size=10))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_an_order_is_a_permutation_with_rising_keys(pairs: list[tuple[float, int]]) -> None:
    scores, sizes = [score for score, _ in pairs], np.array([size for _, size in pairs], dtype=np.int64)
    order = order_chunks("entropy", made(scores), np.zeros((1, len(pairs))), sizes)
    assert sorted(order.tolist()) == list(range(len(pairs)))
    assert (np.diff(np.round(np.array(scores)[order], 12)) >= 0).all()


def test_rows_may_be_none_and_then_rank_by_size() -> None:
    assert order_chunks("row", made([1.0, 2.0]), np.zeros((0, 2)), np.array([3, 8])).tolist() == [1, 0]


def test_an_unknown_ordering_is_named() -> None:
    with pytest.raises(BadInput, match="'random'; it must be one of entropy, mass, row"):
        order_chunks("random", made([1.0]), np.zeros((1, 1)), np.array([3]))


@pytest.mark.parametrize(("eps_s", "lam", "says"), [(0.0, 1.0, "eps_s"), (0.1, -1.0, "lam"), (0.1, np.nan, "lam")])
def test_bad_settings_are_named(eps_s: float, lam: float, says: str) -> None:
    with pytest.raises(BadInput, match=says):
        prioritise(attention(0, 12), candidates_of(3), eps_s, lam)


@given(SIZES, st.integers(1, 5), st.integers(0, 10**6))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_the_largest_lift_is_that_of_plain_loops(sizes: list[int], num_rows: int, seed: int) -> None:
    mass = np.random.default_rng(seed).dirichlet(np.full(len(sizes), 0.5), num_rows) * 0.3
    total = sum(sizes)
    expected = [
        max(float(row[i]) / math.fsum(row) * total / size for row in mass.tolist()) for i, size in enumerate(sizes)
    ]
    found = largest_lifts(mass, np.array(sizes))
    np.testing.assert_allclose(found, expected, rtol=FP64)
    assert float(found @ np.array(sizes)) >= total * (1 - FP64)  # of one row they average 1, so of the largest more
    scaled = mass * np.random.default_rng(seed).uniform(0.1, 3.0, (num_rows, 1))
    np.testing.assert_allclose(largest_lifts(scaled, np.array(sizes)), found, rtol=FP64)
    order = np.random.default_rng(seed).permutation(len(sizes))
    np.testing.assert_allclose(largest_lifts(mass[:, order], np.array(sizes)[order]), found[order], rtol=FP64)


def test_lifts_of_an_even_spread_of_an_empty_row_and_of_no_row() -> None:
    sizes = np.array([5, 10, 25])
    np.testing.assert_allclose(largest_lifts(np.array([[0.05, 0.1, 0.25]]), sizes), 1.0)
    np.testing.assert_allclose(largest_lifts(np.zeros((1, 3)), sizes), [8.0, 4.0, 1.6])
    assert largest_lifts(np.zeros((0, 3)), sizes).tolist() == [0.0, 0.0, 0.0]
    assert largest_lifts(np.zeros((2, 0)), np.zeros(0, dtype=np.int64)).tolist() == []
    assert largest_lifts(np.array([[0.2]]), np.array([7])).tolist() == [1.0]
