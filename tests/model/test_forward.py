"""What holds for the loop whatever the family: repeatable, nothing left behind by a failed pass, plans checked."""

from __future__ import annotations

import copy

import pytest
import torch
from cases import DROPS, NUM_LAYERS, Case, Scripted, T, gap, others
from torch import Tensor

from fewer.errors import BadInput
from fewer.kv import State
from fewer.model.adapter import Adapter
from fewer.model.blocks import FUSED
from fewer.model.forward import forward
from fewer.model.segment import Segment
from reference import sight
from tiny import VOCAB, Tiny
from tolerances import FP32


def test_a_planner_that_keeps_everything_changes_no_bit(plain: Case, ids: Tensor) -> None:
    everything = tuple(range(T))
    for keep in ({1: None, 3: None}, {0: everything, 2: everything, 4: everything}):
        states = [plain.new(), plain.new()]
        (planned,) = plain.forward(plain.pruned(ids[:T], Scripted(keep), states[0]))
        assert torch.equal(planned, plain.run(states[1], ids[:T]))
        assert torch.equal(plain.run(states[0], ids[T:]), plain.run(states[1], ids[T:]))


def test_short_prompts_under_a_planner(plain: Case, ids: Tensor, fp32: float) -> None:
    for size in range(1, 9):
        keep = tuple(sorted({0, min(1, size - 1), size - 1}))
        for release in (True, False):
            reference = plain.tiny.dense.logits(
                ids[: size + 2], sight(size + 2, [None] * 4, size, ((1, keep),), release)
            )
            segment = plain.pruned(ids[:size], Scripted({1: keep}, release))
            (prefill,) = plain.forward(segment)
            assert gap(prefill, reference[list(keep)]) < fp32
            assert gap(plain.run(segment.state, ids[size : size + 2]), reference[size:]) < fp32


def test_a_second_run_gives_the_same_bits(plain: Case, ids: Tensor) -> None:
    def once() -> Tensor:
        segment = plain.pruned(ids[:T], Scripted(dict(DROPS["twice"])))
        (prefill,) = plain.forward(segment)
        return torch.cat([prefill] + [plain.run(segment.state, token) for token in ids[T:].split(1)])

    first = once()
    plain.run(plain.new(), others(3, 17))
    assert torch.equal(once(), first)


def snapshot(state: State) -> tuple:
    layers = [kv for kv in state.layers if kv.num_rows]
    rows = [(kv.num_rows, kv.contiguous, kv.k.clone(), kv.v.clone(), kv.pos.clone()) for kv in layers]
    return state.num_seen, rows, [kv.log_w.clone() for kv in layers if kv.log_w is not None]


def weighted(case: Case, ids: Tensor) -> State:
    """Five tokens; one layer keeps four of them per head with weights."""
    state = case.new()
    case.run(state, ids)
    rows = torch.tensor([[0, 1, 2, 4], [0, 2, 3, 4]])
    state.layers[1].select(rows, others(5, 8).view(2, 4).double() / 100)
    return state


KEEP = {0: tuple(range(T)), 1: DROPS["in the middle"][0][1], 3: (0, 1, 3, 22), 4: (0, 1, 22)}


@pytest.mark.parametrize("error", [RuntimeError("the planner broke"), KeyboardInterrupt()], ids=repr)
@pytest.mark.parametrize("fails_after", [0, 1, 3, 4])
def test_a_pass_that_raises_leaves_no_trace(plain: Case, ids: Tensor, fails_after: int, error: BaseException) -> None:
    other = others(1, 9)
    midway, untouched, fresh = weighted(plain, other[:5]), weighted(plain, other[:5]), plain.new()
    before = snapshot(midway)
    planner = Scripted(KEEP, fails_after=fails_after, error=error)
    with pytest.raises(type(error)):
        plain.forward(Segment(midway, other[5:]), plain.pruned(ids[:T], planner, fresh))
    torch.testing.assert_close(snapshot(midway), before, rtol=0, atol=0)
    assert snapshot(fresh) == snapshot(plain.new())

    never_failed = plain.new()
    for state in (fresh, never_failed):
        plain.forward(plain.pruned(ids[:T], Scripted(KEEP), state))
    for state, clean in ((midway, untouched), (fresh, never_failed)):
        assert torch.equal(plain.run(state, other[5:]), plain.run(clean, other[5:]))
        torch.testing.assert_close(snapshot(state), snapshot(clean), rtol=0, atol=0)


