"""Errors and certificates of a replayed cache against slow sums, and scores and designs that are worse on purpose."""

from __future__ import annotations

import pytest
import torch
from replaying import OURS, PIVOTAL, TOPK, make_captured
from torch import Tensor

from fewer.certify.variance import (
    leave_one_out_range,
    leave_one_out_variance,
    poisson_variance,
    radius,
    range_term,
)
from fewer.errors import BadInput
from fewer.evict.design import Pivotal, Poisson
from fewer.evict.score import QuestionAware
from fewer.study.replay.arms import OneSet, Reversed, Shuffled, make_arm
from fewer.study.replay.capture import Captured
from fewer.study.replay.measure import Full, Kept, keep_rows, look, measure
from fewer.study.replay.spec import ArmSpec
from fewer.study.replay.worlds import visit_worlds
from fewer.types import CacheView, Needs
from tolerances import FP32, FP64

ROWS = 70
POISSON = ArmSpec(name="poisson", says="", policy="poisson:question", settings=OURS)


def answer(captured: Captured, kept: list[Kept], layer: int, head: int, step: int, hajek: bool) -> tuple[Tensor, ...]:
    """y, the estimate, and the weights, probabilities and values behind it: one cell, row by row."""
    group = captured.q[0].shape[0] // captured.k[0].shape[0]
    k, v = captured.k[layer][head // group].double(), captured.v[layer][head // group].double()
    place = captured.q[layer].shape[1] - captured.steps + step
    q, at = captured.q[layer][head, place].double(), int(captured.pos[place])
    logits = k @ q * captured.scaling[layer]
    whole = torch.softmax(logits[: at + 1], 0) @ v[: at + 1]
    rows = kept[layer]
    own = head // group
    pos = [int(p) for p, ok in zip(rows.pos[own], rows.valid[own], strict=True) if ok]
    pi = [1.0] * len(pos)
    if rows.pi is not None:
        pi = [float(p) for p, ok in zip(rows.pi[own], rows.valid[own], strict=True) if ok]
    later = list(range(ROWS, at + 1))
    chances = torch.tensor(pi + [1.0] * len(later), dtype=torch.float64)
    values = v[pos + later]
    weights = torch.softmax(logits[pos + later] - (chances.log() if hajek else 0), 0)
    return whole, weights @ values, weights, chances, values


@pytest.mark.parametrize("arm", [TOPK, PIVOTAL, POISSON])
def test_errors_are_those_of_slow_sums(arm: ArmSpec) -> None:
    captured = make_captured()
    policy = make_arm(arm, 0.6, 0.1, 16, 0)
    kept = keep_rows(captured.restore(ROWS, policy.score.needs), policy, 3)
    cells = measure(look(captured), kept, ROWS, policy)
    assert cells.error.shape == (2, 4, 3)
    for layer, head, step in torch.cartesian_prod(torch.arange(2), torch.arange(4), torch.arange(3)).tolist():
        for column, hajek in ((cells.error, policy.known), (cells.plug_in, False)):
            y, out, *_ = answer(captured, kept, layer, head, step, hajek)
            assert abs(float(column[layer, head, step]) - float((out - y).norm() / y.norm())) < FP64
    assert cells.asked == round(0.6 * ROWS)
    if arm is not POISSON:
        assert bool((cells.kept == cells.asked).all())
    assert (cells.radius is None) == (arm is TOPK)


@pytest.mark.parametrize("arm", [PIVOTAL, POISSON])
def test_certificates_are_those_of_the_formulas(arm: ArmSpec) -> None:
    captured = make_captured(seed=1)
    policy = make_arm(arm, 0.6, 0.1, 16, 0)
    kept = keep_rows(captured.restore(ROWS, policy.score.needs), policy, 4)
    cells = measure(look(captured), kept, ROWS, policy)
    assert cells.radius is not None
    assert cells.kappa is not None
    assert cells.variance is not None
    assert cells.paper_radius is not None
    assert cells.paper_variance is not None
    assert bool((cells.kappa >= 1).all())
    for layer, head, step in torch.cartesian_prod(torch.arange(2), torch.arange(4), torch.arange(3)).tolist():
        y, out, weights, pi, values = answer(captured, kept, layer, head, step, True)
        tail = int((pi < 1).sum())
        vhat, term = leave_one_out_variance(weights, pi, values, out), leave_one_out_range(weights, pi, values, out)
        ours = float(radius(vhat, term, out.norm(), 0.1, "audited")) * float(cells.kappa[layer, head])
        assert float(cells.radius[layer, head, step]) == pytest.approx(ours, rel=100 * FP32)
        assert float(cells.variance[layer, head, step]) == pytest.approx(float(vhat / y.square().sum()), rel=100 * FP32)
        vhat = poisson_variance(weights, pi, values, out) * (tail / (tail - 1) if arm is PIVOTAL else 1)
        theirs = float(radius(vhat, range_term(weights, pi, values, out), out.norm(), 0.1))
        assert float(cells.paper_radius[layer, head, step]) == pytest.approx(theirs, rel=100 * FP32)
        found = float(cells.paper_variance[layer, head, step])
        assert found == pytest.approx(float(vhat / y.square().sum()), rel=100 * FP32)


def test_a_set_for_every_query_head_is_of_its_own_keys() -> None:
    captured = make_captured()
    wide = captured.widen()
    full, policy = look(captured), make_arm(PIVOTAL, 0.6, 0.1, 16, 0)
    torch.testing.assert_close(torch.stack(look(wide).y), torch.stack(full.y), rtol=0, atol=FP64)
    kept = keep_rows(wide.restore(ROWS, policy.score.needs), policy, 3)
    assert kept[0].pos.shape[0] == 4
    cells = measure(Full(full.weights, wide.v, full.y), kept, ROWS, policy)
    y, out = answer(wide, kept, 1, 2, 0, True)[:2]
    assert abs(float(cells.error[1, 2, 0]) - float((out - y).norm() / y.norm())) < FP64


def test_a_restored_cache_has_seen_nothing_later() -> None:
    captured = make_captured()
    state = captured.restore(ROWS, Needs("window", 4))
    assert state.num_seen == ROWS
    assert state.queries is not None
    q, pos = state.queries.at(1)
    assert pos.tolist() == [66, 67, 68, 69]
    place = int((captured.pos == 69).nonzero())
    assert torch.equal(q[:, -1], captured.q[1][:, place])
    assert torch.equal(state.layers[1].k, captured.k[1][:, :ROWS])
    for observers in ("strided", "repeat"):
        with pytest.raises(BadInput, match=f"{observers} 16"):
            captured.restore(ROWS, Needs(observers, 16))


def make_view(captured: Captured) -> CacheView:
    q, pos = captured.q[0][:, :10], captured.pos[:10]
    rows = torch.arange(ROWS).expand(2, -1)
    return CacheView(1, 2, captured.k[0][:, :ROWS], captured.v[0][:, :ROWS], rows, q, pos, 8**-0.5, ROWS)


def test_worse_scores_have_the_same_numbers_in_another_order() -> None:
    view, inner = make_view(make_captured()), QuestionAware(count=10, before=0, behind=0)
    own, dealt, turned = inner(view), Shuffled(inner, 7)(view), Reversed(inner)(view)
    for other in (dealt, turned):
        assert torch.equal(other.sort(1).values, own.sort(1).values)
    assert torch.equal(dealt, Shuffled(inner, 7)(view))
    assert not torch.equal(dealt, Shuffled(inner, 8)(view))
    for head in range(2):
        assert float(turned[head, own[head].argmax()]) == float(own[head].min())
        ranked = turned[head, own[head].argsort(stable=True)]
        assert bool((ranked.diff() <= 0).all())


def test_one_set_is_drawn_by_the_mean_size() -> None:
    score = torch.tensor([[1.0, 4.0, 1.0, 2.0, float("inf")], [3.0, 0.0, 1.0, 2.0, float("inf")]])
    keep = torch.tensor([3, 3])
    sample = OneSet(Pivotal(floor=0.5)).draw(score, keep, torch.Generator().manual_seed(0))
    alone = Pivotal(floor=0.5).draw(score.mean(0, keepdim=True), keep[:1], torch.Generator().manual_seed(0))
    assert sample.idx.tolist() == [alone.idx[0].tolist()] * 2
    assert sample.pi.tolist() == [alone.pi[0].tolist()] * 2
    assert sample.count.tolist() == [3, 3]
    assert OneSet(Poisson()).variance == "poisson"


def test_permuted_values_are_invisible_to_topk_and_move_its_error() -> None:
    captured = make_captured(seed=2)
    full = look(captured)
    fixed, sampled = make_arm(TOPK, 0.6, 0.1, 16, 0), make_arm(PIVOTAL, 0.6, 0.1, 16, 0)
    worlds = visit_worlds(captured, full, ROWS, fixed, sampled, 3, 9)
    assert len(worlds) == 4
    kept = keep_rows(captured.restore(ROWS, fixed.score.needs), fixed, 9)
    assert torch.equal(worlds[0].error, measure(full, kept, ROWS, fixed).error)
    assert all(bool(world.same.all()) for world in worlds)
    errors = torch.stack([world.error for world in worlds])
    assert bool((errors.amax(0) > 1.01 * errors.amin(0)).any(-1).all())
    assert all(world.sampled_radius.shape == (2, 4, 3) for world in worlds)


def test_a_score_that_looks_at_values_is_told_apart() -> None:
    captured = make_captured(seed=2)
    spread = ArmSpec(name="spread", says="", policy="question+spread", settings={"before": 0, "behind": 0})
    fixed, sampled = make_arm(spread, 0.6, 0.1, 16, 0), make_arm(PIVOTAL, 0.6, 0.1, 16, 0)
    worlds = visit_worlds(captured, look(captured), ROWS, fixed, sampled, 3, 9)
    assert bool(worlds[0].same.all())
    assert not all(bool(world.same.all()) for world in worlds)
