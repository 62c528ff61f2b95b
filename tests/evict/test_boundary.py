"""Evicted mass and keep-boundary margin: by hand, against the definition row by row, and on a compression."""

from __future__ import annotations

import math
import statistics

import pytest
import torch

from fewer.evict import compress, make_policy
from fewer.evict.boundary import measure_boundary
from fewer.kv import State
from fewer.query_log import QueryLog
from fewer.types import Selection
from tolerances import FP32

INF = float("inf")


def choose(*heads: list[int]) -> Selection:
    """These rows of each head; padding repeats the first."""
    size = max(map(len, heads))
    return Selection(
        torch.tensor([rows + rows[:1] * (size - len(rows)) for rows in heads]), torch.tensor([*map(len, heads)])
    )


def measure(score: list[float], kept: list[int]) -> tuple[float, float]:
    mass, margin = measure_boundary(torch.tensor([score]), choose(kept))
    return float(mass), float(margin)


def test_by_hand() -> None:
    score = [INF, 4.0, 1.0, 3.0, 2.0, -INF]  # of the free rows the mean is 2.5, the SD sqrt(1.25)
    assert measure(score, [0, 1, 3]) == pytest.approx((3 / 10, (3 - 2) / math.sqrt(1.25)), abs=FP32)
    assert measure(score, [0, 2, 3]) == pytest.approx((6 / 10, (1 - 4) / math.sqrt(1.25)), abs=FP32)


@pytest.mark.parametrize(
    ("score", "kept", "mass"),
    [
        ([INF, 1.0, 2.0], [0], 1.0),  # no unprotected row stayed
        ([INF, 1.0, 2.0], [0, 1, 2], 0.0),  # none left
        ([INF, INF, -INF], [0, 1], 0.0),  # none was up for choice
    ],
)
def test_a_margin_needs_rows_on_both_sides(score: list[float], kept: list[int], mass: float) -> None:
    found = measure(score, kept)
    assert found[0] == mass
    assert math.isnan(found[1])


def test_equal_scores_have_no_margin() -> None:
    assert measure([0.0, 0.0, 0.0], [1]) == (0.0, 0.0)
    assert measure([5.0, 5.0, 5.0, 5.0], [1]) == (0.75, 0.0)


def test_huge_and_nearly_equal_scores() -> None:
    most = torch.finfo(torch.float32).max
    assert measure([most, most / 2], [0]) == pytest.approx((1 / 3, 2.0), abs=FP32)
    near = 1e8 + 8
    mass, margin = measure([1e8] * 4095 + [near], [4095])
    assert mass == pytest.approx(4095 / 4096, abs=FP32)
    assert margin == pytest.approx(8 / statistics.pstdev([0.0] * 4095 + [8.0]), rel=FP32)


def test_every_head_against_the_definition() -> None:
    generator = torch.Generator().manual_seed(3)
    score = torch.rand(6, 50, generator=generator)
    score[:, :4], score[:, 47:] = INF, -INF
    kept = [
        sorted([0, 1, 2, 3, *(4 + torch.randperm(43, generator=generator)[: 5 + head]).tolist()]) for head in range(6)
    ]
    mass, margin = measure_boundary(score, choose(*kept))
    for head, rows in enumerate(kept):
        free = {row: float(score[head, row]) for row in range(4, 47)}
        left = [value for row, value in free.items() if row not in rows]
        stayed = [value for row, value in free.items() if row in rows]
        assert float(mass[head]) == pytest.approx(sum(left) / sum(free.values()), abs=FP32)
        expected = (min(stayed) - max(left)) / statistics.pstdev(free.values())
        assert float(margin[head]) == pytest.approx(expected, rel=FP32)


def filled(rows: int, layers: int = 3) -> State:
    generator = torch.Generator().manual_seed(0)
    state = State.new(layers)
    state.queries = QueryLog(make_policy("snapkv", 20).score.needs, layers)
    for index, kv in enumerate(state.layers):
        kv.append(torch.randn(2, 2, rows, 8, generator=generator), torch.arange(rows), 0)
        q = 2 * torch.randn(4, rows, 8, generator=generator)
        state.queries.record(index, q, torch.arange(rows), 0, rows, 8**-0.5, None)
    state.num_seen = rows
    return state


@pytest.mark.parametrize("name", ["snapkv", "pivotal:snapkv", "poisson:question"])
def test_a_compression_tells_what_it_did_to_the_score(name: str) -> None:
    policy = make_policy(name, 30, sinks=2, recent=4)
    eviction = compress(filled(90), policy, seed=1)
    assert eviction.mass.shape == eviction.margin.shape == (3, 2)
    assert bool(((eviction.mass > 0) & (eviction.mass < 1)).all())
    assert bool((eviction.margin >= 0).all()) == (name == "snapkv")  # by chance some rows stay that score less
    more = compress(filled(90), make_policy(name, 60, sinks=2, recent=4), seed=1)
    assert bool((more.mass < eviction.mass).all())
    whole = compress(filled(90), make_policy(name, 90, sinks=2, recent=4), seed=1)
    assert not whole.mass.any()
    assert bool(whole.margin.isnan().all())


@pytest.mark.parametrize("name", ["question", "snapkv"])
def test_attention_is_looked_at_once_where_it_is_wanted_twice(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = make_policy(f"pivotal:{name}", 30, sinks=2, recent=4)
    counts = []
    module = __import__(f"fewer.evict.score.{name}", fromlist=["mean_attention"])
    real = module.mean_attention

    def count(view, who):  # type: ignore[no-untyped-def]
        counts.append(view.layer)
        return real(view, who)

    monkeypatch.setattr(module, "mean_attention", count)
    assert policy.sizes == "spread"
    compress(filled(90), policy, seed=1)
    assert counts == [1, 2, 3]
