"""Theorem 4.1 and Lemma 4.2: that they hold, and that they are sharp."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from made_rows import attention
from slow import slow_chi_square, slow_row_bound

from fewer import BadInput
from fewer.prune.entroprefill.envelope import all_rows_bound, chi_square, output_bound, row_bound
from fewer.prune.entroprefill.pooling import omega, pool
from tolerances import FP64

SINKS = torch.tensor([True] + [False] * 15)


@given(st.integers(0, 10**6), st.sampled_from([1, 2]), st.integers(1, 3), st.floats(0.01, 1.0), st.floats(0.5, 9.0))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_no_row_loses_more_than_the_envelope(seed: int, groups: int, w: int, zeta: float, sharp: float) -> None:
    rows = attention(seed, 4, w, 16, sharp=sharp)
    pooled = pool(rows, SINKS, groups, 0.5, zeta, 0.01)
    removed = torch.rand(16, generator=torch.Generator().manual_seed(seed)) < 0.4
    q = float(pooled.mu[removed].sum())
    eta = rows[..., removed].sum(-1).numpy()
    share = omega(pooled, groups, w)[:, None].expand(4, w).numpy()
    chi2 = chi_square(rows, pooled.mu).numpy()
    assert (chi2 <= 1 / share - 1 + 1e-9 / share).all()
    tight, loose = row_bound(q, share, chi2), row_bound(q, share)
    assert (eta <= tight + FP64).all()
    assert (tight <= loose + FP64).all()
    assert eta.max() <= all_rows_bound(q, 4, w, zeta) + FP64
    assert rows.mean(1)[:, removed].sum(-1).max() <= all_rows_bound(q, 4, 1, zeta) + FP64
    for h in range(4):
        for u in range(w):
            slow = slow_chi_square(rows[h, u].tolist(), pooled.mu.tolist())
            assert float(chi2[h, u]) == pytest.approx(slow, rel=FP64, abs=FP64)
            assert float(tight[h, u]) == pytest.approx(slow_row_bound(q, float(share[h, u]), slow), abs=FP64)


@pytest.mark.parametrize("share", [1e-6, 0.01, 0.3, 0.5, 1 - 1e-6])
def test_the_sharp_example(share: float) -> None:
    """All of a row's mass on one position, the rest of the mixture off it: both terms are one, and so is the loss."""
    row = torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64)
    mu = share * row + (1 - share) * torch.tensor([0.0, 0.25, 0.75], dtype=torch.float64)
    q, eta, chi2 = float(mu[0]), float(row[0]), float(chi_square(row, mu))
    assert (q, eta) == (share, 1.0)
    assert chi2 == pytest.approx(1 / share - 1, rel=FP64)
    assert q / share == 1.0
    assert q + math.sqrt(chi2 * q * (1 - q)) == pytest.approx(1.0, abs=FP64)
    assert float(row_bound(q, share, chi2)) == pytest.approx(eta, abs=FP64)
    assert float(row_bound(q, share)) == pytest.approx(eta, abs=FP64)


def test_a_row_that_is_the_measure_has_no_divergence_and_loses_q() -> None:
    mu = attention(0, 16)
    assert float(chi_square(mu, mu)) == 0.0
    assert float(row_bound(0.2, 0.01, 0.0)) == pytest.approx(0.2, abs=FP64)


def test_removing_nothing_and_everything() -> None:
    assert row_bound(0.0, [0.1, 1.0], [math.inf, 3.0]).tolist() == [0.0, 0.0]
    assert row_bound(1.0, [0.1, 1.0]).tolist() == [1.0, 1.0]
    assert (all_rows_bound(0.0, 9, 8, 0.1), all_rows_bound(1.0, 9, 8, 0.1)) == (0.0, 1.0)


def test_many_heads_make_the_bound_over_all_rows_say_nothing() -> None:
    assert all_rows_bound(0.002, 9, 8, 0.1) == 1.0
    assert all_rows_bound(0.001, 9, 8, 0.1) == pytest.approx(0.72, abs=FP64)


