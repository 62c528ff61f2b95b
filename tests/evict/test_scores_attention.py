"""What queries give to rows, against a float64 reference: causality, windows, weights, padding, groups."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from views import attend_slowly, evict_some, make_view

from fewer import BadInput
from fewer.evict.score import H2O, TOVA, QuestionAware, SnapKV, ValueSpread
from fewer.evict.score.attention import aggregate_group, mean_attention, sum_attention
from fewer.types import CacheView
from tolerances import BF16, FP32

RAGGED = [[0, 1, 2, 5, 6, 9, 12, 15, 17, 19], [3, 4, 8, 18]]


def ragged_view(**kwargs: object) -> CacheView:
    log_w = torch.rand(2, 20, generator=torch.Generator().manual_seed(3)) * 3
    return evict_some(make_view(**kwargs), RAGGED, log_w)


@pytest.mark.parametrize("window", [None, 4, 1, 100])
@pytest.mark.parametrize("view_of", [make_view, ragged_view])
def test_sums_are_the_reference(view_of, window) -> None:
    view = view_of(window=window)
    weights = torch.tensor([0.5, 0.0, 2.0, 1.0, 0.25, 3.0])
    expected = attend_slowly(view)
    assert torch.allclose(sum_attention(view, "h2o").double(), expected.sum(1), rtol=0, atol=FP32)
    assert torch.allclose(mean_attention(view, "h2o").double(), expected.mean(1), rtol=0, atol=FP32)
    weighted = (expected * weights[:, None]).sum(1)
    assert torch.allclose(sum_attention(view, "h2o", weights).double(), weighted, rtol=0, atol=FP32)


def test_many_queries_go_in_blocks() -> None:
    view = make_view(rows=90, queries=75, kv_heads=1, group=2)
    weights = torch.linspace(0, 1, 75)
    expected = (attend_slowly(view) * weights[:, None]).sum(1)
    assert torch.allclose(sum_attention(view, "h2o", weights).double(), expected, rtol=0, atol=FP32)


def test_each_query_gives_one_in_all_and_padding_gets_nothing() -> None:
    view = ragged_view()
    score = sum_attention(view, "h2o")
    assert score.dtype == torch.float32
    seen_by_all = mean_attention(make_view(), "h2o").sum(1)
    assert torch.allclose(seen_by_all, torch.ones(6), rtol=0, atol=FP32)
    assert (score.view(2, 3, -1)[1, :, 4:] == 0).all()
    assert (score >= 0).all()


def test_rows_after_a_query_get_nothing_from_it() -> None:
    view = make_view(queries=3)
    early = replace(view, q=view.q[:, :1], q_pos=torch.tensor([7]))
    score = sum_attention(early, "h2o")
    assert (score[:, 8:] == 0).all()
    assert (score[:, :8] > 0).all()


def test_a_query_whose_rows_are_gone_adds_nothing() -> None:
    view = evict_some(make_view(), [[15, 18, 19], [0, 14, 16]])
    score = sum_attention(view, "h2o").view(2, 3, -1)
    assert torch.isfinite(score).all()
    assert torch.allclose(score[0].sum(1), torch.full((3,), 5.0), rtol=0, atol=FP32)  # the query at 14 sees none
    assert torch.allclose(score[1].sum(1), torch.full((3,), 6.0), rtol=0, atol=FP32)
    before = replace(view, q=view.q[:, :1], q_pos=torch.tensor([14]))
    blind = evict_some(replace(before, log_w=None), [[1, 2], [1, 2]])
    assert (sum_attention(replace(blind, pos=blind.pos + 15), "h2o") == 0).all()


def test_huge_logits_stay_finite() -> None:
    view = make_view()
    huge = replace(view, q=view.q * 1e17, k=view.k * 1e17)
    assert torch.isfinite(sum_attention(huge, "h2o")).all()
    assert torch.allclose(sum_attention(huge, "h2o").sum(1), torch.full((6,), 6.0), rtol=0, atol=FP32)


def test_a_log_weight_counts_the_row_as_often() -> None:
    view = make_view(kv_heads=1)
    twice = torch.zeros(1, 20)
    twice[0, 4] = torch.tensor(2.0).log()
    doubled = evict_some(view, [list(range(20))], twice)
    copied = replace(
        view,
        k=torch.cat([view.k, view.k[:, 4:5]], 1),
        v=torch.cat([view.v, view.v[:, 4:5]], 1),
        pos=torch.cat([view.pos, view.pos[:, 4:5]], 1),
    )
    once = sum_attention(copied, "h2o")
    assert torch.allclose(sum_attention(doubled, "h2o")[:, 4], once[:, 4] + once[:, 20], rtol=0, atol=FP32)


def test_bfloat16_is_near_float32() -> None:
    view = make_view(dtype=torch.bfloat16)
    wide = replace(view, q=view.q.float(), k=view.k.float())
    given = mean_attention(view, "h2o")
    assert given.dtype == torch.float32
    assert torch.allclose(given, mean_attention(wide, "h2o"), rtol=0, atol=BF16)
    assert torch.allclose(given.sum(1), torch.ones(6), rtol=0, atol=FP32)  # the softmax is wide


def test_groups() -> None:
    score = torch.tensor([[1.0, 2.0], [3.0, 0.0], [5.0, 5.0], [7.0, 1.0]])
    assert aggregate_group(score, 2, "mean").tolist() == [[2.0, 1.0], [6.0, 3.0]]
    assert aggregate_group(score, 2, "max").tolist() == [[3.0, 2.0], [7.0, 5.0]]
    assert aggregate_group(score, 4, "max").tolist() == score.tolist()


@pytest.mark.parametrize("score", [H2O(), SnapKV(), TOVA(), QuestionAware(), ValueSpread(SnapKV())])
def test_no_queries_is_an_error_that_names_the_score(score) -> None:
    view = make_view()
    unseen = replace(view, q=view.q[:, :0], q_pos=view.q_pos[:0])
    name = score.name.removesuffix("+spread")
    with pytest.raises(BadInput, match=rf"observed queries for the score {name} is 0; it must be at least 1"):
        score(unseen)


def test_inputs_are_left_alone() -> None:
    view = ragged_view()
    before = [tensor.clone() for tensor in (view.k, view.q, view.pos, view.log_w)]
    sum_attention(view, "h2o", torch.ones(6))
    assert all(torch.equal(*pair) for pair in zip(before, (view.k, view.q, view.pos, view.log_w), strict=True))
