"""After an eviction: every supported family against a dense float64 reference with a bias per layer and head."""

from __future__ import annotations

import math

import pytest
import torch
from cases import MORE, Case, T, gap
from torch import Tensor

from fewer.errors import BadInput
from fewer.evict import Policy, compress, make_policy
from fewer.kv import LayerKV, State
from fewer.query_log import QueryLog
from reference import bias_of, sight

POLICIES = ["snapkv", "h2o", "keynorm", "poisson:snapkv", "systematic:question", "pivotal:uniform"]


def policy(name: str, budget: int | str = 9, **settings: object) -> Policy:
    made = make_policy(name, budget, **{"sinks": 1, "recent": 2, **settings})
    assert made is not None
    return made


def opened(case: Case, wanted: Policy) -> State:
    state = case.new()
    state.queries = QueryLog(wanted.score.needs, len(state.layers))
    return state


def likelihoods(kv: LayerKV) -> dict[tuple[int, int], float]:
    """The inclusion probability of every row that is there, by head and position."""
    kv_heads = kv.k.shape[0]
    pos = kv.pos.expand(kv_heads, -1)
    pi = torch.ones(pos.shape) if kv.pi is None else kv.pi
    held = (
        torch.ones(pos.shape, dtype=torch.bool) if kv.log_w is None else ~torch.isneginf(kv.log_w.expand(kv_heads, -1))
    )
    return {(head, int(pos[head, row])): float(pi[head, row]) for head, row in held.nonzero().tolist()}


def add_bias(bias: Tensor, state: State, start: int) -> None:
    """What rows from `start` on see of the tokens before it, as the state holds them. bias: [L, heads, T, T]."""
    for index, kv in enumerate(state.layers):
        heads, kv_heads = bias.shape[1], kv.k.shape[0]
        pos = kv.pos.expand(kv_heads, -1).cpu()
        log_w = torch.zeros(pos.shape) if kv.log_w is None else kv.log_w.expand(kv_heads, -1).cpu()
        for head in range(heads):
            group = head * kv_heads // heads
            valid = ~torch.isneginf(log_w[group])
            seen = torch.full((start,), -math.inf, dtype=torch.float64)
            seen[pos[group][valid]] = log_w[group][valid].double()
            reach = bias[index, head, start:, :start]  # -inf behind the window
            bias[index, head, start:, :start] = reach + seen


@pytest.mark.parametrize("name", POLICIES)
def test_what_is_left_is_attended_to_with_its_weights(case: Case, ids: Tensor, name: str, fp32: float) -> None:
    wanted = policy(name)
    state = opened(case, wanted)
    case.run(state, ids[:T])
    heads = case.tiny.model.config.num_attention_heads
    bias = bias_of(sight(T + MORE, case.tiny.windows))[:, None].repeat(1, heads, 1, 1)
    eviction = compress(state, wanted, seed=3)
    add_bias(bias, state, T)
    assert eviction.num_evicted > 0
    reference, _ = case.tiny.dense.run(ids, bias)
    whole = state.fork()
    assert gap(case.run(whole, ids[T:]), reference[T:]) < fp32
    assert gap(torch.cat([case.run(state, token) for token in ids[T:].split(1)]), reference[T:]) < fp32


@pytest.mark.parametrize("name", ["h2o", "poisson:snapkv", "systematic:snapkv"])
def test_evicted_twice(case: Case, ids: Tensor, name: str, fp32: float) -> None:
    wanted = policy(name, 12)
    state = opened(case, wanted)
    heads = case.tiny.model.config.num_attention_heads
    bias = bias_of(sight(T + MORE, case.tiny.windows))[:, None].repeat(1, heads, 1, 1)
    half = T - 8
    case.run(state, ids[:half])
    state.queries.open = True
    compress(state, wanted, seed=3)
    add_bias(bias, state, half)
    state.queries.open = True
    case.run(state, ids[half:T])
    before = [likelihoods(kv) for kv in state.layers]
    eviction = compress(state, policy(name, 8), seed=3, turn=1)
    assert eviction.num_evicted > 0
    bias[:, :, T:, :half] = bias_of(sight(T + MORE, case.tiny.windows))[:, None, T:, :half]
    add_bias(bias, state, T)
    reference, _ = case.tiny.dense.run(ids, bias)
    assert gap(case.run(state, ids[T:]), reference[T:]) < fp32
    for kv, earlier in zip(state.layers, before, strict=True):
        for place, pi in likelihoods(kv).items():
            assert 0 < pi <= earlier.get(place, 1.0)
    if name != "h2o" and case.tiny.windows == (None,) * 4:
        assert any(pi < 1 for kv in state.layers for pi in likelihoods(kv).values())


