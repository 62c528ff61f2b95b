"""What sampled designs draw by: who is certain, and the sizes of the rest."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from views import make_view

from fewer.errors import BadInput
from fewer.evict import make_policy
from fewer.evict.score import H2O, QuestionAware, Uniform, ValueSpread
from fewer.evict.size import find_sizes, mark_core, score_rows
from tolerances import FP32

INF = float("inf")


@pytest.mark.parametrize(
    ("core", "keep", "certain"),
    [
        (0.0, 6, [0]),
        (0.5, 6, [0, 3, 5]),  # two of the five that may be chosen
        (0.5, 7, [0, 3, 5, 7]),
        (1.0, 6, [0, 3, 5, 7, 6]),  # one row is left to chance
        (1.0, 1, [0]),
        (0.9, 2, [0]),
    ],
)
def test_the_core_is_certain(core: float, keep: int, certain: list[int]) -> None:
    score = torch.tensor([[INF, -INF, 1.0, 9.0, 2.0, 8.0, 5.0, 5.0, 0.0]])
    marked = mark_core(score, torch.tensor([keep]), core)
    assert set(torch.isposinf(marked)[0].nonzero().flatten().tolist()) == set(certain)
    rest = ~torch.isposinf(marked)
    assert torch.equal(marked[rest], score[rest])


def test_heads_have_their_own_core() -> None:
    score = torch.tensor([[3.0, 2.0, 1.0, 0.0], [0.0, 1.0, 2.0, 3.0]])
    marked = torch.isposinf(mark_core(score, torch.tensor([2, 3]), 1.0))
    assert marked.tolist() == [[True, False, False, False], [False, False, True, True]]


def test_sizes_are_attention_and_spread() -> None:
    view = make_view()
    pooled = QuestionAware()
    attention = pooled.unpooled(view).double()
    values = view.v.double()
    expected = torch.zeros_like(attention)
    for head in range(attention.shape[0]):
        mean = (attention[head][:, None] * values[head]).sum(0) / attention[head].sum()
        for row in range(attention.shape[1]):
            expected[head, row] = attention[head, row] ** 0.75 * (values[head, row] - mean).norm()
    for score in (pooled, ValueSpread(pooled)):
        scored, seen = score_rows(view, score)
        assert torch.equal(scored, score(view))
        assert torch.allclose(find_sizes(view, seen).double(), expected, rtol=0, atol=FP32)


def test_a_score_that_does_not_pool_is_its_own_attention() -> None:
    view = make_view()
    scored, seen = score_rows(view, H2O())
    assert seen is None
    assert torch.allclose(find_sizes(view, 2**4 * scored), 8 * find_sizes(view, scored), rtol=FP32, atol=0)
    even = find_sizes(view, Uniform()(view))
    distance = (view.v.float() - view.v.float().mean(1, keepdim=True)).norm(dim=-1)
    assert torch.allclose(even / even.sum(), distance / distance.sum(), rtol=0, atol=FP32)


def test_values_that_are_all_alike_have_no_size() -> None:
    view = make_view()
    view = replace(view, v=torch.ones_like(view.v))
    assert float(find_sizes(view, Uniform()(view)).max()) < FP32


@pytest.mark.parametrize("setting", [{"delta": 0.05}, {"radius": "paper"}, {"certify": True}])
@pytest.mark.parametrize("name", ["snapkv", "poisson:snapkv"])
def test_what_belongs_to_a_certificate_is_refused_without_one(name: str, setting: dict[str, object]) -> None:
    (key,) = setting
    others = {} if name == "snapkv" else {"estimator": "plug-in"}
    with pytest.raises(BadInput, match=f"{key} is .*left out where there is no certificate"):
        make_policy(name, "25%", **others, **setting)
    assert make_policy("poisson:snapkv", "25%", **setting).certified is not None
    assert make_policy("poisson:snapkv", "25%", certify=False).certified is None
