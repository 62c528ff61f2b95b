"""What every design keeps to: budgets, order, certain rows, padding, seeds, and its errors."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from fewer.errors import BadInput
from fewer.evict.design import DESIGNS, ConditionalPoisson, Pivotal, Poisson, Systematic, TopK
from fewer.evict.design.target import FLOOR
from fewer.evict.inclusion import inclusion
from fewer.types import Design, KnownDesign, Sample, Selection
from tolerances import FP32

INF = float("inf")
SAMPLED: list[KnownDesign] = [
    Poisson(),
    Systematic(order="position"),
    Systematic(order="random"),
    Pivotal(order="position"),
    Pivotal(order="random"),
    ConditionalPoisson(),
]
EXACT = [design for design in SAMPLED if design.variance == "fixed_size"]
ALL: list[Design] = [TopK(), *SAMPLED]


def name_of(value: object) -> str | None:
    return repr(value).lower() if hasattr(value, "draw") else None


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def scores(heads: int = 3, n: int = 40, spread: float = 2.0) -> Tensor:
    return torch.exp(spread * torch.randn(heads, n, generator=seeded(7)))


def rows(selection: Selection) -> list[list[int]]:
    return [head[:count].tolist() for head, count in zip(selection.idx, selection.count.tolist(), strict=True)]


@pytest.mark.parametrize("design", ALL, ids=name_of)
@pytest.mark.parametrize("keep", [40, 41, 10_000])
def test_a_budget_of_all_rows_is_the_identity(design: Design, keep: int) -> None:
    score = scores()
    score[1, :3] = 0.0
    found = design.draw(score, torch.full((3,), keep), seeded())
    assert torch.equal(found.idx, torch.arange(40).expand(3, -1))
    assert found.count.tolist() == [40, 40, 40]
    if isinstance(found, Sample):
        assert torch.equal(found.pi, torch.ones(3, 40))


@pytest.mark.parametrize("design", [TopK(), *EXACT], ids=name_of)
def test_every_budget_is_met_exactly(design: Design) -> None:
    score = scores(n=12)
    for keep in range(1, 13):
        for seed in range(3):
            found = design.draw(score, torch.tensor([keep, 13 - keep, 12]), seeded(seed))
            assert found.count.tolist() == [keep, 13 - keep, 12]
            assert found.idx.shape[1] == 12


@pytest.mark.parametrize("design", EXACT, ids=name_of)
def test_the_count_is_exact_on_a_long_cache(design: Design) -> None:
    score = scores(n=7_500)
    score[:, :4] = score[:, -32:] = INF
    found = design.draw(score, torch.tensor([37, 938, 3_750]), seeded())
    assert found.count.tolist() == [37, 938, 3_750]
    assert all(set(range(4)) | set(range(7_468, 7_500)) <= set(kept) for kept in rows(found))


@pytest.mark.parametrize("design", ALL, ids=name_of)
def test_rows_ascend_and_padding_repeats_one_behind_them(design: Design) -> None:
    score = scores()
    score[:, 5] = INF
    score[1, 30:] = -INF
    found = design.draw(score, torch.tensor([5, 35, 20]), seeded())
    kept = rows(found)
    assert kept[1] == list(range(30))
    for head, count in enumerate(found.count.tolist()):
        assert kept[head] == sorted(set(kept[head]))
        assert set(found.idx[head, count:].tolist()) <= {kept[head][-1]}
        assert 5 in kept[head]
    if isinstance(found, Sample):
        assert found.pi.dtype == torch.float32
        assert (found.pi[~found.valid] == 1).all()
        assert ((found.pi > 0) & (found.pi <= 1)).all()


@pytest.mark.parametrize("design", SAMPLED, ids=name_of)
def test_pi_is_the_inclusion_probability_of_the_row_it_stands_at(design: KnownDesign) -> None:
    score = scores()
    score[:, :2] = INF
    keep = torch.tensor([5, 12, 30])
    found = design.draw(score, keep, seeded(3))
    wanted = inclusion(score, keep, FLOOR).gather(1, found.idx).float()
    torch.testing.assert_close(found.pi[found.valid], wanted[found.valid], rtol=0, atol=FP32)
    assert (found.pi[:, :2] == 1).all()


@pytest.mark.parametrize("design", SAMPLED, ids=name_of)
def test_pi_is_one_for_certain_rows_only(design: KnownDesign) -> None:
    score = torch.tensor([[1.0, 1.0, 1e-12, 1e-12]])  # the last rows have 1e-7 each at this floor, the first the rest
    sure = design.__class__(floor=1e-6)
    found = sure.draw(score, torch.tensor([2]), seeded())
    assert rows(found) == [[0, 1]]
    assert (found.pi < 1).all()
    assert (found.pi > 1 - 2e-6).all()


@pytest.mark.parametrize("design", ALL, ids=name_of)
def test_the_same_seed_draws_the_same_rows(design: Design) -> None:
    score, keep = scores(), torch.tensor([5, 12, 30])
    one, two = design.draw(score, keep, seeded(9)), design.draw(score, keep, seeded(9))
    assert torch.equal(one.idx, two.idx)
    assert torch.equal(one.count, two.count)


@pytest.mark.parametrize("design", SAMPLED, ids=name_of)
def test_another_seed_draws_others(design: KnownDesign) -> None:
    score, keep = scores(), torch.tensor([5, 12, 30])
    assert len({str(rows(design.draw(score, keep, seeded(seed)))) for seed in range(20)}) > 5


@pytest.mark.parametrize("design", ALL, ids=name_of)
def test_a_head_does_not_depend_on_the_others(design: Design) -> None:
    score = scores()
    alone = rows(design.draw(score, torch.tensor([20, 12, 30]), seeded()))
    changed = score.clone()
    changed[0] = changed[0].flip(0)
    changed[0, 20:] = -INF
    beside = rows(design.draw(changed, torch.tensor([3, 12, 30]), seeded()))
    assert beside[1:] == alone[1:]


@pytest.mark.parametrize("design", ALL, ids=name_of)
def test_stays_on_the_device_and_draws_the_same_there(design: Design, device: torch.device) -> None:
    score, keep = scores(), torch.tensor([5, 12, 30])
    found = design.draw(score.to(device), keep.to(device), seeded())
    assert found.idx.device.type == device.type
    assert rows(found) == rows(design.draw(score, keep, seeded()))


@pytest.mark.parametrize("design", ALL, ids=name_of)
@pytest.mark.parametrize("value", [0.0, 1.0, 3e38, 1e-45])
def test_equal_scores_are_no_trouble(design: Design, value: float) -> None:
    found = design.draw(torch.full((2, 9), value), torch.tensor([4, 1]), seeded())
    if isinstance(found, Sample):
        assert found.pi[0, 0].item() == pytest.approx(4 / 9, abs=FP32)
    if design.name != "poisson":
        assert found.count.tolist() == [4, 1]


@pytest.mark.parametrize("design", ALL, ids=name_of)
def test_one_token_and_none(design: Design) -> None:
    assert rows(design.draw(torch.tensor([[0.0], [INF]]), torch.tensor([1, 1]), seeded())) == [[0], [0]]
    nothing = design.draw(torch.tensor([[-INF, -INF], [1.0, 1.0]]), torch.tensor([1, 2]), seeded())
    assert rows(nothing) == [[], [0, 1]]
    assert nothing.idx.tolist() == [[0, 0], [0, 1]]
    assert design.draw(torch.zeros(2, 0), torch.tensor([1, 1]), seeded()).idx.shape == (2, 0)


@pytest.mark.parametrize("design", ALL, ids=name_of)
def test_below_the_certain_rows_is_an_error_with_the_minimum(design: Design) -> None:
    with pytest.raises(BadInput, match="keep is 1; it must be at least 2 in head 0"):
        design.draw(torch.tensor([[INF, INF, 1.0]]), torch.tensor([1]), seeded())


def test_the_certain_rows_alone_are_enough_for_topk() -> None:
    assert rows(TopK().draw(torch.tensor([[INF, 1.0, INF, 9.0]]), torch.tensor([2]), seeded())) == [[0, 2]]


@pytest.mark.parametrize("design", SAMPLED, ids=name_of)
def test_a_sample_needs_a_row_more_than_the_certain_ones(design: KnownDesign) -> None:
    with pytest.raises(BadInput, match=r"keep is 2; it must be at least 3 in head 1, one more than its certain rows"):
        design.draw(torch.tensor([[1.0, 1.0, 1.0], [INF, 1.0, INF]]), torch.tensor([2, 2]), seeded())
    whole = design.draw(torch.tensor([[INF, INF, -INF]]), torch.tensor([2]), seeded())
    assert rows(whole) == [[0, 1]]


@pytest.mark.parametrize("design", ALL, ids=name_of)
def test_a_broken_score_is_an_error(design: Design) -> None:
    with pytest.raises(BadInput, match="NaN"):
        design.draw(torch.tensor([[1.0, float("nan")]]), torch.tensor([1]), seeded())


@pytest.mark.parametrize("design", SAMPLED, ids=name_of)
@pytest.mark.parametrize("floor", [0.0, 1e-7, 1.5, float("nan")])
def test_a_floor_that_leaves_rows_without_a_chance_is_refused(design: KnownDesign, floor: float) -> None:
    with pytest.raises(BadInput, match="floor"):
        design.__class__(floor=floor)


@pytest.mark.parametrize("make", [Systematic, Pivotal])
def test_another_order_is_refused(make: type[Systematic] | type[Pivotal]) -> None:
    with pytest.raises(BadInput, match="'sideways'; it must be 'random' or 'position'"):
        make(order="sideways")  # type: ignore[arg-type]


def test_topk_keeps_the_largest_and_of_equals_the_later() -> None:
    score = torch.tensor([[3.0, 1.0, 3.0, 2.0, 3.0], [0.0, 0.0, 0.0, 0.0, 0.0], [-1.0, -3.0, INF, -2.0, -INF]])
    assert rows(TopK().draw(score, torch.tensor([2, 3, 2]), seeded())) == [[2, 4], [2, 3, 4], [0, 2]]


def test_poisson_counts_vary_around_the_budget() -> None:
    # the mean of 4,000 counts with variance sum pi (1 - pi) is within 5 standard errors but for 6e-7 of seeds
    score = scores(1, 50).expand(4_000, -1)
    pi = inclusion(score[:1], torch.tensor([20]), FLOOR)
    spread = float((pi * (1 - pi)).sum())
    counts = Poisson().draw(score, torch.full((4_000,), 20), seeded()).count.double()
    assert abs(float(counts.mean()) - 20) < 5 * (spread / 4_000) ** 0.5
    assert counts.var().item() == pytest.approx(spread, rel=0.15)  # 6 standard errors


def test_designs_by_name() -> None:
    assert list(DESIGNS) == ["topk", "poisson", "systematic", "pivotal", "conditional-poisson"]
    assert [make().name for make in DESIGNS.values()] == list(DESIGNS)
    assert [getattr(make(), "variance", None) for make in DESIGNS.values()] == [
        None,
        "poisson",
        "fixed_size",
        "fixed_size",
        "fixed_size",
    ]
    assert TopK().describe() == {}
    assert Poisson(floor=0.2).describe() == {"floor": 0.2}
    assert Systematic(order="random").describe() == {"floor": FLOOR, "order": "random"}
    assert Pivotal().describe() == {"floor": FLOOR, "order": "position"}
    assert ConditionalPoisson().describe() == {"floor": FLOOR}
