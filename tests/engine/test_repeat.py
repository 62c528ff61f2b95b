"""Having the text repeated on other models and caches: the weights, worked out plainly; memory; mistaken identity."""

from __future__ import annotations

import copy
import time
from dataclasses import replace

import pytest
import torch
from test_evict_engine import evicting, kept, policy, run
from tinytext import TOKENIZER, random_ids

from fewer import Receipt
from fewer.engine import repeat
from fewer.engine.repeat import _ASKS, Repeater
from fewer.evict import compress, make_policy
from fewer.kv import State
from fewer.model.adapter import Adapter
from fewer.model.forward import forward
from fewer.model.segment import Segment
from tiny import TINY, Tiny
from tolerances import BF16, FP32

SIZE = 40
ASKS = torch.tensor(TOKENIZER(_ASKS, add_special_tokens=False)["input_ids"])
MIXED_WINDOWS = ["qwen3-sliding", "mistral", "gemma3"]


def make_adapter(name: str, dtype: torch.dtype = torch.float32) -> Adapter:
    base = TINY[name]
    settings = {**base.settings, "vocab_size": len(TOKENIZER), "max_position_embeddings": 256}
    model = copy.deepcopy(Tiny(name, base.family, base.windows, settings, base.tail).model)
    return Adapter(model.to(dtype), name=name)


def read(adapter: Adapter, headroom: int = 0, evict: str | None = None) -> tuple[State, torch.Tensor]:
    ids, state = torch.tensor(random_ids(3, SIZE)) % 131, State.new(adapter.num_layers, headroom)
    forward(adapter, [Segment(state, ids)])
    if evict is not None:
        compress(state, make_policy(evict, 20, sinks=2, recent=4, heads="adaptive", safeguard=0.0), seed=1)
    return state, ids


class Queries:
    """A query log that keeps every query of a pass."""

    def __init__(self) -> None:
        self.seen: dict[int, tuple] = {}

    def record(self, index, q, pos, start, stop, scaling, window) -> None:
        self.seen[index] = (q.double(), pos, scaling, window)

    def truncate(self, num_seen: int) -> None:
        self.seen.clear()


def attend_plainly(state: State, adapter: Adapter, ids: torch.Tensor, start: int, stretch: int) -> list[torch.Tensor]:
    """The largest weights, by a loop over heads of a pass over an independent copy: float64 softmax of stored keys."""
    heads = adapter.num_heads
    found = [torch.zeros(heads, kv.num_rows, dtype=torch.float64) for kv in state.layers]
    for first in range(start, SIZE, stretch):
        part, fork, log = ids[first : first + stretch], state.fork(), Queries()
        fork.queries = log
        forward(adapter, [Segment(fork, torch.cat([ASKS, part]))])
        for layer, (kv, best) in enumerate(zip(fork.layers, found, strict=True)):
            q, q_pos, scaling, window = log.seen[layer]
            for head in range(heads):
                of = head // (heads // adapter.num_kv_heads)
                pos = kv.pos.expand(adapter.num_kv_heads, -1)[of]
                logits = q[head, ASKS.numel() :] @ kv.k[of].double().T * scaling
                if kv.log_w is not None:
                    logits += kv.log_w.expand(adapter.num_kv_heads, -1)[of].double()
                away = q_pos[ASKS.numel() :, None] - pos
                hidden = (away < 0) | (away >= window if window is not None else away < 0)
                weights = torch.softmax(logits.masked_fill(hidden, -torch.inf), -1)[:, : best.shape[1]].amax(0)
                own = (pos[: best.shape[1]] >= first) & (pos[: best.shape[1]] < first + stretch)
                best[head] = torch.maximum(best[head], torch.where(own, weights, 0.0))
    return found


