"""One prompt in several ways at once: each gets what it gets alone, and layers below the first plan are run once."""

from __future__ import annotations

import gc

import pytest
import torch
from tinytext import NUM_LAYERS, random_ids, request

from fewer import BadInput, EndsPrune, Engine, PromptTooLong, RandomPrune, Request, Sampling, StaticPrune
from fewer.evict import make_policy
from fewer.kv import LayerKV, State
from fewer.model.forward import forward
from fewer.model.segment import Segment
from fewer.model.shared import forward_shared
from fewer.types import Chunk, Plan, Planner, Prompt
from tolerances import FP32

IDS = random_ids(10, 37)
REFERENCE = random_ids(90, 9)
PLANNERS: dict[str, Planner | None] = {
    "full": None,
    "static at 1": StaticPrune(0.5),
    "static at 3": StaticPrune(0.3, 3),
    "random at 0": RandomPrune(9),
    "random at 2": RandomPrune(0.5, 2),
    "ends by chunk": EndsPrune(0.5, grain="chunk"),
    "ends at 3": EndsPrune(0.5, 3),
    "keeps all": StaticPrune("100%", 2),
    "full again": None,
}


class Broken(EndsPrune):
    """Fails when it is asked."""

    def after(self, observation: object) -> Plan:
        raise RuntimeError("no plan today")


def make(**sampling: int) -> list[Request]:
    prompt = Prompt.from_ids(IDS)
    return [Request(prompt, Sampling(max_tokens=12, **sampling), planner) for planner in PLANNERS.values()]


def test_shared_prefills_have_the_bits_of_lone_ones(engine: Engine) -> None:
    prompt = Prompt.from_ids(IDS)

    def branch(planner: Planner | None) -> Segment:
        return Segment(State.new(NUM_LAYERS, 5), prompt.ids, planner, prompt, 3)

    found = dict(forward_shared(engine.adapter, [branch(planner) for planner in PLANNERS.values()]))
    for place, (name, planner) in enumerate(PLANNERS.items()):
        one, lone = found[place], branch(planner)
        (logits,) = forward(engine.adapter, [lone])
        assert torch.equal(one.logits, logits), name
        assert one.segment.rows_per_layer == lone.rows_per_layer
        assert [plan.keep.tolist() for plan in one.segment.plans] == [plan.keep.tolist() for plan in lone.plans]
        assert one.segment.released_bytes == lone.released_bytes
        assert one.segment.state.num_seen == lone.state.num_seen == len(IDS)
        for mine, theirs in zip(one.segment.state.layers, lone.state.layers, strict=True):
            assert torch.equal(mine.k, theirs.k)
            assert torch.equal(mine.v, theirs.v)
            assert torch.equal(mine.pos, theirs.pos)
            assert (mine.nbytes, mine.contiguous) == (theirs.nbytes, theirs.contiguous)
        assert one.shared


