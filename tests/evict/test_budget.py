"""Budgets: exact totals, limits, the pyramid's line, Ada-KV's shares, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fewer import BadInput, Keep
from fewer.evict.budget import Budget, apportion

INF = float("inf")


def at(
    budget: Budget, score: torch.Tensor, layer: int = 1, num_layers: int = 30, tokens: int | None = None, low: int = 1
):
    rows = (score > -INF).sum(1)
    minimum = torch.full_like(rows, low).minimum(rows)
    several = [rows] * num_layers, [score] * num_layers, [minimum] * num_layers
    return budget.over(several[0], tokens or score.shape[1], *several[1:])[layer - 1].tolist()


def scores(heads: int = 3, rows: int = 100, seed: int = 0) -> torch.Tensor:
    return torch.rand(heads, rows, generator=torch.Generator().manual_seed(seed)) ** 4


@pytest.mark.parametrize(
    ("keep", "expected"),
    [("25%", 25), (7, 7), (0.125, 12), ("100%", 100), (100, 100), (5000, 100), (1, 1), ("0.1%", 1)],
)
def test_uniform(keep: object, expected: int) -> None:
    budget = Budget(Keep.parse(keep))
    for layer in (1, 15, 30):
        assert at(budget, scores(), layer) == [expected] * 3


def test_a_fraction_is_of_the_tokens_seen() -> None:
    assert at(Budget(Keep.parse("25%")), scores(rows=60), tokens=200) == [50] * 3
    assert at(Budget(Keep.parse("50%")), scores(rows=60), tokens=200) == [60] * 3  # 100, but there are 60


def test_a_head_with_few_rows_keeps_them_all() -> None:
    score = scores()
    score[1, 10:] = -INF
    assert at(Budget(Keep(tokens=30)), score) == [30, 10, 30]
    assert sum(at(Budget(Keep(tokens=30), heads="adaptive"), score)) == 90


@pytest.mark.parametrize("layers", ["uniform", "pyramid"])
@pytest.mark.parametrize("heads", ["equal", "adaptive"])
def test_below_the_minimum(layers: str, heads: str) -> None:
    budget = Budget(Keep.parse("25%"), layers=layers, heads=heads)
    says = r"budget is '25% \(25 rows\)'; it must be at least 37 rows per head: .*Keep more, or protect fewer tokens"
    with pytest.raises(BadInput, match=says):
        at(budget, scores(), low=37)
    assert at(Budget(Keep(tokens=37), layers=layers, heads=heads), scores(), low=37) == [37] * 3


@pytest.mark.parametrize("keep", [1, 2, 37, 250, 499, 500, 501, 900, 999, 1000])
@pytest.mark.parametrize("num_layers", [1, 2, 3, 30])
@pytest.mark.parametrize("beta", [1.0, 2.0, 20.0, 1e6])
def test_the_pyramid_is_a_line_with_the_same_total(keep: int, num_layers: int, beta: float) -> None:
    budget, score = Budget(Keep(tokens=keep), layers="pyramid", beta=beta), scores(1, 1000)
    kept = [at(budget, score, layer, num_layers)[0] for layer in range(1, num_layers + 1)]
    assert sum(kept) == num_layers * keep
    assert kept == sorted(kept, reverse=True)
    assert kept[0] <= 1000
    assert kept[-1] >= 1
    line = np.linspace(kept[0], kept[-1], num_layers)
    assert np.abs(np.array(kept) - line).max() < 2  # each end is rounded by less than 1, and so is what is between


def test_the_pyramids_ends_are_the_papers() -> None:
    """beta = 20 and nothing protected but one row: the last layer has a twentieth of the mean, the first the rest."""
    budget, score = Budget(Keep(tokens=401), layers="pyramid"), scores(1, 4000)
    assert at(budget, score, 1) == [1 + 780]
    assert at(budget, score, 30) == [1 + 20]
    assert at(budget, score, 30, low=37) == [37 + round(364 / 20)]
    assert at(Budget(Keep(tokens=401), layers="pyramid", beta=1), score, 17) == [401]


def test_the_pyramid_is_flatter_where_it_would_leave_the_cache() -> None:
    budget, score = Budget(Keep.parse("75%"), layers="pyramid"), scores(1, 1000)
    assert [at(budget, score, layer, 3)[0] for layer in (1, 2, 3)] == [1000, 750, 500]


def test_adaptive_counts_each_heads_share_of_the_highest() -> None:
    score = torch.zeros(2, 100)
    score[0, :30] = 5.0
    score[1, :10] = 4.0
    score[:, 50:] = 1.0
    # of the 40 highest 30 are the first head's; 80% of that and 20% of an equal share
    assert at(Budget(Keep(tokens=20), heads="adaptive"), score) == [28, 12]
    assert at(Budget(Keep(tokens=20), heads="adaptive", safeguard=0.0), score) == [30, 10]
    assert at(Budget(Keep(tokens=20), heads="adaptive", safeguard=1.0), score) == [20, 20]


@pytest.mark.parametrize("value", [0.0, 1.0, 1e38])
def test_adaptive_with_equal_scores_is_equal(value: float) -> None:
    assert at(Budget(Keep(tokens=20), heads="adaptive"), torch.full((4, 50), value)) == [20] * 4
    assert sorted(at(Budget(Keep(tokens=1), heads="adaptive", safeguard=0.0), torch.full((4, 50), value))) == [1] * 4


def test_adaptive_counts_protected_rows_first() -> None:
    score = scores(2)
    score[:, :10] = INF
    score[1, 10:] = 0
    kept = at(Budget(Keep(tokens=30), heads="adaptive", safeguard=0.0), score, low=11)
    assert kept == [49, 11]


@pytest.mark.parametrize("seed", range(20))
def test_adaptive_totals_are_exact_within_the_limits(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    heads, rows = 1 + seed % 8, 40
    score = torch.rand(heads, rows, generator=generator) ** (8 * torch.rand(heads, 1, generator=generator))
    held = torch.randint(5, rows + 1, (heads,), generator=generator)
    score[torch.arange(rows) >= held[:, None]] = -INF
    for keep in range(5, rows + 2):
        for layers in ("uniform", "pyramid"):
            budget = Budget(Keep(tokens=keep), layers=layers, heads="adaptive")
            mean = at(Budget(Keep(tokens=keep), layers=layers), torch.zeros(1, rows), 7, low=5)[0]
            kept = torch.tensor(at(budget, score, 7, low=5))
            assert int(kept.sum()) == min(heads * mean, int(held.sum()))
            assert (kept >= 5).all()
            assert (kept <= held).all()


def test_apportion_is_the_nearest_with_the_total() -> None:
    def of(share: list[float], low: list[int], high: list[int], total: int) -> list[int]:
        return apportion(np.array(share), np.array(low), np.array(high), total).tolist()

    assert of([1.5, 2.5, 3.0], [0, 0, 0], [9, 9, 9], 7) == [2, 2, 3]  # the earlier of equal remainders
    assert of([10.0, 1.0, 1.0], [0, 0, 0], [4, 9, 9], 12) == [4, 4, 4]
    assert of([0.2, 5.0, 6.8], [2, 0, 0], [9, 9, 9], 12) == [2, 4, 6]
    assert of([3.0, 3.0], [0, 0], [2, 2], 6) == [2, 2]  # no more than there is
    assert of([3.0, 3.0], [4, 4], [9, 9], 6) == [4, 4]  # no less than the minimum
    assert of([1 / 3] * 3, [0] * 3, [1] * 3, 1) == [1, 0, 0]


def test_describe() -> None:
    assert Budget(Keep.parse("25%")).describe() == {"keep": "25%", "layers": "uniform", "heads": "equal"}
    assert Budget(Keep(tokens=9), "pyramid", "adaptive", safeguard=0.5).describe() == {
        "keep": "9 tokens",
        "layers": "pyramid",
        "heads": "adaptive",
        "beta": 20.0,
        "safeguard": 0.5,
    }


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"keep": 0.25}, r"keep is 0.25; it must be a Keep"),
        ({"layers": "cone"}, "layers is 'cone'; it must be 'uniform', 'pyramid' or 'adaptive'"),
        ({"heads": "ada"}, "heads is 'ada'; it must be 'equal' or 'adaptive'"),
        ({"beta": 20.0}, "beta is 20.0; it must be left out where layers is 'uniform'"),
        ({"safeguard": 0.2}, "safeguard is 0.2; it must be left out where neither layers nor heads is 'adaptive'"),
        ({"layers": "pyramid", "beta": 0.5}, "beta is 0.5; it must be a number of at least 1"),
        ({"heads": "adaptive", "safeguard": 1.5}, "safeguard is 1.5"),
    ],
)
def test_settings_out_of_range(settings: dict[str, object], says: str) -> None:
    with pytest.raises(BadInput, match=says):
        Budget(**({"keep": Keep(tokens=5)} | settings))


def over(budget: Budget, several: list[torch.Tensor], low: int = 1, tokens: int | None = None) -> list[list[int]]:
    rows = [(score > -INF).sum(1) for score in several]
    minimums = [torch.full_like(each, low).minimum(each) for each in rows]
    found = budget.over(rows, tokens or several[0].shape[1], several, minimums)
    return [each.tolist() for each in found]


@pytest.mark.parametrize("heads", ["equal", "adaptive"])
@pytest.mark.parametrize("keep", [5, 37, 60, 99, 100])
@pytest.mark.parametrize("safeguard", [None, 0.0, 0.3, 1.0])
def test_over_all_layers_the_total_is_exact(heads: str, keep: int, safeguard: float | None) -> None:
    several = [scores(seed=layer) * 2.0**layer for layer in range(6)]
    kept = over(Budget(Keep(tokens=keep), "adaptive", heads, safeguard=safeguard), several, low=5)
    assert sum(map(sum, kept)) == 6 * 3 * keep
    assert all(5 <= each <= 100 for layer in kept for each in layer)
    if heads == "equal":
        assert all(len(set(layer)) == 1 for layer in kept)
    if safeguard == 1.0:
        assert kept == [[keep] * 3] * 6


def test_over_all_layers_the_highest_scores_win() -> None:
    several = [torch.arange(30.0).reshape(3, 10), torch.arange(15.0, 45.0).reshape(3, 10)]  # 0 to 29, and 15 to 44
    kept = over(Budget(Keep(tokens=4), "adaptive", "adaptive", safeguard=0.0), several, low=0)
    assert kept == [[0, 0, 5], [0, 9, 10]]  # the 23 from 26 on, and of the two 25 one: equal shares go to the earlier


def test_a_layer_is_as_wide_as_the_head_that_has_most() -> None:
    one, other = torch.zeros(2, 10), torch.zeros(2, 10)
    one[0, :6], other[:, :3] = 5.0, 3.0  # six rows in one head, three in both
    several = [one, other]
    assert over(Budget(Keep(tokens=3), "adaptive", "equal"), several, low=0) == [[6, 6], [0, 0]]
    assert over(Budget(Keep(tokens=4), "adaptive", "equal"), several, low=0) == [[6, 6], [2, 2]]
    assert over(Budget(Keep(tokens=4), "adaptive", "equal", safeguard=0.5), several, low=0) == [[5, 5], [3, 3]]
    assert over(Budget(Keep(tokens=3), "adaptive", "equal"), several, low=1) == [[5, 5], [1, 1]]


@pytest.mark.parametrize("heads", ["equal", "adaptive"])
def test_over_all_layers_rows_that_are_not_there_go_to_others(heads: str) -> None:
    several = [scores(rows=8), scores(rows=100)]
    kept = over(Budget(Keep(tokens=40), "adaptive", heads), several, low=2, tokens=100)
    assert all(each <= 8 for each in kept[0])
    assert sum(map(sum, kept)) == 2 * 3 * 40
    assert over(Budget(Keep(tokens=90), "adaptive", heads), several, low=2, tokens=100) == [[8] * 3, [100] * 3]
    with pytest.raises(BadInput, match=r"budget is '9 tokens \(9 rows\)'; it must be at least 10 rows per head"):
        over(Budget(Keep(tokens=9), "adaptive", heads), several, low=10, tokens=100)


def test_what_a_budget_over_layers_says_of_itself() -> None:
    said = Budget(Keep.parse("25%"), "adaptive").describe()
    assert said == {"keep": "25%", "layers": "adaptive", "heads": "equal", "safeguard": 0.0}
    assert Budget(Keep.parse("25%"), "adaptive", "adaptive").describe()["safeguard"] == 0.2
    with pytest.raises(BadInput, match=r"beta is 20.0; it must be left out where layers is 'adaptive'"):
        Budget(Keep(tokens=5), "adaptive", beta=20.0)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    held=st.lists(st.tuples(st.integers(1, 12), st.integers(1, 12)), min_size=1, max_size=5),
    keep=st.integers(1, 14),
    low=st.integers(0, 3),
    levels=st.integers(1, 4),
    heads=st.sampled_from(["equal", "adaptive"]),
    safeguard=st.sampled_from([None, 0.0, 0.25, 1.0]),
    seed=st.integers(0, 99),
)
def test_over_all_layers_whatever_they_hold(held, keep, low, levels, heads, safeguard, seed) -> None:
    """Padding, ties (few levels) and protected rows (inf) included; with equal heads those that hold less are short."""
    generator = torch.Generator().manual_seed(seed)
    several, minimums = [], []
    for rows in held:
        score = torch.randint(0, levels, (2, 12), generator=generator).float()
        for head, count in enumerate(rows):
            score[head, : min(low, count)] = INF
            score[head, count:] = -INF
        several.append(score)
        minimums.append(torch.tensor(rows).clamp(max=low))
    rows = [torch.tensor(each) for each in held]
    budget = Budget(Keep(tokens=keep), "adaptive", heads, safeguard=safeguard)
    most = int(torch.stack(minimums).max())
    if min(keep, 12) < most:
        with pytest.raises(BadInput, match=f"at least {most} rows per head"):
            budget.over(rows, 12, several, minimums)
        return
    found = budget.over(rows, 12, several, minimums)
    for kept, there, least in zip(found, rows, minimums, strict=True):
        assert bool((kept >= least).all())
        assert bool((kept <= there).all())
    total, allowed = sum(int(kept.sum()) for kept in found), 2 * len(held) * min(keep, 12)
    if heads == "adaptive":
        assert total == min(allowed, sum(map(sum, held)))
    else:
        wide = [int(kept.max()) for kept in found]
        assert sum(wide) == min(allowed // 2, sum(map(max, held)))
        for kept, there, width in zip(found, rows, wide, strict=True):
            assert torch.equal(kept, there.clamp(max=width))