@pytest.mark.parametrize("fails_after", [0, 1, 3, 4])
def test_a_segment_can_be_run_again_after_it_raised(plain: Case, ids: Tensor, fails_after: int) -> None:
    planner = Scripted(KEEP, fails_after=fails_after)
    segment, fresh = plain.pruned(ids[:T], planner), plain.pruned(ids[:T], Scripted(KEEP))
    with pytest.raises(RuntimeError):
        plain.forward(segment)
    planner.fails_after = None
    assert torch.equal(plain.forward(segment)[0], plain.forward(fresh)[0])
    torch.testing.assert_close(snapshot(segment.state), snapshot(fresh.state), rtol=0, atol=0)
    assert [plan.layer for plan in segment.plans] == [plan.layer for plan in fresh.plans] == list(KEEP)
    assert segment.rows_per_layer == fresh.rows_per_layer == [T, 11, 11, 4]


@pytest.mark.parametrize(
    "keep",
    [(), (0, 1, 5), (1, 2, 22), (0, 1, 5, 4, 22), (0, 1, 5, 5, 22), (0, 1, 22, 23), (-1, 0, 1, 22)],
    ids=["nothing", "last token lost", "sink lost", "not ascending", "twice", "not in the prompt", "negative"],
)
def test_a_plan_that_makes_no_sense_is_refused(plain: Case, ids: Tensor, keep: tuple[int, ...]) -> None:
    segment = plain.pruned(ids[:T], Scripted({2: keep}))
    with pytest.raises(ValueError, match=r"plan\.keep"):
        plain.forward(segment)
    assert segment.state.num_seen == 0


def test_a_plan_cannot_bring_tokens_back(plain: Case, ids: Tensor) -> None:
    with pytest.raises(ValueError, match=r"plan\.keep"):
        plain.forward(plain.pruned(ids[:T], Scripted({1: (0, 1, 22), 3: (0, 1, 9, 22)})))


def test_fused_blocks_are_used_where_they_exist(case: Case) -> None:
    covered = case.tiny.family.lower() in FUSED and "gelu" not in case.tiny.settings.values()
    assert case.narrow.fused == (case.fused and covered)


def test_the_joined_weights_are_still_the_models_own(llama: Tiny, ids: Tensor) -> None:
    model = copy.deepcopy(llama.model)
    fused = forward(Adapter(model), [Segment(State.new(NUM_LAYERS), ids)])[0]
    for again in (True, False):
        assert gap(forward(Adapter(model, fused=again), [Segment(State.new(NUM_LAYERS), ids)])[0], fused) < FP32
    for name, weight in llama.model.state_dict().items():
        assert torch.equal(model.state_dict()[name], weight), name


def test_the_adapter_describes_the_model(plain: Case) -> None:
    adapter = plain.narrow
    assert (adapter.num_layers, adapter.num_heads, adapter.num_kv_heads, adapter.head_dim) == (4, 4, 2, 12)
    assert (adapter.hidden_size, adapter.vocab_size, adapter.max_positions) == (48, VOCAB, 256)
    assert adapter.num_parameters == sum(weight.numel() for weight in plain.tiny.model.parameters())


def test_released_keys_are_really_freed(plain: Case, ids: Tensor) -> None:
    drops = DROPS["twice"]
    for release, rows in ((True, [8, 8, 8, 8]), (False, [T, 14, 14, 8])):
        segment = plain.pruned(ids[:T], Scripted(dict(drops), release))
        plain.forward(segment)
        storages = {kv.k.untyped_storage().data_ptr(): kv.k.untyped_storage().nbytes() for kv in segment.state.layers}
        a_row = 2 * plain.narrow.num_kv_heads * plain.narrow.head_dim * 4
        assert segment.state.nbytes == sum(storages.values()) == a_row * sum(rows)


def test_no_tokens_is_an_error(plain: Case, ids: Tensor) -> None:
    state = plain.new()
    plain.run(state, ids[:3])
    with pytest.raises(BadInput, match="at least one token"):
        plain.run(state, ids[:0])
    assert state.num_seen == 3


def test_a_planner_needs_the_whole_prompt_and_an_empty_state(plain: Case, ids: Tensor) -> None:
    state = plain.new()
    plain.run(state, ids[:3])
    whole = plain.pruned(ids[:T], Scripted({1: (0, 1, 22)}))
    for segment in (
        Segment(plain.new(), ids[:T], whole.planner),
        Segment(plain.new(), ids[:5], whole.planner, whole.prompt),
        Segment(state, ids[:T], whole.planner, whole.prompt),
    ):
        with pytest.raises(BadInput, match="planner"):
            plain.forward(segment)
    assert state.num_seen == 3
