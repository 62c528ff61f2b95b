"""KVzip's score, and what a compression makes of it: groups, gathering, sizes of a sample, settings."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from views import evict_some, make_view

from fewer import BadInput, Policy
from fewer.evict import compress, make_policy
from fewer.evict.score import make_score
from fewer.kv import State
from fewer.types import Needs
from tolerances import FP32

ROWS, HEADS, KV_HEADS = 40, 4, 2


def made(seed: int = 0, rows: int = ROWS, num_layers: int = 3) -> tuple[State, list[torch.Tensor]]:
    """A cache of random rows, and what was seen of it."""
    generator, state = torch.Generator().manual_seed(seed), State.new(num_layers)
    for kv in state.layers:
        kv.append(torch.randn(2, KV_HEADS, rows, 8, generator=generator), torch.arange(rows), 0)
    state.num_seen = rows
    return state, [torch.rand(HEADS, rows, generator=generator) + 0.01 for _ in state.layers]


def policy(name: str, budget: int, **settings: object) -> Policy:
    chosen = make_policy(name, budget, **{"sinks": 2, "recent": 4, **settings})
    assert chosen is not None
    return chosen


def held(state: State) -> list[list[list[int]]]:
    found = []
    for kv in state.layers:
        pos = kv.pos.expand(KV_HEADS, -1)
        real = torch.ones_like(pos, dtype=torch.bool) if kv.log_w is None else ~torch.isneginf(kv.log_w)
        found.append([row[mask].tolist() for row, mask in zip(pos, real.expand_as(pos), strict=True)])
    return found


@pytest.mark.parametrize("group", ["max", "mean"])
def test_it_is_what_was_seen_over_the_heads_of_a_group(group: str) -> None:
    view = make_view()
    assert view.repeated is not None
    score = make_score("kvzip", group=group)(view)
    for head in range(2):
        seen = view.repeated[3 * head : 3 * head + 3]
        assert torch.equal(score[head], seen.amax(0) if group == "max" else seen.mean(0))
    before = torch.full_like(score, 0.25)
    assert torch.allclose(make_score("kvzip", group=group)(replace(view, gathered=before)), score + 0.25, atol=FP32)


def test_where_nothing_was_repeated_it_says_so() -> None:
    says = "repeated is None; it must be what was seen while the text was repeated. Compress with an Engine"
    with pytest.raises(BadInput, match=says):
        make_score("kvzip")(replace(make_view(), repeated=None))
    state, _ = made()
    with pytest.raises(BadInput, match=says):
        compress(state, policy("kvzip", 10), seed=0)
    assert [kv.num_rows for kv in state.layers] == [ROWS] * 3


def test_settings() -> None:
    assert make_score("kvzip", stretch=7).needs == make_score("kvzip+spread", stretch=7).needs == Needs("repeat", 7)
    assert policy("kvzip", 10, stretch=7).describe()["score.stretch"] == 7
    for setting in ({"stretch": 0}, {"stretch": 2.5}, {"stretch": True}, {"group": "sum"}):
        with pytest.raises(BadInput, match=next(iter(setting))):
            make_score("kvzip", **setting)


@pytest.mark.parametrize("heads", ["equal", "adaptive"])
def test_over_all_layers_the_rows_that_were_seen_most_stay(heads: str) -> None:
    """Of all rows that are free to go, those that stay are the highest, per row with adaptive heads."""
    state, seen = made()
    scores = [one.view(KV_HEADS, -1, ROWS).amax(1) * 4.0**layer for layer, one in enumerate(seen)]
    wide = [score.repeat_interleave(2, 0) for score in scores]
    compress(state, policy("kvzip", 12, heads=heads, safeguard=0.0), seed=0, repeated=wide)
    rows = held(state)
    assert sum(len(head) for layer in rows for head in layer) == 3 * KV_HEADS * 12
    for layer, score in zip(rows, scores, strict=True):
        for head, kept in enumerate(layer):
            assert {0, 1, *range(ROWS - 4, ROWS)} <= set(kept)
            free = [at for at in range(2, ROWS - 4) if at in kept]
            gone = [at for at in range(2, ROWS - 4) if at not in kept]
            if free and gone:
                assert float(score[head, free].min()) >= float(score[head, gone].max())
    if heads == "adaptive":
        stay = [s[h, a] for r, s in zip(rows, scores, strict=True) for h in range(2) for a in r[h] if 2 <= a < ROWS - 4]
        leave = [s[h, a] for r, s in zip(rows, scores, strict=True) for h in range(2) for a in range(2, ROWS - 4)]
        assert sorted(map(float, stay)) == sorted(map(float, leave))[-len(stay) :]
    else:
        assert all(len(layer[0]) == len(layer[1]) for layer in rows)
    assert len(rows[2][0]) > len(rows[0][0])


@pytest.mark.parametrize("name", ["kvzip", "kvzip+spread"])
def test_rows_of_earlier_compressions_keep_their_score(name: str) -> None:
    state, seen = made()
    compress(state, policy(name, 20), seed=0, repeated=seen)
    before = [(kv.pos.expand(KV_HEADS, -1), kv.gathered) for kv in state.layers]
    generator = torch.Generator().manual_seed(5)
    again = []
    for kv in state.layers:
        kv.append(torch.randn(2, KV_HEADS, 10, 8, generator=generator), torch.arange(ROWS, ROWS + 10), ROWS)
        again.append(torch.zeros(HEADS, kv.num_rows))
        again[-1][:, -10:] = torch.rand(HEADS, 10, generator=generator)
    state.num_seen = ROWS + 10
    compress(state, policy(name, 20), seed=0, turn=1, repeated=again)
    for kv, (pos, gathered) in zip(state.layers, before, strict=True):
        assert gathered is not None
        assert kv.gathered is not None
        for head in range(KV_HEADS):
            known = dict(zip(pos[head].tolist(), gathered[head].tolist(), strict=True))
            here = dict(zip(kv.pos[head].tolist(), kv.gathered[head].tolist(), strict=True))
            old = [at for at in here if at < ROWS]
            assert old
            assert all(here[at] == known[at] for at in old)


@pytest.mark.parametrize("name", ["pivotal:kvzip", "pivotal:kvzip+spread"])
def test_what_was_not_repeated_again_is_drawn_by_the_score_that_it_kept(name: str) -> None:
    """Not at the design's floor, where every row of the tail has one and the same probability."""
    state, seen = made(rows=120, num_layers=1)
    compress(state, policy(name, 60), seed=0, repeated=seen)
    (kv,) = state.layers
    first = kv.pi
    assert first is not None
    kv.append(torch.randn(2, KV_HEADS, 20, 8, generator=torch.Generator().manual_seed(1)), torch.arange(120, 140), 120)
    state.num_seen = 140
    again = torch.zeros(HEADS, kv.num_rows)
    again[:, -20:] = 0.5
    places = {(h, at): float(first[h, row]) for h in range(2) for row, at in enumerate(kv.pos[h].tolist()) if at < 120}
    compress(state, policy(name, 30, core=0.0), seed=0, turn=1, repeated=[again])
    drawn = [
        float(kv.pi[head, row]) / places[head, at]
        for head in range(KV_HEADS)
        for row, at in enumerate(kv.pos[head].tolist())
        if 2 <= at < 120 and float(kv.pi[head, row]) > 0
    ]
    tail = sorted(share for share in drawn if share < 1 - FP32)
    assert len(tail) > 8
    assert tail[-1] > 1.5 * tail[0]


def test_padding_is_never_wanted() -> None:
    view = evict_some(make_view(), [[0, 1, 2, 5, 6], [3, 4]])
    assert view.padding is not None
    assert bool((make_score("kvzip")(view)[view.padding] == 0).all())
