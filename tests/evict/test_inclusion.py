"""Inclusion probabilities: they sum to the budget, follow the sizes, and hold at the edges."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from fewer.errors import BadInput
from fewer.evict.inclusion import inclusion
from tolerances import FP64

INF = float("inf")


def pi_of(size: list[float], keep: int, floor: float = 0.0) -> list[float]:
    found: list[float] = inclusion(torch.tensor([size], dtype=torch.float64), torch.tensor([keep]), floor)[0].tolist()
    return found


def fill_slowly(size: list[float], keep: int) -> list[float]:
    """Clip at 1 and share the rest out again, until nothing clips."""
    full: set[int] = set()
    while True:
        total = sum(x for i, x in enumerate(size) if i not in full)
        pi = [1.0 if i in full else (keep - len(full)) * x / total for i, x in enumerate(size)]
        over = {i for i, share in enumerate(pi) if share > 1}
        if not over:
            return pi
        full |= over


def skewed(heads: int, n: int, spread: float) -> Tensor:
    return torch.exp(spread * torch.randn(heads, n, generator=torch.Generator().manual_seed(n), dtype=torch.float64))


@pytest.mark.parametrize("spread", [0.0, 1.0, 4.0])
@pytest.mark.parametrize("floor", [0.0, 0.1, 1.0])
def test_sums_to_the_budget_in_every_head(spread: float, floor: float) -> None:
    size = skewed(5, 7_500, spread)
    size[0, :40] = INF
    size[1, 5_000:] = -INF
    keep = torch.tensor([41, 4_999, 938, 1, 7_499])
    pi = inclusion(size, keep, floor)
    assert pi.dtype == torch.float64
    assert (pi.sum(1) / keep - 1).abs().max() < FP64
    assert pi.min() >= 0
    assert pi.max() <= 1
    assert (pi[0, :40] == 1).all()
    assert (pi[1, 5_000:] == 0).all()
    assert (pi[0, 40:] > 0).all()


@pytest.mark.parametrize("n", [2, 3, 17, 300])
@pytest.mark.parametrize("spread", [0.3, 3.0])
def test_is_what_clipping_until_nothing_clips_gives(n: int, spread: float) -> None:
    size = skewed(1, n, spread)
    for keep in {1, n // 3 or 1, n // 2, n - 1}:
        slow = torch.tensor([fill_slowly(size[0].tolist(), keep)], dtype=torch.float64)
        torch.testing.assert_close(inclusion(size, torch.tensor([keep])), slow, rtol=0, atol=FP64)


def test_is_proportional_to_size_where_nothing_clips() -> None:
    assert pi_of([1.0, 2.0, 3.0, 4.0], 2) == pytest.approx([0.2, 0.4, 0.6, 0.8], abs=FP64)
    assert pi_of([INF, 1.0, 2.0, 3.0, 4.0, -INF], 3) == pytest.approx([1.0, 0.2, 0.4, 0.6, 0.8, 0.0], abs=FP64)


def test_what_exceeds_one_goes_to_the_others_in_proportion() -> None:
    assert pi_of([100.0, 10.0, 1.0, 2.0, 1.0], 3) == pytest.approx([1.0, 1.0, 0.25, 0.5, 0.25], abs=FP64)


@pytest.mark.parametrize("floor", [1e-6, 0.1, 0.2, 1.0])
@pytest.mark.parametrize("keep", [11, 60, 250])
def test_no_row_of_the_tail_is_below_the_floor(floor: float, keep: int) -> None:
    size = skewed(1, 300, 6.0)
    size[0, 50:90] = 0.0
    size[0, :10] = INF
    pi = inclusion(size, torch.tensor([keep]), floor)
    assert pi[0, 10:].min() >= floor * (keep - 10) / 290 - FP64
    assert (pi.sum(1) / keep - 1).abs().max() < FP64


def test_a_floor_of_one_forgets_the_sizes() -> None:
    assert pi_of([1.0, 5.0, 0.0, 100.0], 2, floor=1.0) == pytest.approx([0.5] * 4, abs=FP64)


def test_the_floor_is_a_share_of_size() -> None:
    expected = [2 * (0.8 * share + 0.2 / 4) for share in (0.1, 0.2, 0.3, 0.4)]
    assert pi_of([1.0, 2.0, 3.0, 4.0], 2, floor=0.2) == pytest.approx(expected, abs=FP64)


@pytest.mark.parametrize("value", [0.0, 1.0, 3.4e38, 1e-45, 1e-38])
def test_equal_sizes_share_alike_however_large_or_small(value: float) -> None:
    pi = inclusion(torch.full((2, 8), value, dtype=torch.float32), torch.tensor([3, 5]))
    torch.testing.assert_close(
        pi, torch.tensor([[3 / 8], [5 / 8]], dtype=torch.float64).expand(2, 8), rtol=0, atol=FP64
    )


def test_huge_and_subnormal_sizes_beside_each_other() -> None:
    pi = inclusion(torch.tensor([[3e38, 3e38, 1e-45, 1e-45]]), torch.tensor([3]), floor=1e-6)
    assert pi[0].tolist() == pytest.approx([1.0, 1.0, 0.5, 0.5], abs=FP64)
    finite = inclusion(torch.full((1, 4), 1e308, dtype=torch.float64), torch.tensor([2]))
    assert finite[0].tolist() == pytest.approx([0.5] * 4, abs=FP64)


@pytest.mark.parametrize("keep", [4, 5, 1_000_000])
@pytest.mark.parametrize("size", [[1.0, 0.0, INF, 3.0], [0.0] * 4, [INF] * 4, [1e-300, 1e300, 1.0, 1.0]])
def test_a_budget_of_all_rows_keeps_all_for_certain(keep: int, size: list[float]) -> None:
    assert pi_of(size, keep, floor=0.1) == [1.0] * 4
    assert pi_of([*size, -INF], keep, floor=0.1) == [1.0] * 4 + [0.0]


def test_a_budget_of_the_certain_rows_leaves_nothing_for_the_tail() -> None:
    assert pi_of([INF, 1.0, INF, 2.0], 2, floor=0.1) == [1.0, 0.0, 1.0, 0.0]


def test_nothing_but_padding_keeps_nothing() -> None:
    assert pi_of([-INF, -INF], 1) == [0.0, 0.0]
    assert inclusion(torch.zeros(2, 0), torch.tensor([1, 1])).shape == (2, 0)


@pytest.mark.parametrize(
    ("size", "keep", "words"),
    [
        ([INF, INF, INF, 1.0], 2, "keep is 2; it must be at least 3 in head 0, where 3 rows are certain to stay"),
        ([1.0, 2.0, 3.0, 4.0], 0, "keep is 0; it must be at least 1"),
        ([1.0, float("nan"), 3.0, 4.0], 2, "NaN"),
        ([1.0, -0.5, 3.0, 4.0], 2, "score is -0.5; it must be at least 0"),
    ],
)
def test_refuses(size: list[float], keep: int, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        pi_of(size, keep)


def test_names_the_head_that_is_short() -> None:
    size = torch.tensor([[1.0, 1.0], [INF, INF]])
    with pytest.raises(BadInput, match="at least 2 in head 1"):
        inclusion(size, torch.tensor([1, 1]))


@pytest.mark.parametrize("floor", [-0.1, 1.1, float("nan")])
def test_refuses_a_floor_that_is_no_share(floor: float) -> None:
    with pytest.raises(BadInput, match="floor"):
        pi_of([1.0, 2.0], 1, floor)


@pytest.mark.parametrize(
    ("size", "keep"),
    [
        (torch.ones(3), torch.tensor([1])),
        (torch.ones(2, 3), torch.tensor([1])),
        (torch.ones(2, 3), torch.tensor([1.0, 2.0])),
        (torch.ones(2, 3, dtype=torch.int64), torch.tensor([1, 2])),
    ],
)
def test_refuses_other_shapes_and_types(size: Tensor, keep: Tensor) -> None:
    with pytest.raises(BadInput, match="shape"):
        inclusion(size, keep)
