"""The loop against transformers and against a dense masked float64 reference, for every supported family.

Covers whole and piecewise prefill, decoding, packing, and tokens dropped on the way. The models are tiny and random;
nothing here says how well a real model answers.
"""

from __future__ import annotations

import copy

import pytest
import torch
from cases import DROPS, MORE, NUM_LAYERS, Case, Scripted, T, gap, others
from torch import Tensor

from fewer.model.adapter import Adapter
from fewer.model.forward import forward
from fewer.model.segment import Segment
from reference import bias_of, sight
from tiny import Tiny
from tolerances import FP64

# The reference itself.


def test_reference_agrees_with_transformers(tiny: Tiny, ids: Tensor, fp32: float) -> None:
    assert gap(tiny.theirs(ids), tiny.dense.logits(ids, sight(len(ids), tiny.windows))) < fp32


def test_reference_shows_a_wrong_mask_or_position(tiny: Tiny, ids: Tensor) -> None:
    total, visible = len(ids), sight(len(ids), tiny.windows)
    right = tiny.dense.logits(ids, visible)
    assert 0.3 < right.std() < 3.0
    hidden = visible.clone()
    hidden[:, 11:, 10] = False
    shifted = torch.arange(total)
    shifted[10:] += 1
    drops = DROPS["in the middle"]
    after = sight(total, tiny.windows, T, drops)
    dropped = tiny.dense.logits(ids, after)[T:]
    rows_not_tokens = torch.cat([torch.arange(T), len(drops[0][1]) + torch.arange(MORE)])
    wrong = {
        "a key hidden": (tiny.dense.logits(ids, hidden), right),
        "positions renumbered": (tiny.dense.run(ids, bias_of(visible), shifted)[0], right),
        "nothing dropped": (right[T:], dropped),
        "next position from the rows stored": (tiny.dense.run(ids, bias_of(after), rows_not_tokens)[0][T:], dropped),
    }
    if any(tiny.windows):
        for step in (-1, 1):
            windows = [window and window + step for window in tiny.windows]
            wrong[f"window {step:+}"] = (tiny.dense.logits(ids, sight(total, windows)), right)
    for what, (one, other) in wrong.items():
        assert gap(one, other) > 1e-2, what


# Against transformers.


def test_whole_prefill(case: Case, ids: Tensor, fp32: float) -> None:
    theirs = case.tiny.theirs(ids)
    state = case.new()
    ours = case.run(state, ids)
    assert ours.dtype == torch.float32
    assert gap(ours, theirs) < fp32
    assert state.num_seen == len(ids)
    (last,) = case.forward(Segment(case.new(), ids))
    assert gap(last, theirs[-1:]) < fp32


@pytest.mark.parametrize("seed", range(3))
def test_prefill_in_pieces(case: Case, ids: Tensor, fp32: float, seed: int) -> None:
    cuts = torch.randperm(len(ids) - 1, generator=torch.Generator().manual_seed(seed))[: 2 + 3 * seed] + 1
    state = case.new()
    ours = torch.cat([case.run(state, piece) for piece in ids.tensor_split(cuts.sort().values)])
    assert gap(ours, case.tiny.theirs(ids)) < fp32


def test_token_by_token(case: Case, ids: Tensor, fp32: float) -> None:
    state = case.new()
    ours = torch.cat([case.run(state, token) for token in ids.split(1)])
    assert gap(ours, case.tiny.theirs(ids)) < fp32


def test_packed_with_other_sequences(case: Case, ids: Tensor, fp32: float) -> None:
    first, second, third = ids, others(1, 9), others(2, 14)
    midway, decoding = case.new(), case.new()
    case.run(midway, second[:3])
    case.run(decoding, third[:-1])
    ours = case.forward(
        Segment(midway, second[3:], logits="all"),
        Segment(case.new(), first, logits="all"),
        Segment(decoding, third[-1:]),
    )
    for logits, theirs in zip(
        ours, (case.tiny.theirs(second)[3:], case.tiny.theirs(first), case.tiny.theirs(third)[-1:]), strict=True
    ):
        assert gap(logits, theirs) < fp32


def test_prompts_of_one_to_eight_tokens(case: Case, ids: Tensor, fp32: float) -> None:
    for size in range(1, 9):
        theirs = case.tiny.theirs(ids[: size + 2])
        state = case.new()
        ours = torch.cat([case.run(state, piece) for piece in ids[: size + 2].split([size, 1, 1])])
        assert gap(ours, theirs) < fp32, size


# Tokens dropped on the way, against the dense masked reference at true positions.