@pytest.mark.parametrize("name", ["llama-r8", "llama-r1", *MIXED_WINDOWS])
@pytest.mark.parametrize("evict", [None, "keynorm", "poisson:keynorm"])
def test_what_is_seen_is_the_plain_softmax(name: str, evict: str | None) -> None:
    """Over grouped heads, windows, log-weights, and padding of heads that hold fewer rows."""
    adapter = make_adapter(name)
    state, ids = read(adapter, evict=evict)
    if evict == "poisson:keynorm":
        assert any(kv.weighted for kv in state.layers)
    found = Repeater(adapter, TOKENIZER).repeat(state, ids, 5, 16)
    for mine, plain in zip(found.layers, attend_plainly(state, adapter, ids, 5, 16), strict=True):
        assert torch.allclose(mine.double(), plain, rtol=0, atol=FP32)
    reach = any(window is None or window > ASKS.numel() for window in TINY[name].windows)
    assert (
        any(bool((mine > 0.01).any()) for mine in found.layers) is reach
    )  # what asks fills the whole of a window of 6


@pytest.mark.parametrize(("dtype", "close"), [(torch.float64, FP32), (torch.bfloat16, BF16), (torch.float16, BF16)])
def test_in_every_type_it_is_float32_and_near_that_of_float32(dtype: torch.dtype, close: float) -> None:
    """Of the same queries and keys: those of a narrow model are its own."""
    adapter = make_adapter("llama-r2", dtype)
    state, ids = read(adapter)
    found = Repeater(adapter, TOKENIZER).repeat(state, ids, 0, 16)
    for mine, plain in zip(found.layers, attend_plainly(state, adapter, ids, 0, 16), strict=True):
        assert mine.dtype == torch.float32
        assert torch.allclose(mine.double(), plain, rtol=0, atol=close)
        assert float(mine.max()) <= 1.0


def test_nothing_to_repeat_takes_no_pass(monkeypatch) -> None:
    adapter = make_adapter("llama-r2")
    state, ids = read(adapter)
    monkeypatch.setattr(repeat, "forward", lambda *_: pytest.fail("a pass"))
    found = Repeater(adapter, TOKENIZER).repeat(state, ids, SIZE, 16)
    assert found.num_tokens == 0
    assert all(bool((seen == 0).all()) for seen in found.layers)


@pytest.mark.parametrize("headroom", [0, 200])
def test_of_the_layers_that_had_to_grow_one_is_held_at_a_time(monkeypatch, headroom: int) -> None:
    adapter, most = make_adapter("llama-r2"), []
    state, ids = read(adapter, headroom)
    plain, passes = repeat._Meter.see, []
    monkeypatch.setattr(repeat, "forward", lambda own, segments: passes.append(segments[0]) or forward(own, segments))

    def see(self, index, first, weights) -> None:
        plain(self, index, first, weights)
        aside = passes[-1].state.layers
        pairs = zip(aside, state.layers, strict=True)
        most.append(sum(mine.buffer is not None and mine.buffer is not kv.buffer for mine, kv in pairs))

    monkeypatch.setattr(repeat._Meter, "see", see)
    Repeater(adapter, TOKENIZER).repeat(state, ids, 0, 16)
    assert max(most) == (1 if headroom == 0 else 0)
    assert all(kv.buffer is not None for kv in state.layers)


def test_one_that_fails_half_way_changes_nothing_and_is_not_remembered(monkeypatch) -> None:
    adapter = make_adapter("llama-r2")
    state, ids = read(adapter, headroom=200)
    twin, repeater = state.fork(), Repeater(adapter, TOKENIZER)
    repeater.remembers = True
    plain = repeat._Meter.see

    def fail(self, index, first, weights) -> None:
        plain(self, index, first, weights)
        if index == 2:
            raise MemoryError("none left")

    with monkeypatch.context() as patch:
        patch.setattr(repeat._Meter, "see", fail)
        with pytest.raises(MemoryError):
            repeater.repeat(state, ids, 0, 16)
    for kv, other in zip(state.layers, twin.layers, strict=True):
        assert kv.num_rows == other.num_rows == SIZE
        assert torch.equal(kv.k, other.k)
        assert torch.equal(kv.v, other.v)
        assert torch.equal(kv.pos, other.pos)
    found = repeater.repeat(state, ids, 0, 16)
    assert not found.remembered
    afresh = Repeater(adapter, TOKENIZER).repeat(twin, ids, 0, 16)
    assert all(torch.equal(*pair) for pair in zip(found.layers, afresh.layers, strict=True))


