"""Having the text repeated: what is seen, against transformers; that nothing changes; what is remembered."""

from __future__ import annotations

import copy

import pytest
import torch
from tinytext import NUM_LAYERS, random_ids

from fewer import Engine, PromptTooLong
from fewer.engine.repeat import _ASKS, Repeater
from fewer.evict import compress, make_policy
from fewer.kv import State
from fewer.model.forward import forward
from fewer.model.segment import Segment
from tolerances import FP32

SIZE = 40


@pytest.fixture(scope="module")
def asks(engine: Engine) -> torch.Tensor:
    return torch.tensor(engine.tokenizer(_ASKS, add_special_tokens=False)["input_ids"])


def read(engine: Engine, size: int = SIZE, headroom: int = 0) -> tuple[State, torch.Tensor]:
    ids, state = torch.tensor(random_ids(3, size)), State.new(NUM_LAYERS, headroom)
    forward(engine.adapter, [Segment(state, ids)])
    return state, ids


@pytest.mark.parametrize("stretch", [SIZE, 512, 16, 1])
@pytest.mark.parametrize("start", [0, 7])
def test_what_is_seen_is_what_transformers_sees(engine, reference, asks, stretch, start) -> None:
    state, ids = read(engine)
    found = Repeater(engine.adapter, engine.tokenizer).repeat(state, ids, start, stretch)
    theirs = copy.deepcopy(reference)
    theirs.set_attn_implementation("eager")
    expected = torch.zeros(NUM_LAYERS, engine.adapter.num_heads, SIZE)
    num_tokens = 0
    for first in range(start, SIZE, stretch):
        part = ids[first : first + stretch]
        whole = torch.cat([ids, asks, part])[None].to(engine.adapter.device)
        with torch.no_grad():
            attentions = theirs(whole, output_attentions=True).attentions
        for layer, weights in enumerate(attentions):  # [1, heads, T, T]
            seen = weights[0, :, -part.numel() :, first : first + stretch].amax(1)
            expected[layer, :, first : first + stretch] = seen[:, : part.numel()].cpu()
        num_tokens += asks.numel() + part.numel()
    assert found.num_tokens == num_tokens
    assert torch.allclose(torch.stack(found.layers).cpu(), expected, rtol=0, atol=FP32)


@pytest.mark.parametrize("headroom", [0, 200])
@pytest.mark.parametrize("name", [None, "keynorm", "poisson:keynorm"])
def test_nothing_changes(engine, headroom, name) -> None:
    state, ids = read(engine, headroom=headroom)
    if name is not None:
        compress(state, make_policy(name, 20, sinks=2, recent=4, heads="adaptive"), seed=1)
    twin = state.fork()
    before = [(kv.buffer, kv.num_rows, kv.contiguous, kv.pos, kv.log_w, kv.pi) for kv in state.layers]
    Repeater(engine.adapter, engine.tokenizer).repeat(state, ids, 0, 16)
    assert state.num_seen == SIZE
    for kv, (buffer, rows, contiguous, *tensors) in zip(state.layers, before, strict=True):
        assert kv.buffer is buffer
        assert (kv.num_rows, kv.contiguous) == (rows, contiguous)
        for mine, theirs in zip((kv.pos, kv.log_w, kv.pi), tensors, strict=True):
            assert mine is theirs or torch.equal(mine, theirs)
    after = [forward(engine.adapter, [Segment(one, torch.tensor([5]))])[0] for one in (state, twin)]
    assert torch.equal(*after)


def test_a_whole_cache_is_remembered_and_no_other(engine, monkeypatch) -> None:
    repeater, passes = Repeater(engine.adapter, engine.tokenizer), []
    repeater.remembers = True
    monkeypatch.setattr(
        "fewer.engine.repeat.forward", lambda adapter, segments: passes.append(1) or forward(adapter, segments)
    )
    state, ids = read(engine)
    first = repeater.repeat(state, ids, 0, 16)
    assert len(passes) == 3
    again = repeater.repeat(state.fork(), ids.clone(), 0, 16)
    assert (again.layers, again.seconds, again.remembered) == (first.layers, first.seconds, True)
    assert len(passes) == 3
    repeater.repeat(state, ids, 8, 16)  # another start
    assert len(passes) == 5
    other = ids.clone()
    other[0] += 1
    repeater.repeat(state, other, 8, 16)  # other ids
    assert len(passes) == 7
    compress(state, make_policy("keynorm", 20, sinks=2, recent=4), seed=1)
    for _ in range(2):
        repeater.repeat(state, ids, 8, 16)
    assert len(passes) == 11
    repeater.remembers = False
    state, ids = read(engine)
    for _ in range(2):
        assert not repeater.repeat(state, ids, 0, 16).remembered
    assert len(passes) == 17


def test_rows_of_heads_that_differ_are_told_apart_by_position(engine) -> None:
    """A row counts for queries of its own stretch alone, also where heads hold other positions."""
    state, ids = read(engine)
    compress(state, make_policy("keynorm", 20, sinks=2, recent=4, heads="adaptive"), seed=1)
    found = Repeater(engine.adapter, engine.tokenizer).repeat(state, ids, 30, 16)
    group = engine.adapter.num_heads // engine.adapter.num_kv_heads
    for kv, seen in zip(state.layers, found.layers, strict=True):
        pos = kv.pos.expand(engine.adapter.num_kv_heads, -1).repeat_interleave(group, 0)
        held = torch.ones_like(pos, dtype=torch.bool)
        if kv.log_w is not None:
            held = ~torch.isneginf(kv.log_w).expand(engine.adapter.num_kv_heads, -1).repeat_interleave(group, 0)
        assert torch.equal(seen > 0, (pos >= 30) & held)


def test_without_room_it_says_so_and_with_little_it_takes_less_at_a_time(engine, asks) -> None:
    most = engine.adapter.max_positions
    repeater = Repeater(engine.adapter, engine.tokenizer)
    state, ids = read(engine, most - asks.numel() - 16)
    assert repeater.repeat(state, ids, ids.numel() - 40, 512).num_tokens == 3 * asks.numel() + 40
    assert repeater.repeat(state, ids, ids.numel() - 40, 5).num_tokens == 8 * asks.numel() + 40
    state, ids = read(engine, most - asks.numel() - 5)
    assert repeater.repeat(state, ids, ids.numel() - 5, 512).num_tokens == asks.numel() + 5  # as many as there are
    assert repeater.repeat(state, ids, ids.numel() - 40, 4).num_tokens == 10 * asks.numel() + 40
    says = f"takes {asks.numel() + 16} positions behind {ids.numel()} tokens; the model has {most}"
    with pytest.raises(PromptTooLong, match=says):
        repeater.repeat(state, ids, 0, 512)