def check_dropped(case: Case, ids: Tensor, drops: tuple, release: bool, tolerance: float, wide: bool) -> None:
    reference = case.tiny.dense.logits(ids, sight(len(ids), case.tiny.windows, T, drops, release))
    kept = list(drops[-1][1])
    segment = case.pruned(ids[:T], Scripted(dict(drops), release))
    state = segment.state
    (prefill,) = forward(case.wide if wide else case.narrow, [segment])
    assert gap(prefill, reference[kept]) < tolerance
    assert state.num_seen == T
    rows = [T] * NUM_LAYERS
    for after, keep in drops:
        rows[0 if release else after :] = [len(keep)] * (NUM_LAYERS if release else NUM_LAYERS - after)
    assert [layer.num_rows for layer in state.layers] == rows
    for step in range(T, T + MORE):
        assert gap(case.run(state, ids[step : step + 1], wide), reference[step : step + 1]) < tolerance
    assert state.num_seen == T + MORE
    assert all(layer.pos[:, -MORE:].tolist() == [list(range(T, T + MORE))] for layer in state.layers)


@pytest.mark.parametrize("release", [True, False], ids=["released", "shallow keys stay"])
@pytest.mark.parametrize("drops", DROPS.values(), ids=DROPS)
def test_dropped_tokens(case: Case, ids: Tensor, fp32: float, drops: tuple, release: bool) -> None:
    check_dropped(case, ids, drops, release, fp32, wide=False)


@pytest.mark.parametrize("release", [True, False], ids=["released", "shallow keys stay"])
def test_dropped_tokens_in_float64(case: Case, ids: Tensor, release: bool) -> None:
    check_dropped(case, ids, DROPS["twice"], release, FP64, wide=True)


def test_whole_prefill_in_float64(case: Case, ids: Tensor) -> None:
    ours = case.run(case.new(), ids, wide=True)
    assert ours.dtype == torch.float64
    assert gap(ours, case.tiny.dense.logits(ids, sight(len(ids), case.tiny.windows))) < FP64


def test_dropped_tokens_packed_with_other_sequences(case: Case, ids: Tensor, fp32: float) -> None:
    windows, dense = case.tiny.windows, case.tiny.dense
    drops, other_drops = DROPS["twice"], ((2, (0, 1, 4, 5, 10)),)
    other, third = others(1, 12), others(2, 9)
    pruned, other_pruned, decoding = case.new(), case.new(), case.new()
    case.run(decoding, third[:6])
    prefill = case.forward(
        case.pruned(ids[:T], Scripted(dict(drops)), pruned),
        Segment(decoding, third[6:7]),
        case.pruned(other[:11], Scripted(dict(other_drops), release=False), other_pruned),
    )
    step = case.forward(
        Segment(decoding, third[7:], logits="all"),
        Segment(other_pruned, other[11:]),
        Segment(pruned, ids[T:], logits="all"),
    )
    reference = dense.logits(ids, sight(T + MORE, windows, T, drops, release=True))
    other_reference = dense.logits(other, sight(12, windows, 11, other_drops))
    third_reference = dense.logits(third, sight(9, windows))
    assert gap(prefill[0], reference[list(drops[-1][1])]) < fp32
    assert gap(prefill[1], third_reference[6:7]) < fp32
    assert gap(prefill[2], other_reference[list(other_drops[0][1])]) < fp32
    assert gap(step[0], third_reference[7:]) < fp32
    assert gap(step[1], other_reference[11:]) < fp32
    assert gap(step[2], reference[T:]) < fp32


def test_planner_sees_the_last_attention_row(case: Case, ids: Tensor, fp32: float) -> None:
    drops = DROPS["twice"]
    planner = Scripted(dict(drops), needs="last_query")
    case.forward(Segment(case.new(), others(1, 5)), case.pruned(ids[:T], planner))
    _, weights = case.tiny.dense.run(ids[:T], bias_of(sight(T, case.tiny.windows, T, drops)))
    before = list(range(T))
    for (after, keep), observation in zip(drops, planner.seen, strict=True):
        assert observation.layer == after
        assert observation.pos.tolist() == before
        assert observation.attention is not None
        assert gap(observation.attention, weights[after - 1][:, -1, before]) < fp32
        before = list(keep)


def test_planners_are_told_of_every_window(tiny: Tiny) -> None:
    facts = Adapter(copy.deepcopy(tiny.model), fused=False).facts
    assert facts.windows == tiny.windows
    assert facts.global_layers == tuple(layer for layer, window in enumerate(tiny.windows, 1) if window is None)


def test_a_fingerprint_is_of_the_weights_and_not_of_their_type(tiny: Tiny) -> None:
    rounded = copy.deepcopy(tiny.model).bfloat16()
    prints = {Adapter(copy.deepcopy(model), fused=fused).facts.fingerprint for fused in (True, False)
              for model in (rounded, copy.deepcopy(rounded).float())}  # fmt: skip
    assert len(prints) == 1
    with torch.no_grad():
        next(iter(rounded.parameters()))[0, 0] += 1
    assert Adapter(rounded, fused=False).facts.fingerprint not in prints
