"""Every score: its protocol, its formula on a small layer, ragged heads, pooling over gaps, gathering."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from views import attend_slowly, evict_some, make_view

from fewer import BadInput
from fewer.evict.score import (
    H2O,
    SCORES,
    TOVA,
    KeyNorm,
    QuestionAware,
    SnapKV,
    StreamingLLM,
    Uniform,
    ValueSpread,
    make_score,
)
from fewer.evict.score.pooling import pool_neighbours
from fewer.types import CacheView, Needs, RowScore
from tolerances import FP32

ALL = [make_score(name + spread) for name in SCORES for spread in ("", "+spread")]
RAGGED = [[0, 1, 2, 5, 6, 9, 12, 15, 17, 19], [3, 4, 8, 18]]


def grouped(view: CacheView, how: str = "mean") -> torch.Tensor:
    """Mean over queries in float64, then over the group: [kv_heads, n]."""
    score = attend_slowly(view).mean(1).view(view.k.shape[0], -1, view.k.shape[1])
    return score.mean(1) if how == "mean" else score.amax(1)


def pool_slowly(score: torch.Tensor, view: CacheView, before: int, behind: int, how: str) -> torch.Tensor:
    """Over rows before the first query from which it is at most so many positions before or behind."""
    pooled = score.clone()
    first = int(view.q_pos[0])
    for head in range(score.shape[0]):
        padded = [False] * score.shape[1] if view.padding is None else view.padding[head].tolist()
        pos = view.pos[head].tolist()
        for i, here in enumerate(pos):
            if padded[i] or here >= first:
                continue
            near = [
                float(score[head, j])
                for j, there in enumerate(pos)
                if not padded[j] and there < first and -behind <= there - here <= before
            ]
            pooled[head, i] = max(near) if how == "max" else sum(near) / len(near)
    return pooled


@pytest.mark.parametrize("score", ALL, ids=lambda score: score.name)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_protocol(score: RowScore, dtype: torch.dtype) -> None:
    whole = make_view(dtype=dtype)
    for view in (whole, evict_some(whole, RAGGED), make_view(rows=1, queries=1, dtype=dtype)):
        given = score(view)
        assert given.shape == view.pos.shape
        assert given.dtype == torch.float32
        assert torch.isfinite(given).all()
        assert (given >= 0).all()
        if view.padding is not None:
            assert (given[view.padding] == 0).all()
            assert (given[~view.padding] > 0).all()
        assert torch.equal(score(view), given)
    assert all(isinstance(value, (str, int, float)) for value in score.describe().values())


@pytest.mark.parametrize("score", [score for score in ALL if "tova" not in score.name], ids=lambda score: score.name)
def test_padding_changes_nothing(score: RowScore) -> None:
    """Nor does what other heads hold; but for TOVA, whose heads score together."""
    view, rows = make_view(), [0, 3, 4, 5, 9, 15, 19]
    tight, loose = evict_some(view, [rows, rows]), evict_some(view, [rows, [*rows, 10, 11]])
    assert torch.allclose(score(loose)[0, :7], score(tight)[0], rtol=0, atol=FP32)
    assert (score(loose)[0, 7:] == 0).all()


def test_what_they_need() -> None:
    assert {name: make_score(name).needs for name in SCORES} == {
        "h2o": Needs("strided", 512),
        "snapkv": Needs("window", 32),
        "tova": Needs("last", 1),
        "streaming": Needs(),
        "keynorm": Needs(),
        "uniform": Needs(),
        "question": Needs("window", 8),
        "kvzip": Needs("repeat", 512),
    }
    assert [score.name for score in ALL if score.gathers] == ["h2o", "h2o+spread", "kvzip", "kvzip+spread"]
    assert ValueSpread(SnapKV(window=7)).needs == Needs("window", 7)


@pytest.mark.parametrize("group", ["mean", "max"])
@pytest.mark.parametrize("pool", ["mean", "max"])
@pytest.mark.parametrize("ragged", [False, True])
def test_snapkv_and_question(group: str, pool: str, ragged: bool) -> None:
    view = evict_some(make_view(), RAGGED) if ragged else make_view()
    for score, reach in (
        (SnapKV(pool=pool, group=group), (2, 2)),
        (QuestionAware(before=1, behind=4, pool=pool, group=group), (1, 4)),
        (QuestionAware(before=3, behind=0, pool=pool, group=group), (3, 0)),
    ):
        assert torch.allclose(score.unpooled(view).double(), grouped(view, group), rtol=0, atol=FP32)
        expected = pool_slowly(grouped(view, group), view, *reach, pool)
        assert torch.allclose(score(view).double(), expected, rtol=0, atol=FP32)


def test_pooling_one_is_none() -> None:
    view = make_view()
    assert torch.allclose(SnapKV(pooling=1)(view).double(), grouped(view), rtol=0, atol=FP32)


@pytest.mark.parametrize(
    ("reach", "carried"),
    [((0, 0), [7]), ((1, 1), [6, 7, 8]), ((2, 0), [5, 6, 7]), ((0, 3), [7, 8, 9, 10]), ((99, 99), list(range(14)))],
)
def test_pooling_carries_a_row_to_its_neighbours_and_not_to_the_observers(
    reach: tuple[int, int], carried: list[int]
) -> None:
    view = make_view()  # the observers begin at row 14
    score = torch.zeros(2, 20)
    score[0, 7] = 1
    pooled = pool_neighbours(score, view, reach, "max")
    assert pooled[0].nonzero().flatten().tolist() == carried
    assert (pooled[1] == 0).all()


def test_an_observer_is_not_pooled_and_gives_nothing() -> None:
    view = make_view()
    score = torch.zeros(2, 20)
    score[:, 14] = 1
    for pool in ("max", "mean"):
        assert torch.equal(pool_neighbours(score, view, (2, 2), pool), score)


def test_rows_beside_a_gap_are_no_neighbours() -> None:
    view = evict_some(make_view(), [[0, 1, 2, 9, 10], [0, 3, 4, 5, 6]])
    score = torch.tensor([[0.0, 0.0, 8.0, 0.0, 2.0], [8.0, 0.0, 0.0, 0.0, 4.0]])
    assert pool_neighbours(score, view, (1, 1), "max").tolist() == [
        [0.0, 8.0, 8.0, 2.0, 2.0],
        [8.0, 0.0, 0.0, 4.0, 4.0],
    ]
    means = torch.tensor([[0.0, 8 / 3, 4.0, 1.0, 1.0], [8.0, 0.0, 0.0, 4 / 3, 2.0]])
    assert torch.allclose(pool_neighbours(score, view, (1, 1), "mean"), means, rtol=0, atol=FP32)


def test_a_needle_of_digits_is_carried_by_its_first() -> None:
    """One row gets the attention; sixteen behind it and six before it are wanted as much."""
    view = make_view(rows=100, queries=1, kv_heads=1, group=1)
    k = torch.zeros_like(view.k)
    k[0, 40] = view.q[0, 0] * 20
    given = QuestionAware()(replace(view, k=k))
    assert given[0].topk(23).indices.sort().values.tolist() == list(range(34, 57))


def test_h2o_sums_over_what_its_queries_stand_for() -> None:
    view = make_view(rows=24, queries=24)
    everything = attend_slowly(view).sum(1).view(2, 3, -1).mean(1)
    assert torch.allclose(H2O()(view).double(), everything, rtol=0, atol=FP32)
    some = replace(view, q=view.q[:, 3::4], q_pos=view.q_pos[3::4])
    expected = 4 * attend_slowly(some).sum(1).view(2, 3, -1).mean(1)
    assert torch.allclose(H2O()(some).double(), expected, rtol=0, atol=10 * FP32)
    one = replace(view, q=view.q[:, -1:], q_pos=view.q_pos[-1:])
    assert torch.allclose(H2O()(one).double(), grouped(one), rtol=0, atol=FP32)


@pytest.mark.parametrize("score", [H2O(), ValueSpread(H2O())])
def test_what_was_gathered_is_added(score: RowScore) -> None:
    view = make_view()
    gathered = torch.rand(2, 20, generator=torch.Generator().manual_seed(1))
    assert torch.allclose(score(replace(view, gathered=gathered)), score(view) + gathered, rtol=0, atol=FP32)


def test_tova_wants_the_same_rows_in_all_heads() -> None:
    view = make_view(queries=1)
    given = TOVA()(view)
    assert torch.allclose(given[0].double(), attend_slowly(view)[:, -1].mean(0), rtol=0, atol=FP32)
    assert torch.equal(given[0], given[1])


def test_tova_averages_over_the_heads_that_hold_the_token() -> None:
    view = evict_some(make_view(queries=1), [[0, 4, 7, 19], [4, 19]])
    mine = attend_slowly(view)[:, -1].view(2, 3, -1).mean(1)
    given = TOVA()(view).double()
    expected = [
        float(mine[0, 0]),
        float(mine[0, 1] + mine[1, 0]) / 2,
        float(mine[0, 2]),
        float(mine[0, 3] + mine[1, 1]) / 2,
    ]
    assert torch.allclose(given[0], torch.tensor(expected, dtype=torch.float64), rtol=0, atol=FP32)
    assert given[1].tolist() == [float(given[0, 1]), float(given[0, 3]), 0.0, 0.0]


def test_recency_grows_with_the_position() -> None:
    view = evict_some(make_view(), RAGGED)
    assert StreamingLLM()(view)[0].tolist() == [pos + 1 for pos in RAGGED[0]]
    far = replace(make_view(rows=4), pos=torch.arange(2**24 - 6, 2**24 - 2).expand(2, -1))
    assert (StreamingLLM()(far).diff(dim=1) == 1).all()


def test_small_keys_are_wanted() -> None:
    view = make_view(rows=3, queries=1)
    k = torch.zeros_like(view.k)
    k[:, 1, 0], k[:, 2, :2] = 1, torch.tensor([3.0, -4.0])
    assert KeyNorm()(replace(view, k=k))[0].tolist() == pytest.approx([1, 1 / 2, 1 / 6], abs=FP32)


def test_uniform_is_one() -> None:
    assert (Uniform()(make_view()) == 1).all()


def test_spread_is_the_distance_from_the_weighted_mean() -> None:
    view = make_view()
    score = SnapKV()(view).double()
    values = view.v.double()
    for head in range(2):
        mean = sum(score[head, row] * values[head, row] for row in range(20)) / score[head].sum()
        expected = torch.stack([score[head, row] * (values[head, row] - mean).norm() for row in range(20)])
        assert torch.allclose(ValueSpread(SnapKV())(view)[head].double(), expected, rtol=0, atol=FP32)


def test_spread_of_equal_values_and_of_zero_scores_is_zero() -> None:
    view = make_view()
    same = replace(view, v=torch.ones_like(view.v))
    assert torch.allclose(ValueSpread(Uniform())(same), torch.zeros(2, 20), rtol=0, atol=FP32)
    blind = replace(view, q_pos=view.q_pos - 100)
    assert (ValueSpread(SnapKV())(blind) == 0).all()


def test_spread_minimises_the_linearised_variance() -> None:
    """Of all inclusion probabilities with one sum, those in proportion to score x spread; none clips here."""
    generator = torch.Generator().manual_seed(0)
    view = make_view(rows=200, queries=1, kv_heads=1, group=1)
    view = replace(view, q=view.q * 0.1)  # flat attention, so that no share reaches 1
    attention = SnapKV(pooling=1)(view)[0].double()
    mean = attention @ view.v[0].double()
    square = (attention * (view.v[0].double() - mean).norm(dim=1)) ** 2

    def variance(size: torch.Tensor) -> float:
        pi = 20 * size / size.sum()
        assert pi.max() < 1
        return float(((1 / pi - 1) * square).sum())

    best = ValueSpread(SnapKV(pooling=1))(view)[0].double()
    least = variance(best)
    assert least < variance(attention)
    assert least < variance(torch.ones(200, dtype=torch.float64))
    for _ in range(20):
        other = best * (1 + 0.2 * (torch.rand(200, generator=generator, dtype=torch.float64) - 0.5))
        assert least < variance(other)


@pytest.mark.parametrize(
    ("make", "settings", "says"),
    [
        (H2O, {"queries": 0}, "queries is 0"),
        (H2O, {"group": "sum"}, "group is 'sum'; it must be 'mean' or 'max'"),
        (SnapKV, {"window": 0}, "window is 0"),
        (SnapKV, {"window": 2.5}, "window is 2.5"),
        (SnapKV, {"pooling": 4}, "pooling is 4; it must be odd.*Use 5"),
        (SnapKV, {"pooling": 0}, "pooling is 0"),
        (SnapKV, {"pool": "average"}, "pool is 'average'"),
        (SnapKV, {"group": ""}, "group is ''"),
        (QuestionAware, {"count": 0}, "count is 0"),
        (QuestionAware, {"behind": -3}, "behind is -3"),
        (QuestionAware, {"group": "min"}, "group is 'min'"),
    ],
)
def test_settings_out_of_range(make: type, settings: dict[str, object], says: str) -> None:
    with pytest.raises(BadInput, match=says):
        make(**settings)


def test_scores_by_name() -> None:
    assert [make_score(name).name for name in SCORES] == list(SCORES)
    assert make_score("question", behind=9) == QuestionAware(behind=9)
    assert make_score("snapkv+spread", window=8) == ValueSpread(SnapKV(window=8))
    assert make_score("snapkv+spread").name == "snapkv+spread"
    assert make_score("snapkv+spread").describe() == SnapKV().describe()


@pytest.mark.parametrize(
    ("name", "settings", "says"),
    [
        ("snapvk", {}, "score is 'snapvk'; it must be one of h2o, .*Did you mean snapkv"),
        ("", {}, "score is ''"),
        ("snapkv+spread+spread", {}, "score is"),
        ("snapkv", {"windows": 3}, "the setting windows of snapkv is 3; .*Use window"),
        ("uniform", {"window": 3}, "there are no settings"),
    ],
)
def test_unknown_names(name: str, settings: dict[str, object], says: str) -> None:
    with pytest.raises(BadInput, match=says):
        make_score(name, **settings)
