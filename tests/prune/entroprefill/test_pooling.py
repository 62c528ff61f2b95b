"""Pooling against loops over the equations, Proposition 3.1, and what must not matter."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from made_rows import attention
from slow import slow_pool, slow_separation, slow_sink_ceiling
from torch import Tensor

from fewer import BadInput
from fewer.prune.entroprefill.pooling import Pooled, omega, pool
from tolerances import FP32, FP64

SINKS = torch.tensor([True, True] + [False] * 18)


def settings_of(**changed: float) -> dict[str, float]:
    return {"num_groups": 2, "tau": 1.0, "zeta": 0.1, "z_min": 0.02} | changed


def close(found: Tensor, expected: list[float], tolerance: float = FP64) -> None:
    np.testing.assert_allclose(found.cpu(), expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("tau", [1e-3, 0.1, 1.0, 50.0])
@pytest.mark.parametrize("zeta", [1e-3, 0.1, 1.0])
def test_it_agrees_with_the_equations(dtype: torch.dtype, tau: float, zeta: float, device: torch.device) -> None:
    rows = attention(0, 6, 3, 20, dtype=dtype)
    rows[1, :, 2:] *= 1e-3  # not eligible
    rows[4] = 0.0
    rows[4, :, 0] = 1.0  # nothing off the sinks
    found = pool(rows.to(device), SINKS.to(device), **settings_of(tau=tau, zeta=zeta))
    residuals, entropies, weights, mu = slow_pool(rows.tolist(), SINKS.tolist(), 2, tau, zeta, 0.02)
    close(found.residual, residuals)
    close(found.entropy, [math.nan if entropy is None else entropy for entropy in entropies])
    close(found.weights, weights)
    close(found.mu, mu)
    assert found.eligible.tolist() == [True, False, True, True, False, True]
    assert (found.num_fallback_groups, found.all_fell_back, found.finite) == (0, False, True)
    assert all(t.dtype == torch.float64 for t in (found.residual, found.entropy, found.weights, found.mu))


@given(st.integers(0, 10**6), st.integers(1, 3), st.integers(1, 4), st.integers(1, 4), st.floats(0.001, 1.0))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_the_measure_is_a_mixture_of_the_rows_and_no_row_is_below_the_floor(
    seed: int, groups: int, r: int, observers: int, zeta: float
) -> None:
    rows = attention(seed, groups * r, observers, 20, sharp=4.0)
    found = pool(rows, SINKS, **settings_of(num_groups=groups, zeta=zeta))
    coefficients = omega(found, groups, observers)
    close(torch.einsum("h,hun->n", coefficients, rows), found.mu.tolist())
    assert float(coefficients.sum()) * observers == pytest.approx(1.0, abs=FP64)
    assert float(coefficients.min()) >= zeta / (groups * r * observers) * (1 - FP64)
    close(found.weights.view(groups, r).sum(1), [1.0] * groups)
    assert float(found.mu.sum()) == pytest.approx(1.0, abs=FP64)


@given(st.integers(0, 10**6), st.integers(1, 6), st.floats(0.01, 10.0), st.floats(0.001, 1.0))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_the_sharpest_head_gets_at_least_its_share(seed: int, r: int, tau: float, zeta: float) -> None:
    """Proposition 3.1 (6): with equality where the others are equally far behind."""
    rows = attention(seed, r, 2, 20)
    found = pool(rows, SINKS, **settings_of(num_groups=1, tau=tau, zeta=zeta))
    best, *others = sorted(found.entropy.tolist())
    gap = others[0] - best if others else 0.0
    bound = slow_separation(zeta, r, r, gap, tau)
    assert float(found.weights[found.entropy.argmin()]) >= bound - FP64
    if r > 1:
        second = rows[found.entropy.argsort()[1]]
        even = torch.stack([rows[found.entropy.argmin()]] + [second] * (r - 1))
        weights = pool(even, SINKS, **settings_of(num_groups=1, tau=tau, zeta=zeta)).weights
        assert float(weights[0]) == pytest.approx(bound, abs=FP64)


def test_heads_that_are_not_eligible_do_not_count_in_the_separation() -> None:
    rows = attention(5, 4, 2, 20)
    rows[3, :, 2:] *= 1e-3
    found = pool(rows, SINKS, **settings_of(num_groups=1))
    best, second, _ = sorted(found.entropy[:3].tolist())
    bound = slow_separation(0.1, 4, 3, second - best, 1.0)
    assert float(found.weights[found.entropy[:3].argmin()]) >= bound - FP64
    assert float(found.weights[3]) == pytest.approx(0.1 / 4, abs=FP64)


@given(st.integers(2, 200), st.floats(0.05, 5.0), st.floats(0.001, 1.0), st.integers(2, 5), st.floats(0.1, 0.97))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_a_sink_head_is_held_down(n: int, tau: float, zeta: float, r: int, on_sinks: float) -> None:
    """Proposition 3.1 (7): with equality where the sibling is alone."""
    sinks = torch.tensor([True] + [False] * n)
    diffuse = torch.tensor([on_sinks] + [(1 - on_sinks) / n] * n, dtype=torch.float64)
    rows = torch.stack([diffuse[None]] + [attention(n + h, 1, n + 1) for h in range(r - 1)])
    for count in (2, r):
        found = pool(rows[:count], sinks, **settings_of(num_groups=1, tau=tau, zeta=zeta, z_min=0.01))
        c0 = math.exp(-float(found.entropy[1]))
        ceiling = slow_sink_ceiling(zeta, count, n, c0, tau)
        assert float(found.weights[0]) <= ceiling + FP64
        if count == 2:
            assert float(found.weights[0]) == pytest.approx(ceiling, abs=FP64)


def test_observers_are_averaged_before_squaring() -> None:
    """Two observers on two different tokens: the mean is spread over both, though each row is on one."""
    rows = torch.zeros(1, 2, 20)
    rows[0, 0, 5] = rows[0, 1, 9] = 1.0
    found = pool(rows, SINKS, **settings_of(num_groups=1))
    assert float(found.entropy) == pytest.approx(math.log(2), abs=FP64)


def test_entropies_at_both_ends() -> None:
    rows = torch.zeros(2, 1, 20)
    rows[0, 0, 7] = 1.0
    rows[1, 0] = 1 / 20
    one, even = pool(rows, SINKS, **settings_of()).entropy.tolist()
    assert one == 0.0
    assert math.copysign(1.0, one) == 1.0
    assert even == pytest.approx(math.log(18), abs=FP32)


def test_a_cold_temperature_takes_the_sharpest_head_and_does_not_underflow() -> None:
    """C^(1/tau) is about e^-3000 here."""
    rows = torch.stack([torch.full((1, 20), 0.05), torch.full((1, 20), 0.05)])
    rows[1, 0, 10:] = 0.06
    rows[1, 0, :10] = 0.04
    weights = pool(rows.double(), SINKS, **settings_of(num_groups=1, tau=1e-3)).weights.tolist()
    assert weights == pytest.approx([0.05, 0.95], abs=FP64)


def test_the_coldest_and_the_hottest_temperature_give_weights() -> None:
    rows = attention(6, 4, 2, 20)
    cold = pool(rows, SINKS, **settings_of(num_groups=1, tau=5e-324))
    assert sorted(cold.weights.tolist()) == pytest.approx([0.025, 0.025, 0.025, 0.925], abs=FP64)
    hot = pool(rows, SINKS, **settings_of(num_groups=1, tau=1e300))
    close(hot.weights, [0.25] * 4)


def test_with_zeta_one_every_head_weighs_the_same() -> None:
    rows = attention(7, 6, 2, 20, sharp=5.0)
    found = pool(rows, SINKS, **settings_of(zeta=1.0))
    assert found.weights.tolist() == [1 / 3] * 6
    close(found.mu, rows.mean((0, 1)).tolist())


def test_equal_heads_weigh_the_same_at_any_temperature() -> None:
    rows = attention(8, 1, 2, 20).expand(6, 2, 20)
    assert len(set(pool(rows, SINKS, **settings_of(tau=1e-3)).weights.tolist())) == 1


@pytest.mark.parametrize(
    ("sinks", "z_min"), [(torch.ones(20, dtype=torch.bool), 1e-9), (SINKS, 1.0)], ids=["all sinks", "no head is enough"]
)
def test_where_no_head_is_eligible_all_groups_fall_back_to_the_mean(sinks: Tensor, z_min: float) -> None:
    rows = attention(9, 6, 2, 20)
    found = pool(rows, sinks, **settings_of(z_min=z_min))
    assert (found.num_fallback_groups, found.all_fell_back, found.finite) == (2, True, True)
    assert not found.eligible.any()
    close(found.weights, [1 / 3] * 6)
    close(found.mu, rows.mean((0, 1)).tolist())


def test_with_every_token_a_sink_there_is_no_entropy() -> None:
    found = pool(attention(10, 2, 1, 20), torch.ones(20, dtype=torch.bool), **settings_of())
    assert found.residual.tolist() == [0.0, 0.0]
    assert found.entropy.isnan().all()


def test_one_group_falls_back_alone() -> None:
    rows = attention(11, 4, 2, 20)
    rows[:2, :, 2:] *= 1e-3
    found = pool(rows, SINKS, **settings_of())
    assert (found.num_fallback_groups, found.all_fell_back) == (1, False)
    close(found.weights[:2], [0.5, 0.5])
    assert float(found.weights[2]) != float(found.weights[3])


def test_a_residual_exactly_at_the_threshold_is_eligible() -> None:
    rows = torch.zeros(2, 1, 20)
    rows[:, 0, 0], rows[:, 0, 5] = 0.75, 0.25
    assert pool(rows, SINKS, **settings_of(z_min=0.25)).eligible.all()
    assert not pool(rows, SINKS, **settings_of(z_min=math.nextafter(0.25, 1))).eligible.any()


def measure(rows: Tensor, groups: int = 2) -> Pooled:
    return pool(rows, SINKS, **settings_of(num_groups=groups, tau=0.5))


def test_the_order_of_heads_in_a_group_and_of_observers_does_not_matter() -> None:
    rows = attention(12, 6, 4, 20)
    heads, observers = [2, 0, 1, 4, 5, 3], [3, 1, 0, 2]
    there, moved = measure(rows), measure(rows[heads][:, observers])
    close(moved.mu, there.mu.tolist())
    close(moved.weights, there.weights[heads].tolist())


def test_repeating_all_observers_heads_or_groups_leaves_the_measure() -> None:
    rows = attention(13, 6, 3, 20)
    there = measure(rows)
    close(measure(rows.repeat(1, 2, 1)).mu, there.mu.tolist())
    close(measure(rows.repeat_interleave(2, dim=0)).mu, there.mu.tolist())
    close(measure(rows.repeat(2, 1, 1), groups=4).mu, there.mu.tolist())
    close(omega(there, 2, 6) * 2, omega(there, 2, 3).tolist())


def test_repeating_one_head_does_change_it() -> None:
    rows = attention(14, 2, 1, 20, sharp=4.0)
    assert float((measure(rows[[0, 0, 1]], 1).mu - measure(rows, 1).mu).abs().max()) > FP32


def test_splitting_every_token_in_two_keeps_the_weights() -> None:
    rows = attention(15, 6, 3, 20)
    halves = rows.repeat_interleave(2, dim=-1) / 2
    found = pool(halves, SINKS.repeat_interleave(2), **settings_of(tau=0.5))
    close(found.weights, measure(rows).weights.tolist())
    close(found.entropy, (measure(rows).entropy + math.log(2)).tolist())


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("place", [0, 9], ids=["on a sink", "off the sinks"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_numbers_that_are_not_finite_are_flagged_and_their_head_does_not_count(
    value: float, place: int, dtype: torch.dtype
) -> None:
    rows = attention(16, 6, 2, 20, dtype=dtype)
    rows[4, 1, place] = value
    found = pool(rows, SINKS, **settings_of(zeta=1e-300))
    assert not found.finite
    assert found.eligible[[0, 1, 2, 3, 5]].all()
    assert found.weights.isfinite().all()
    if place == 9:
        assert not found.eligible[4]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_rows_are_left_as_they_are(dtype: torch.dtype) -> None:
    rows = attention(17, 6, 3, 20, dtype=dtype)
    before = rows.clone()
    measure(rows)
    assert torch.equal(rows, before)


def test_one_head_one_row_and_one_token() -> None:
    found = pool(torch.ones(1, 1, 1), torch.zeros(1, dtype=torch.bool), **settings_of(num_groups=1))
    assert (found.weights.tolist(), found.entropy.tolist(), found.mu.tolist()) == ([1.0], [0.0], [1.0])


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"rows": torch.ones(6, 20)}, "heads, rows, n"),
        ({"rows": torch.ones(6, 1, 20, dtype=torch.bfloat16)}, "float32 or float64"),
        ({"rows": torch.ones(6, 0, 20)}, "heads, rows, n"),
        ({"sinks": torch.ones(19, dtype=torch.bool)}, "20 booleans"),
        ({"sinks": torch.ones(20)}, "20 booleans"),
        ({"num_groups": 4}, "a divisor of the 6 heads"),
        ({"num_groups": 0}, "num_groups"),
        ({"num_groups": 12}, "num_groups"),
        ({"tau": 0.0}, "tau"),
        ({"tau": math.inf}, "tau"),
        ({"zeta": 0.0}, "zeta"),
        ({"zeta": 1.1}, "zeta"),
        ({"z_min": 0.0}, "z_min"),
        ({"z_min": math.nan}, "z_min"),
    ],
)
def test_bad_input_is_named(changed: dict[str, object], says: str) -> None:
    with pytest.raises(BadInput, match=says):
        pool(**{"rows": torch.ones(6, 1, 20) / 20, "sinks": SINKS} | settings_of() | changed)
