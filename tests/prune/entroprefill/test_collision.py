"""(33) against the direct sum, and what it cannot give: the collision of averaged rows."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from made_rows import attention

from fewer import BadInput
from fewer.prune.entroprefill.agreement import compare_rows
from fewer.prune.entroprefill.collision import row_collision
from fewer.prune.entroprefill.envelope import chi_square
from fewer.prune.entroprefill.pooling import pool
from tolerances import FP64

SINKS = torch.tensor([True, True] + [False] * 30)


@given(st.integers(0, 10**6), st.integers(1, 40), st.integers(1, 40), st.floats(0.0, 30.0), st.floats(-1e4, 1e4))
@settings(max_examples=100, deadline=None, derandomize=True)
def test_blocks_of_any_size_give_the_direct_sum(seed: int, n: int, block: int, sharp: float, shift: float) -> None:
    logits = sharp * torch.randn(3, n, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) + shift
    found = row_collision(torch.split(logits, block, dim=-1))
    torch.testing.assert_close(found, logits.softmax(-1).square().sum(-1), rtol=1e-9, atol=0)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_large_logits_neither_overflow_nor_vanish(order: tuple[int, ...]) -> None:
    logits = [torch.tensor([each], dtype=torch.float64) for each in (1e5, 1e5 - math.log(3), -1e5)]
    expected = (1 + 1 / 9) / (1 + 1 / 3) ** 2
    assert float(row_collision([logits[i] for i in order])) == pytest.approx(expected, rel=1e-9)
    assert float(row_collision([torch.tensor([-1e5, -1e5]), torch.tensor([-1e5, -1e5])])) == 0.25


def test_what_is_masked_does_not_count() -> None:
    blocks = [
        torch.tensor([[-torch.inf, -torch.inf], [-torch.inf, 0.0]]),
        torch.tensor([[0.0, 0.0], [-torch.inf, 0.0]]),
    ]
    assert row_collision(blocks).tolist() == [0.5, 0.5]


def test_rows_without_a_number_are_nan_and_leave_the_others() -> None:
    rows = torch.zeros(4, 4)
    rows[0], rows[1, 2], rows[2, 0] = -torch.inf, torch.nan, torch.inf
    found = row_collision(torch.split(rows, 2, dim=-1))
    assert found.isnan().tolist() == [True, True, True, False]
    assert float(found[3]) == 0.25
    with pytest.raises(BadInput, match=r"blocks is \(\); it must be at least one block of logits"):
        row_collision([])


def test_the_pooled_statistic_needs_the_averaged_row() -> None:
    """Two rows on one token each: each has a collision of 1, and their mean one of 1/2."""
    rows = torch.tensor([[1.0, 0.0], [0.0, 1.0]], dtype=torch.float64)
    assert row_collision([rows.log()]).mean() == 1.0
    assert row_collision([rows.mean(0).log()]) == 0.5
    many = attention(0, 8, 32)
    assert float(row_collision([many.log()]).mean()) > 1.5 * float(row_collision([many.mean(0).log()]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_single_rows_beside_their_mean(dtype: torch.dtype) -> None:
    rows = attention(3, 4, 5, 32).to(dtype)
    pooled = pool(rows, SINKS, 2, 1.0, 0.1, 0.01)
    found = compare_rows(rows, SINKS, pooled.mu)
    outside = rows[..., 2:].double()
    entropy = -(outside / outside.sum(-1, keepdim=True)).square().sum(-1).log()
    torch.testing.assert_close(found.row_entropy, entropy.mean(-1), rtol=FP64, atol=FP64)
    torch.testing.assert_close(found.chi_square, chi_square(rows.double().mean(1), pooled.mu), rtol=FP64, atol=FP64)
    same = compare_rows(rows[:, :1].expand(4, 5, 32), SINKS, pooled.mu)
    torch.testing.assert_close(same.row_entropy, pool(rows[:, :1], SINKS, 2, 1.0, 0.1, 0.01).entropy, rtol=0, atol=FP64)


def test_observers_that_share_no_token_are_ln_w_apart() -> None:
    rows = torch.zeros(1, 3, 32, dtype=torch.float64)
    for observer in range(3):
        rows[0, observer, 4 * observer + 2 : 4 * observer + 6] = 0.25
    pooled = pool(rows, SINKS, 1, 1.0, 0.1, 0.01)
    found = compare_rows(rows, SINKS, pooled.mu)
    assert float(found.row_entropy) == pytest.approx(math.log(4), abs=FP64)
    assert float(pooled.entropy - found.row_entropy) == pytest.approx(math.log(3), abs=FP64)


def test_a_head_with_everything_on_sinks_has_no_entropy() -> None:
    rows = torch.zeros(2, 2, 32, dtype=torch.float64)
    rows[0, :, 0], rows[1, :, 5] = 1.0, 1.0
    found = compare_rows(rows, SINKS, pool(rows, SINKS, 1, 1.0, 0.1, 0.01).mu)
    assert found.row_entropy.isnan().tolist() == [True, False]
    assert float(found.row_entropy[1]) == 0.0