@given(st.floats(0.0, 1.0), st.floats(1e-9, 1.0))
@settings(max_examples=100, deadline=None, derandomize=True)
def test_at_its_most_the_divergence_adds_nothing(q: float, share: float) -> None:
    """Where the third term of (12) at 1/omega - 1 is below the second, both are above one."""
    assert float(row_bound(q, share)) == pytest.approx(slow_row_bound(q, share, 1 / share - 1), rel=1e-7, abs=FP64)
    assert float(row_bound(q, share, 1 / share - 1)) == pytest.approx(float(row_bound(q, share)), rel=1e-7, abs=FP64)


def test_bounds_broadcast() -> None:
    found = row_bound([[0.1], [0.2]], [0.5, 0.25, 1.0])
    expected = [[slow_row_bound(q, w, 1 / w - 1) for w in (0.5, 0.25, 1.0)] for q in (0.1, 0.2)]
    np.testing.assert_allclose(found, expected, atol=FP64)


def test_positions_where_both_are_zero_do_not_count_and_leaving_the_support_is_infinite() -> None:
    mu = torch.tensor([0.5, 0.5, 0.0], dtype=torch.float64)
    rows = torch.tensor([[1.0, 0.0, 0.0], [0.5, 0.25, 0.25]], dtype=torch.float64)
    assert chi_square(rows, mu).tolist() == [1.0, math.inf]


def test_rounding_above_one_counts_as_one_and_tiny_coefficients_do_not_overflow() -> None:
    assert float(row_bound(1.0 + 1e-6, 0.5)) == 1.0
    assert float(row_bound(0.5, 5e-324)) == 1.0


@given(st.integers(0, 10**6), st.integers(1, 5), st.floats(0.1, 50.0))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_an_output_moves_by_at_most_twice_the_mass_removed(seed: int, width: int, largest: float) -> None:
    """Lemma 4.2."""
    rng = np.random.default_rng(seed)
    a, removed = rng.dirichlet(np.full(12, 0.5)), rng.random(12) < 0.4
    values = rng.normal(size=(12, width))
    values *= largest * rng.random((12, 1)) / np.linalg.norm(values, axis=1, keepdims=True)
    eta = float(a[removed].sum())
    if eta < 1 - 1e-6:
        kept = (a[~removed] / (1 - eta)) @ values[~removed]
        assert np.linalg.norm(a @ values - kept) <= output_bound(eta, largest) + largest * FP64


@pytest.mark.parametrize("eta", [0.0, 1e-3, 0.5, 0.999])
def test_opposite_values_attain_the_output_bound(eta: float) -> None:
    direction = np.array([0.6, 0.8])
    a, values = np.array([eta, 0.7 * (1 - eta), 0.3 * (1 - eta)]), np.array([3.0, -3.0, -3.0])[:, None] * direction
    kept = (a[1:] / (1 - eta)) @ values[1:]
    assert np.linalg.norm(a @ values - kept) == pytest.approx(output_bound(eta, 3.0), abs=FP64)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: row_bound(-0.1, 0.5), "q is"),
        (lambda: row_bound(math.nan, 0.5), "q is"),
        (lambda: row_bound(1.1, 0.5), "q is"),
        (lambda: row_bound(0.5, 0.0), "omega is"),
        (lambda: row_bound(0.5, 1.1), "omega is"),
        (lambda: row_bound(0.5, [0.5, math.nan]), "omega is"),
        (lambda: row_bound(0.5, 0.5, -1.0), "chi2 is"),
        (lambda: row_bound(0.5, 0.5, math.nan), "chi2 is"),
        (lambda: all_rows_bound(-1.0, 1, 1, 0.1), "q is"),
        (lambda: all_rows_bound(0.5, 0, 1, 0.1), "num_heads is"),
        (lambda: all_rows_bound(0.5, 1, 0, 0.1), "num_observers is"),
        (lambda: all_rows_bound(0.5, 1, 1, 0.0), "zeta is"),
        (lambda: output_bound(1.0, 2.0), "eta is 1.0; it must be below 1"),
        (lambda: output_bound(-0.1, 2.0), "eta is"),
        (lambda: output_bound(0.5, math.inf), "value_norm is"),
    ],
)
def test_bad_input_is_named(call: object, says: str) -> None:
    with pytest.raises(BadInput, match=says):
        call()