def test_layers_below_the_first_plan_run_once(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = []

    class Counting:
        def __init__(self, layer: object) -> None:
            self.layer = layer

        def __call__(self, hidden: torch.Tensor, *rest: object) -> torch.Tensor:
            rows.append(hidden.shape[1])
            return self.layer(hidden, *rest)

    monkeypatch.setattr(engine.adapter, "layers", [Counting(layer) for layer in engine.adapter.layers])
    prompt = Prompt.from_ids(IDS)
    planners = [None, StaticPrune(10, 2), EndsPrune(10, 3), StaticPrune(20, 2)]
    branches = [Segment(State.new(NUM_LAYERS), prompt.ids, planner, prompt) for planner in planners]
    assert len(list(forward_shared(engine.adapter, branches))) == len(branches)
    size = len(IDS)
    assert sorted(rows) == sorted([size] * 4 + [10] * 2 + [10] + [20] * 2)


def test_every_way_gets_the_answer_it_gets_alone(engine: Engine) -> None:
    requests = make(seed=4)
    outcomes = engine.fan_out(requests, REFERENCE)
    scores = engine.score(requests, [REFERENCE] * len(requests))
    for one, outcome, score in zip(requests, outcomes, scores, strict=True):
        (alone,) = engine.generate([one])
        assert outcome.error is None
        assert (outcome.answer.ids, outcome.answer.text) == (alone.ids, alone.text)
        assert outcome.answer.receipt.computed == alone.receipt.computed
        assert outcome.answer.receipt.plans == alone.receipt.plans
        assert outcome.answer.receipt.memory.kv_bytes_per_layer == alone.receipt.memory.kv_bytes_per_layer
        assert outcome.answer.receipt.run.shared_prefill
        assert not alone.receipt.run.shared_prefill
        assert outcome.reference_logprobs == pytest.approx(score.logprobs, abs=FP32)


def test_an_error_stays_with_its_way(engine: Engine) -> None:
    prompt = Prompt.from_ids(IDS)
    planners = (None, Broken(0.5, 1), StaticPrune(0.5), StaticPrune(10**6), StaticPrune(0.5, 99))
    ways = [Request(prompt, Sampling(max_tokens=4), planner) for planner in planners]
    full, broken, static, *refused = engine.fan_out(ways)
    assert (broken.answer, str(broken.error)) == (None, "no plan today")
    assert [type(outcome.error) for outcome in refused] == [BadInput, BadInput]
    assert full.answer.ids == engine.generate([ways[0]])[0].ids
    assert static.answer.ids == engine.generate([ways[2]])[0].ids


def test_an_error_holds_no_cache(engine: Engine) -> None:
    prompt, before = Prompt.from_ids(IDS), count_caches()
    ways = [
        Request(prompt, Sampling(max_tokens=2)),
        Request(prompt, Sampling(max_tokens=2), Broken(0.5)),
        Request(prompt, Sampling(max_tokens=10**6)),
    ]
    outcomes = engine.fan_out(ways, reference=REFERENCE)
    assert [outcome.error is None for outcome in outcomes] == [True, False, False]
    assert all(outcome.error.__traceback__ is not None for outcome in outcomes[1:])
    assert count_caches() == before


def count_caches() -> int:
    """Layers that hold rows, of whatever is alive."""
    gc.collect()
    return sum(type(each) is LayerKV and each.buffer is not None for each in gc.get_objects())


def test_a_lone_way_shares_nothing(engine: Engine) -> None:
    (outcome,) = engine.fan_out([Request(Prompt.from_ids(IDS), Sampling(max_tokens=3))])
    assert not outcome.answer.receipt.run.shared_prefill
    assert outcome.reference_logprobs is None


def test_given_tokens_score_as_in_one_pass(engine: Engine) -> None:
    contexts = [random_ids(40 + size, size) for size in (1, 7, 30)]
    rests = [random_ids(50 + size, size) for size in (1, 5, 12)]
    scores = engine.score([Prompt.from_ids(ids) for ids in contexts], rests)
    for ids, rest, score in zip(contexts, rests, scores, strict=True):
        whole = torch.tensor([*ids, *rest])
        (logits,) = forward(engine.adapter, [Segment(State.new(NUM_LAYERS), whole, logits="all")])
        logprobs = logits[len(ids) - 1 : -1].log_softmax(-1)
        want = [float(row[token]) for row, token in zip(logprobs, rest, strict=True)]
        assert score.logprobs == pytest.approx(want, abs=FP32)
        assert score.greedy == tuple(int(row.argmax()) == token for row, token in zip(logprobs, rest, strict=True))
        assert score.total == pytest.approx(sum(want), abs=10 * FP32)
        assert score.receipt.output.finish_reason == "scored"
        assert score.receipt.output.num_tokens == len(rest)


def test_scores_do_not_depend_on_the_pieces(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    requests = [request(random_ids(60, 20), StaticPrune(0.4)), request(random_ids(61, 9)), request(random_ids(61, 9))]
    rests = [random_ids(62, 33), random_ids(63, 2), random_ids(64, 18)]
    whole = engine.score(requests, rests)
    monkeypatch.setattr("fewer.engine.score.PIECE", 7)
    monkeypatch.setattr("fewer.engine.score.ROWS", 10)
    for one, other in zip(whole, engine.score(requests, rests), strict=True):
        assert one.logprobs == pytest.approx(other.logprobs, abs=FP32)
    assert [score.receipt.run.shared_prefill for score in whole] == [False, True, True]


def test_the_last_token_needs_no_position(engine: Engine) -> None:
    whole, short = random_ids(70, 128), random_ids(71, 100)
    scores = engine.score([Prompt.from_ids(whole), Prompt.from_ids(short)], [[5], random_ids(72, 29)])
    assert [len(score.logprobs) for score in scores] == [1, 29]
    with pytest.raises(PromptTooLong, match="128 positions"):
        engine.score([Prompt.from_ids(short)], [random_ids(72, 30)])


@pytest.mark.parametrize("continuation", [[], [[1, 2]], ["a"], [1.5], [-1], [10**6], None])
def test_what_cannot_be_scored_is_named(engine: Engine, continuation: object) -> None:
    with pytest.raises(BadInput, match="continuation"):
        engine.score([Prompt.from_ids(IDS)], [continuation])


def test_counts_that_do_not_fit_are_named(engine: Engine) -> None:
    with pytest.raises(BadInput, match="one each"):
        engine.score([Prompt.from_ids(IDS)], [])
    with pytest.raises(BadInput, match="at least one request"):
        engine.fan_out([])
    with pytest.raises(BadInput, match="one and the same Prompt"):
        engine.fan_out([Request(Prompt.from_ids(IDS)), Request(Prompt.from_ids(IDS))])


def test_a_context_that_several_compress_is_read_once(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    ids, context = random_ids(11, 40), 32
    protected = torch.tensor([True] * 2 + [False] * (context - 2) + [True] * (len(ids) - context))
    prompt = Prompt(torch.tensor(ids), protected, (Chunk("d", 2, context),), (context, len(ids)))
    names = ["snapkv", "h2o", "systematic:snapkv", "poisson:h2o", "pivotal:snapkv"]
    small = {"sinks": 2, "recent": 4}
    policies = [make_policy(name, 12, moment="context", **small) for name in names]
    policies += [make_policy("question", 12, **small), make_policy("snapkv", 12, moment="context", block=8, **small)]
    sampling = Sampling(max_tokens=6, ignore_eos=True)
    requests = [Request(prompt, sampling, evict=policy, evidence=True) for policy in policies]
    alone = [engine.generate([one])[0] for one in requests]
    rows = []
    layer = engine.adapter.layers[0]

    def count(hidden: torch.Tensor, *rest: object) -> torch.Tensor:
        rows.append(hidden.shape[1])
        return layer(hidden, *rest)

    monkeypatch.setattr(engine.adapter, "layers", [count, *engine.adapter.layers[1:]])
    outcomes = engine.fan_out(requests)
    question = len(ids) - context
    assert sorted(row for row in rows if row > len(requests)) == [question] * 10 + [context, len(ids)]
    for one, outcome in zip(alone, outcomes, strict=True):
        assert outcome.error is None
        assert outcome.answer.ids == one.ids
        mine, theirs = outcome.answer.receipt, one.receipt
        assert mine.computed == theirs.computed
        assert [each.rows_after for each in mine.eviction.compressions] == [
            each.rows_after for each in theirs.eviction.compressions
        ]
        assert mine.run.shared_prefill == (len(one.receipt.eviction.compressions) == 1 and one is not alone[5])
        if one.evidence.question is not None:
            assert torch.allclose(outcome.answer.evidence.question, one.evidence.question, rtol=10 * FP32, atol=FP32)