def test_another_stretch_start_or_text_is_not_mistaken_for_it_and_it_is_let_go() -> None:
    adapter = make_adapter("llama-r2")
    state, ids = read(adapter)
    repeater = Repeater(adapter, TOKENIZER)
    repeater.remembers = True
    other = ids.clone()
    other[-1] = (other[-1] + 1) % 131
    shorter = State([kv.fork() for kv in state.layers], SIZE - 1)
    for kv in shorter.layers:
        kv.truncate(SIZE - 1)
    repeater.repeat(state, ids, 0, 16)
    assert repeater.repeat(state, ids, 0, 16).remembered
    for of, text, start, stretch in (
        (state, ids, 0, 17),
        (state, ids, 1, 16),
        (state, other, 0, 16),
        (shorter, ids[:-1], 0, 16),
    ):
        assert not repeater.repeat(of, text, start, stretch).remembered
        assert not repeater.repeat(state, ids, 0, 16).remembered  # the last one is remembered, and no other
        assert repeater.repeat(state, ids, 0, 16).remembered
    compress(state, make_policy("keynorm", 20, sinks=2, recent=4), seed=1)
    assert not repeater.repeat(state, ids, 0, 16).remembered
    assert repeater._last is None


def test_what_repeating_takes_is_told_as_compressing_and_not_as_prefill(engine, monkeypatch) -> None:
    """By lower bounds alone: a pass that waits cannot take less."""
    monkeypatch.setattr(repeat, "forward", lambda *args: time.sleep(0.2) or forward(*args))
    (answer,) = engine.generate([evicting(1, policy("kvzip", 20, stretch=30), max_tokens=3)])
    (each,) = answer.receipt.eviction.compressions
    assert each.repeated_tokens == 60 + 2 * ASKS.numel()
    assert 0.4 <= each.evict_s <= answer.receipt.seconds.evict_s
    assert answer.receipt.seconds.total_s >= answer.receipt.seconds.prefill_s + 0.4
    assert Receipt.model_validate_json(answer.receipt.to_json()) == answer.receipt


def test_two_in_one_batch_do_not_see_each_other(engine) -> None:
    wanted = [evicting(1, policy("kvzip", 20, every=4)), evicting(2, policy("pivotal:kvzip", 24, every=5, stretch=9))]
    alone = [run(engine, each)[0] for each in wanted]
    together = run(engine, *wanted)
    for one, other in zip(alone, together, strict=True):
        assert one.ids == other.ids
        assert kept(one) == kept(other)
        counts = [[each.repeated_tokens for each in of.keeper.evictions] for of in (one, other)]
        assert counts[0] == counts[1]


@pytest.mark.parametrize("other", [{"budget": 24}, {"stretch": 16}, {"name": "pivotal:kvzip", "budget": 30}])
def test_fanned_out_each_keeps_the_rows_that_it_keeps_alone(engine, other: dict[str, object]) -> None:
    """Whatever was repeated before it for another, in either order."""
    first = evicting(1, policy("kvzip", 20))
    second = replace(first, evict=policy(**{"name": "kvzip", "budget": 20, **other}))
    alone = [engine.generate([each])[0] for each in (first, second)]
    for order in ([0, 1], [1, 0]):
        fanned = engine.fan_out([(first, second)[at] for at in order])
        for at, outcome in zip(order, fanned, strict=True):
            assert outcome.answer.ids == alone[at].ids
            mine, theirs = (each.receipt.eviction.compressions[0] for each in (outcome.answer, alone[at]))
            assert mine.rows_after == theirs.rows_after
            assert mine.repeated_tokens == theirs.repeated_tokens
