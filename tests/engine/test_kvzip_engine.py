"""Policies that have the text repeated, inside the engine: what is repeated, when, and what the receipt says of it."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from test_evict_engine import SIZE, evicting, kept, policy, run
from tinytext import NUM_LAYERS, make_engine

from fewer import Engine, PromptTooLong, StaticPrune
from fewer.engine import repeat
from fewer.engine.repeat import Repeater
from fewer.evict import make_policy

KV_HEADS = 2


@pytest.fixture(scope="module")
def engine(device: torch.device) -> Engine:
    return make_engine(device)


@pytest.fixture
def repeated(monkeypatch) -> list[tuple[list[int], int, int]]:
    """What was repeated: the ids seen by then, the first that is repeated, and how many at once."""
    calls: list[tuple[list[int], int, int]] = []
    plain = Repeater.repeat

    def note(self, state, ids, start, stretch):
        assert state.num_seen == ids.numel()
        calls.append((ids.tolist(), start, stretch))
        return plain(self, state, ids, start, stretch)

    monkeypatch.setattr(Repeater, "repeat", note)
    return calls


def test_by_name_it_has_its_own_budget_unless_one_is_given() -> None:
    for name in ("kvzip", "pivotal:kvzip", "systematic:kvzip+spread"):
        assert (make_policy(name, "25%").budget.layers, make_policy(name, "25%").budget.heads) == ("adaptive", "equal")
    assert make_policy("kvzip", "25%", heads="adaptive").budget.layers == "adaptive"
    assert make_policy("kvzip", "25%", layers="pyramid").budget.layers == "pyramid"
    assert make_policy("snapkv", "25%").budget.layers == "uniform"


def test_the_budget_is_spent_whole_and_every_head_of_a_layer_has_as_many_rows(engine) -> None:
    (sequence,) = run(engine, evicting(1, policy("kvzip", 20)))
    (eviction,) = sequence.keeper.evictions
    assert int(eviction.rows_after.sum()) == NUM_LAYERS * KV_HEADS * 20
    assert (eviction.rows_after[:, 0] == eviction.rows_after[:, 1]).all()
    assert eviction.padding == (0,) * NUM_LAYERS
    assert len(set(eviction.rows_after[:, 0].tolist())) > 1


def test_the_prompt_is_repeated_once_and_with_its_question(engine, repeated) -> None:
    wanted = evicting(1, policy("kvzip", 20, stretch=25))
    run(engine, wanted)
    assert repeated == [(wanted.prompt.ids.tolist(), 0, 25)]


def test_before_the_question_only_the_context_is_repeated(engine, repeated) -> None:
    wanted = evicting(1, policy("kvzip", 20, moment="context"))
    run(engine, wanted)
    assert repeated == [(wanted.prompt.ids.tolist()[: SIZE - 8], 0, 512)]


def test_each_block_is_repeated_when_it_has_been_read(engine, repeated) -> None:
    (sequence,) = run(engine, evicting(1, policy("kvzip", 20, block=25)))
    assert [(len(ids), start) for ids, start, _ in repeated] == [(25, 0), (50, 25), (60, 50)]
    for each in sequence.keeper.evictions:
        assert int(each.rows_after.sum()) <= NUM_LAYERS * KV_HEADS * 20


def test_while_decoding_the_answer_so_far_is_repeated(engine, repeated) -> None:
    wanted = evicting(1, policy("kvzip", 20, every=4), max_tokens=11)
    (sequence,) = run(engine, wanted)
    ids = wanted.prompt.ids.tolist() + sequence.ids
    assert [(seen, start) for seen, start, _ in repeated] == [(ids[:60], 0), (ids[:64], 60), (ids[:68], 64)]


def test_what_was_scored_before_keeps_its_score(engine) -> None:
    (sequence,) = run(engine, evicting(1, policy("kvzip", 20, every=4, layers="uniform"), max_tokens=6))
    first, second = sequence.keeper.evictions[:2]
    assert (first.num_seen, second.num_seen) == (60, 64)
    for kv in sequence.state.layers:
        assert kv.gathered is not None
        old = kv.pos.expand(KV_HEADS, -1)[:, : kv.gathered.shape[1]] < 60
        assert (kv.gathered[old] > 0).all()  # and not only those of the newest four tokens


def test_one_text_under_several_policies_is_repeated_once_and_each_is_told_the_seconds(engine, monkeypatch) -> None:
    passes, plain = [], repeat.forward
    monkeypatch.setattr(repeat, "forward", lambda *args: passes.append(1) or plain(*args))
    ways = [evicting(1, policy("kvzip", budget, moment="context")) for budget in (16, 20, 24)]
    prompt = ways[0].prompt
    ways = [replace(way, prompt=prompt) for way in ways]
    alone = engine.generate([ways[1]])[0]
    of_one = len(passes)
    answers = [outcome.answer for outcome in engine.fan_out(ways)]
    assert len(passes) == 2 * of_one > 0
    seconds = [answer.receipt.eviction.compressions[0].evict_s for answer in answers]
    tokens = [answer.receipt.eviction.compressions[0].repeated_tokens for answer in answers]
    assert len(set(tokens)) == 1
    assert tokens[0] > SIZE - 8
    assert (alone.ids, alone.receipt.eviction.compressions[0].repeated_tokens) == (answers[1].ids, tokens[0])
    assert min(seconds) > 0


def test_a_score_that_repeats_nothing_says_0(engine) -> None:
    (answer,) = engine.generate([evicting(1, policy("snapkv", 20))])
    assert answer.receipt.eviction.compressions[0].repeated_tokens == 0


def test_drawn_by_it_there_is_a_certificate(engine) -> None:
    (answer,) = engine.generate([evicting(1, policy("pivotal:kvzip", 24), max_tokens=8)])
    assert answer.receipt.certificate.kind == "estimate"
    assert len(answer.receipt.certificate.steps) == 7


def test_after_pruning_the_rows_that_are_left_are_scored(engine) -> None:
    wanted = replace(evicting(1, policy("kvzip", 16)), prune=StaticPrune(0.6, 2))
    (sequence,) = run(engine, wanted)
    (eviction,) = sequence.keeper.evictions
    assert (eviction.rows_before == SIZE * 6 // 10).all()
    assert int(eviction.rows_after.sum()) == NUM_LAYERS * KV_HEADS * 16
    assert kept(sequence) != kept(run(engine, replace(wanted, prune=None))[0])


def test_where_no_position_is_left_the_request_fails_alone(engine) -> None:
    most = engine.adapter.max_positions
    full = evicting(1, policy("kvzip", 40), size=most - 4, max_tokens=3)
    outcomes = engine.fan_out([full, replace(full, evict=policy("snapkv", 40))])
    assert isinstance(outcomes[0].error, PromptTooLong)
    assert "repeat its text" in str(outcomes[0].error)
    assert len(outcomes[1].answer.ids) == 3
    assert len(engine.generate([evicting(1, policy("kvzip", 20), max_tokens=3)])[0].ids) == 3


@pytest.mark.parametrize(
    ("settings", "max_tokens", "fits"),
    [({}, 12, True), ({"every": 4}, 12, True), ({"every": 4}, 40, False), ({"moment": "context"}, 40, True)],
)
def test_what_will_not_fit_is_refused_before_anything_runs(engine, repeated, settings, max_tokens, fits) -> None:
    wanted = evicting(1, policy("kvzip", 20, **settings), max_tokens=max_tokens)
    if fits:
        assert len(run(engine, wanted)[0].ids) == max_tokens
        return
    with pytest.raises(PromptTooLong, match=r"kvzip has the model repeat its text, which takes .* behind 100 tokens"):
        run(engine, wanted)
    assert repeated == []
