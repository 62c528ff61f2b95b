"""Eviction inside the engine: alone, packed, shared, in parts, while decoding; what it refuses."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from tinytext import NUM_LAYERS, make_engine, random_ids, request

from fewer import BadInput, Engine, LazyLLM, Policy, Prompt, Request, StaticPrune
from fewer.engine.batch import Batch
from fewer.engine.sequence import Sequence
from fewer.evict import make_policy

SIZE = 60


@pytest.fixture(scope="module")
def engine(device: torch.device) -> Engine:
    return make_engine(device)


def policy(name: str = "systematic:question", budget: int | str = 20, **settings: object) -> Policy:
    made = make_policy(name, budget, **{"sinks": 2, "recent": 4, **settings})
    assert made is not None
    return made


def evicting(which: int = 0, evict: Policy | None = None, size: int = SIZE, **sampling: object) -> Request:
    made = request(random_ids(which, size), ignore_eos=True, **sampling)
    prompt = made.prompt
    protected = prompt.protected.clone()
    protected[size - 8 :] = True
    chunks = (replace(prompt.chunks[0], start=2, stop=size - 8),)
    return replace(made, prompt=Prompt(prompt.ids, protected, chunks, (size - 8, size)), evict=evict)


def run(engine: Engine, *requests: Request) -> list[Sequence]:
    """Every request to its end, in one batch."""
    batch = Batch(engine.adapter, engine.tokenizer, engine.end_tokens)
    sequences = [batch.add(one) for one in requests]
    while not batch.idle:
        batch.step()
    for sequence in sequences:
        if sequence.error is not None:
            raise sequence.error
    return sequences


def kept(sequence: Sequence) -> list[list[list[int]]]:
    """The positions of each layer and head, padding left out."""
    found = []
    for kv in sequence.state.layers:
        pos = kv.pos.expand(kv.k.shape[0], -1)
        held = torch.ones_like(pos, dtype=torch.bool) if kv.log_w is None else ~torch.isneginf(kv.log_w)
        found.append([row[mask].tolist() for row, mask in zip(pos, held.expand_as(pos), strict=True)])
    return found


POLICIES = [
    policy(),
    policy("snapkv", "50%"),
    policy("poisson:h2o", 24),
    policy("tova", 16),
    policy("pivotal:snapkv", 20, heads="adaptive"),
    policy("snapkv", 20, layers="pyramid"),
    policy("kvzip", 20),
    policy("pivotal:kvzip", 24, heads="adaptive", stretch=16),
]


@pytest.mark.parametrize("evict", POLICIES, ids=lambda evict: evict.name)
def test_alone_packed_and_shared_are_the_same(engine: Engine, evict: Policy) -> None:
    wanted = evicting(1, evict)
    (alone,) = run(engine, wanted)
    others = [evicting(2, policy("streaming")), evicting(3), evicting(4, policy(), size=33)]
    packed = run(engine, *others, wanted)[-1]
    (fanned, full) = engine.fan_out([wanted, replace(wanted, evict=None)])
    assert kept(alone) == kept(packed)
    assert alone.ids == packed.ids == list(fanned.answer.ids)
    assert alone.keeper.evictions[0].num_evicted == packed.keeper.evictions[0].num_evicted > 0
    assert full.answer.ids == engine.generate([replace(wanted, evict=None)])[0].ids


def test_the_first_token_comes_from_the_whole_cache(engine: Engine) -> None:
    for evict in POLICIES:
        (alone, full) = run(engine, evicting(1, evict), evicting(1))
        assert alone.ids[0] == full.ids[0]


@pytest.mark.parametrize("name", ["snapkv", "poisson:snapkv", "systematic:question"])
@pytest.mark.parametrize("budget", ["100%", SIZE, 10_000])
def test_a_budget_of_everything_changes_nothing(engine: Engine, name: str, budget: int | str) -> None:
    (whole, full) = run(engine, evicting(1, policy(name, budget)), evicting(1))
    assert whole.ids == full.ids
    assert (whole.keeper.evictions, whole.keeper.certificates) == ([], [])
    for mine, theirs in zip(whole.state.layers, full.state.layers, strict=True):
        assert torch.equal(mine.k, theirs.k)


def test_seeds_draw_differently_and_repeatably(engine: Engine) -> None:
    draws = [kept(run(engine, evicting(1, policy(), seed=seed))[0]) for seed in (5, 5, 6)]
    assert draws[0] == draws[1] != draws[2]


@pytest.mark.parametrize("name", ["snapkv", "systematic:snapkv", "h2o"])
def test_compressed_before_the_question_exists(engine: Engine, name: str) -> None:
    evict = policy(name, 20, moment="context")
    first, second = evicting(1, evict), evicting(1, evict)
    ids = second.prompt.ids.clone()
    ids[-8:] = torch.tensor(random_ids(9, 8))
    second = replace(second, prompt=replace(second.prompt, ids=ids))
    one, two = run(engine, first, second)
    context = SIZE - 8
    for mine, theirs in zip(kept(one), kept(two), strict=True):
        for head, other in zip(mine, theirs, strict=True):
            assert [place for place in head if place < context] == [place for place in other if place < context]
            assert len([place for place in head if place < context]) == 20
            assert [place for place in head if place >= context] == list(range(context, SIZE + 11))
    assert one.ids != two.ids
    assert one.rows_per_layer == (SIZE,) * NUM_LAYERS
    assert [each.num_seen for each in one.keeper.evictions] == [context]


@pytest.mark.parametrize("name", ["snapkv", "poisson:snapkv", "systematic:h2o"])
def test_read_in_blocks_no_layer_holds_more_than_budget_and_block(engine: Engine, name: str) -> None:
    evict = policy(name, 20, block=8)
    batch = Batch(engine.adapter, engine.tokenizer, engine.end_tokens)
    sequence = batch.add(evicting(1, evict))
    most = 0
    while not batch.idle:
        (took,) = batch.step() or [sequence]
        assert took is sequence
        if not sequence.finish_reason:
            most = max(most, *(len(head) for layer in kept(sequence) for head in layer))
    assert sequence.error is None
    assert len(sequence.ids) == 12
    assert sequence.rows_per_layer == (SIZE,) * NUM_LAYERS
    room = 8 if name != "poisson:snapkv" else 20
    assert most <= 20 + room + 12
    assert sequence.keeper.most_bytes < run(engine, evicting(1))[0].state.nbytes
    counts = [each.num_seen for each in sequence.keeper.evictions]
    assert counts == sorted(counts)
    assert counts[-1] == SIZE


def test_one_block_is_the_whole_prompt(engine: Engine) -> None:
    at_once, blocks = run(engine, evicting(1, policy()), evicting(1, policy(block=SIZE)))
    assert kept(at_once) == kept(blocks)
    assert at_once.ids == blocks.ids


@pytest.mark.parametrize("name", ["snapkv", "tova", "systematic:snapkv", "h2o"])
def test_compressed_while_decoding(engine: Engine, name: str) -> None:
    evict = policy(name, 20, every=5)
    (sequence,) = run(engine, evicting(1, evict, max_tokens=30))
    seen = [each.num_seen for each in sequence.keeper.evictions]
    assert seen == [SIZE, *range(SIZE + 5, SIZE + 30, 5)]
    for each in sequence.keeper.evictions:
        assert bool((each.rows_after == 20).all())
        assert bool((each.rows_before <= max(SIZE, 25)).all())
    assert all(len(head) <= 25 for layer in kept(sequence) for head in layer)
    if name.startswith("systematic"):
        assert len(sequence.keeper.certificates) == 29


def test_certificates_are_there_for_every_step_layer_and_head(engine: Engine) -> None:
    heads = engine.adapter.num_heads
    (sequence,) = run(engine, evicting(1, policy()))
    assert len(sequence.keeper.certificates) == 11
    for step in sequence.keeper.certificates:
        assert step.radius.shape == (NUM_LAYERS, heads, 1)
        assert bool((step.radius > 0).all())
        assert bool(torch.isfinite(step.radius).all())
    (silent,) = run(engine, evicting(1, policy(certify=False)))
    assert silent.ids == sequence.ids
    assert (silent.keeper.certificates, silent.keeper.witness) == ([], None)
    for evict in (policy("snapkv"), policy(estimator="plug-in")):
        assert run(engine, evicting(1, evict))[0].keeper.certificates == []
    (stream,) = run(engine, evicting(1, policy("systematic:snapkv", moment="context")))
    (read,) = stream.keeper.read
    assert read.radius.shape == (NUM_LAYERS, heads, 8)
    assert len(stream.keeper.certificates) == 11


def test_given_tokens_are_read_over_what_is_left(engine: Engine) -> None:
    wanted = evicting(1, policy())
    (sequence,) = run(engine, wanted)
    (score,) = engine.score([wanted], [sequence.ids])
    assert score.greedy == (True,) * len(sequence.ids)
    (outcome,) = engine.fan_out([wanted], sequence.ids)
    assert outcome.reference_logprobs == pytest.approx(score.logprobs, abs=1e-4)
    parts = evicting(1, policy("snapkv", moment="context"))
    (sequence,) = run(engine, parts)
    (score,) = engine.score([parts], [sequence.ids])
    assert all(score.greedy)


def test_pruned_and_evicted(engine: Engine) -> None:
    for prune in (
        StaticPrune("50%", layer=2),
        LazyLLM({2: 0.5}, aux="off", selection="prefill", profile=None, shortest=1),
    ):
        (sequence,) = run(engine, replace(evicting(1, policy("systematic:snapkv")), prune=prune))
        assert all(len(head) == 20 + 11 for layer in kept(sequence) for head in layer)
        assert sequence.rows_per_layer[-1] < SIZE


def test_what_is_refused_before_anything_runs(engine: Engine) -> None:
    lazy = LazyLLM({2: 0.5}, profile=None, shortest=1)
    for wanted, words in (
        (evicting(1, policy(budget=5)), "at least 7"),
        (evicting(1, policy("snapkv", budget=5)), "at least 6"),
        (evicting(1, policy(budget="5%")), "at least 7"),
        (replace(evicting(1, policy()), prune=lazy), "can come back"),
        (replace(evicting(1, policy(block=8)), prune=StaticPrune("50%", layer=2)), "the whole prompt at once"),
        (replace(evicting(1, policy(moment="context")), prune=StaticPrune("50%", layer=2)), "whole prompt at once"),
    ):
        with pytest.raises(BadInput, match=words):
            engine.generate([wanted])
    with pytest.raises(BadInput, match="every"):
        engine.score([evicting(1, policy(every=4))], [[5]])
    with pytest.raises(BadInput, match="evict"):
        replace(evicting(1), evict="snapkv")
    with pytest.raises(BadInput, match="evict"):
        engine.diagnose(replace(evicting(1, policy()), prune=StaticPrune("50%", layer=2)))


def test_a_failing_score_takes_only_its_own_request_along(engine: Engine) -> None:
    class Broken:
        name, needs, gathers = "broken", policy().score.needs, False

        def __call__(self, view: object) -> torch.Tensor:
            raise RuntimeError("the score broke")

        def describe(self) -> dict[str, str]:
            return {}

    wanted = [evicting(1), evicting(2, replace(policy(), score=Broken())), evicting(3, policy())]
    with pytest.raises(RuntimeError, match="the score broke") as caught:
        engine.generate(wanted)
    answers = caught.value.answers
    assert answers[1] is None
    assert answers[0].ids == engine.generate([wanted[0]])[0].ids
    assert answers[2].ids == engine.generate([wanted[2]])[0].ids