def test_a_budget_of_everything_changes_no_bit(plain: Case, ids: Tensor) -> None:
    for name in POLICIES:
        for budget in (T, 10 * T, "100%"):
            state, other = opened(plain, policy(name, budget)), plain.new()
            assert torch.equal(plain.run(state, ids[:T]), plain.run(other, ids[:T]))
            eviction = compress(state, policy(name, budget), seed=1)
            assert eviction.num_evicted == 0
            assert eviction.bytes_after == eviction.bytes_before
            assert torch.equal(plain.run(state, ids[T:]), plain.run(other, ids[T:]))


@pytest.mark.parametrize("name", ["snapkv", "poisson:snapkv", "systematic:snapkv"])
def test_the_bytes_are_gone(plain: Case, ids: Tensor, name: str) -> None:
    state = opened(plain, policy(name))
    plain.run(state, ids[:T])
    eviction = compress(state, policy(name), seed=1)
    for kv, count, padding in zip(state.layers, eviction.rows_after, eviction.padding, strict=True):
        kv_heads, rows, dim = kv.k.shape
        assert kv.nbytes == 2 * kv_heads * (rows + kv.headroom) * dim * kv.k.element_size()
        assert rows == int(count.max())
        assert padding == kv_heads * rows - int(count.sum()) == kv.num_padding
        assert bool((kv.pos.diff(dim=1)[:, : int(count.min()) - 1] > 0).all())
    assert eviction.bytes_after == state.nbytes < eviction.bytes_before
    if name != "poisson:snapkv":
        assert bool((eviction.rows_after == 9).all())


def test_protected_rows_stay(plain: Case, ids: Tensor) -> None:
    for name in POLICIES:
        state = opened(plain, policy(name, 8, sinks=3, recent=4))
        plain.run(state, ids[:T])
        compress(state, policy(name, 8, sinks=3, recent=4), seed=2)
        for kv in state.layers:
            for head, pos in enumerate(kv.pos.expand(kv.k.shape[0], -1)):
                held = pos if kv.log_w is None else pos[~torch.isneginf(kv.log_w[head])]
                assert {0, 1, 2, T - 4, T - 3, T - 2, T - 1} <= set(held.tolist())


def test_samples_depend_on_seed_turn_and_cache_alone(plain: Case, ids: Tensor) -> None:
    wanted = policy("systematic:snapkv")
    state = opened(plain, wanted)
    plain.run(state, ids[:T])
    draws = {}
    for seed, turn in ((1, 0), (1, 0), (2, 0), (1, 1)):
        copy = state.fork()
        compress(copy, wanted, seed, turn)
        kept = [kv.pos.tolist() for kv in copy.layers]
        assert draws.setdefault((seed, turn), kept) == kept
    assert len({str(kept) for kept in draws.values()}) == 3


def test_a_budget_below_what_always_stays(plain: Case, ids: Tensor) -> None:
    for name, least in (("snapkv", 8), ("systematic:snapkv", 9)):
        wanted = policy(name, 7, sinks=4, recent=4)
        state = opened(plain, wanted)
        plain.run(state, ids[:T])
        with pytest.raises(BadInput, match=f"at least {least} "):
            compress(state, wanted, seed=1)
        compress(state, policy(name, least, sinks=4, recent=4), seed=1)
        assert all(kv.num_rows == least for kv in state.layers)
