"""Many requests at once: each gets the tokens it gets alone, whoever the neighbours are, whenever they come and go."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tinytext import TURN_ID, random_ids, request

from fewer import Answer, EndsPrune, Engine, RandomPrune, Request, StaticPrune
from fewer.engine.batch import Batch
from fewer.engine.sequence import Sequence
from fewer.kv import State
from fewer.model.forward import forward
from fewer.model.segment import Segment
from tolerances import FP32

POOL = {
    "greedy": request(random_ids(10, 17)),
    "one token": request([TURN_ID], max_tokens=20),
    "short answer": request(random_ids(11, 5), max_tokens=1),
    "sampled": request(random_ids(12, 30), temperature=1.0, seed=1),
    "same prompt, another seed": request(random_ids(12, 30), temperature=1.0, seed=2),
    "top-k": request(random_ids(13, 9), temperature=1.3, top_k=5, seed=3),
    "top-p and min-p": request(random_ids(14, 12), temperature=0.8, top_p=0.9, min_p=0.02, seed=4),
    "penalised": request(random_ids(15, 25), repetition_penalty=1.5),
    "penalised and sampled": request(random_ids(16, 8), repetition_penalty=1.2, temperature=0.7, seed=5),
    "stop string": request(random_ids(10, 17), stop=("\ufffd", "q")),
    "static": request(random_ids(17, 40), StaticPrune(0.3)),
    "static, late, by chunk": request(random_ids(18, 33), StaticPrune(0.6, 3, "chunk")),
    "random": request(random_ids(19, 26), RandomPrune(9), seed=6),
    "random after a layer": request(random_ids(20, 50), RandomPrune(0.5, 2), temperature=0.9, seed=7),
    "ends": request(random_ids(21, 20), EndsPrune(0.5)),
    "ends, two rows left": request(random_ids(22, 35), EndsPrune(1, 1)),
    "all kept": request(random_ids(23, 15), StaticPrune("100%")),
}


@pytest.fixture(scope="module")
def alone(engine: Engine) -> dict[str, Answer]:
    """Everyone's answer without company."""
    return {name: engine.generate([one])[0] for name, one in POOL.items()}


def new_batch(engine: Engine, **limits: int) -> Batch:
    return Batch(engine.adapter, engine.tokenizer, engine.end_tokens, **limits)


def check(sequence: Sequence, answer: Answer) -> None:
    assert (tuple(sequence.ids), sequence.text.text) == (answer.ids, answer.text)
    assert sequence.finish_reason == answer.finish_reason


def test_no_call_is_so_close_that_rounding_could_turn_it(alone: dict[str, Answer]) -> None:
    assert min(answer.receipt.output.min_margin for answer in alone.values()) > 10 * FP32


@pytest.mark.parametrize("max_running", [1, 2, 5, 32])
@pytest.mark.parametrize("backwards", [False, True])
def test_everyone_gets_the_answer_they_get_alone(
    engine: Engine, alone: dict[str, Answer], max_running: int, backwards: bool
) -> None:
    names = list(POOL)[:: -1 if backwards else 1]
    answers = engine.generate([POOL[name] for name in names], max_running=max_running)
    for name, answer in zip(names, answers, strict=True):
        assert (answer.text, answer.ids, answer.finish_reason) == (
            *(alone[name].text, alone[name].ids, alone[name].finish_reason),
        ), name
        assert (answer.receipt.plans, answer.receipt.computed) == (
            alone[name].receipt.plans,
            alone[name].receipt.computed,
        )
        assert answer.receipt.run.batch_mates <= max_running - 1
        assert answer.receipt.memory.kv_bytes_per_layer == alone[name].receipt.memory.kv_bytes_per_layer


def test_log_probabilities_in_company_are_within_the_tolerance(engine: Engine, fp32: float) -> None:
    requests = [request(random_ids(30 + size, size), logprobs=5, ignore_eos=True) for size in (1, 4, 9, 27, 60)]
    requests.append(request(random_ids(36, 44), StaticPrune(0.4), logprobs=5, ignore_eos=True))
    for one, together in zip(requests, engine.generate(requests), strict=True):
        (by_itself,) = engine.generate([one])
        for ours, theirs in zip(together.logprobs, by_itself.logprobs, strict=True):
            assert ours.token == theirs.token
            assert ours.logprob == pytest.approx(theirs.logprob, abs=fp32)
            assert [value for _, value in ours.top] == pytest.approx([value for _, value in theirs.top], abs=fp32)


def test_logits_in_company_are_within_the_tolerance(engine: Engine, fp32: float) -> None:
    prompts = [torch.tensor(random_ids(40 + size, size)) for size in (1, 2, 5, 31, 64)]
    together = [Segment(State.new(engine.adapter.num_layers), ids, logits="all") for ids in prompts]
    for ids, logits in zip(prompts, forward(engine.adapter, together), strict=True):
        (single,) = forward(engine.adapter, [Segment(State.new(engine.adapter.num_layers), ids, logits="all")])
        torch.testing.assert_close(logits, single, rtol=0, atol=fp32)


@given(
    arrivals=st.lists(st.tuples(st.sampled_from(list(POOL)), st.integers(0, 25)), min_size=1, max_size=8),
    leavers=st.lists(st.tuples(st.integers(0, 7), st.integers(0, 25)), max_size=3),
    max_running=st.integers(1, 6),
    max_rows=st.sampled_from([1, 20, 60, 8192]),
)
@settings(max_examples=60, deadline=None, derandomize=True)
def test_joining_and_leaving_at_any_step(
    engine: Engine,
    alone: dict[str, Answer],
    arrivals: list[tuple[str, int]],
    leavers: list[tuple[int, int]],
    max_running: int,
    max_rows: int,
) -> None:
    batch = new_batch(engine, max_running=max_running, max_rows=max_rows)
    sequences: dict[int, Sequence] = {}
    given_up: dict[int, int] = {}
    step = 0
    while step <= 25 or not batch.idle:
        for number, (name, when) in enumerate(arrivals):
            if when == step:
                sequences[number] = batch.add(POOL[name])
        for number, when in leavers:
            if when == step and number in sequences and not sequences[number].finish_reason:
                batch.cancel(sequences[number])
                given_up[number] = len(sequences[number].ids)
        assert len(batch.step()) <= max_running
        step += 1
    for number, sequence in sequences.items():
        expected = alone[arrivals[number][0]]
        if number in given_up:
            assert sequence.finish_reason == "cancelled"
            assert sequence.ids == list(expected.ids[: given_up[number]])
            assert expected.text.startswith(sequence.text.text)
        else:
            check(sequence, expected)


def test_a_request_joins_as_soon_as_there_is_room(engine: Engine) -> None:
    batch = new_batch(engine, max_running=2)
    first, second, third = (
        batch.add(request(random_ids(seed, 6), max_tokens=size)) for seed, size in ((1, 2), (2, 5), (3, 1))
    )
    assert batch.step() == [first, second]
    assert batch.step() == [first, second]  # the first is done with this one
    assert batch.step() == [second, third]
    assert (first.most_mates, second.most_mates, third.most_mates) == (1, 1, 1)
    while not batch.idle:
        assert batch.step() == [second]
    assert [len(sequence.ids) for sequence in (first, second, third)] == [2, 5, 1]
    assert batch.step() == []


def test_prompts_are_let_in_while_their_rows_fit_into_a_pass(engine: Engine) -> None:
    batch = new_batch(engine, max_rows=20)
    long, short, last = (
        batch.add(request(random_ids(seed, size), max_tokens=3)) for seed, size in ((1, 30), (2, 8), (3, 19))
    )
    assert batch.step() == [long]  # too long for a pass, and let in because nothing else runs
    assert batch.step() == [long, short]
    assert batch.step() == [long, short]  # two rows and 19 more are too many
    assert batch.step() == [short, last]


def test_leaving_frees_the_place(engine: Engine) -> None:
    batch = new_batch(engine, max_running=1)
    first, second = batch.add(POOL["greedy"]), batch.add(POOL["sampled"])
    batch.step()
    batch.cancel(first)
    batch.cancel(first)
    assert (first.finish_reason, len(first.ids)) == ("cancelled", 1)
    assert batch.step() == [second]
    batch.cancel(second)
    assert batch.idle
    done = batch.add(POOL["short answer"])
    batch.step()
    batch.cancel(done)
    assert done.finish_reason == "length"  # it was over already


def test_a_request_that_cannot_run_is_refused_and_the_others_stay(engine: Engine, alone: dict[str, Answer]) -> None:
    batch = new_batch(engine)
    fine = batch.add(POOL["random"])
    with pytest.raises(ValueError, match="vocabulary"):
        batch.add(request([10**6]))
    assert list(batch.waiting) == [fine]
    while not batch.idle:
        batch.step()
    check(fine, alone["random"])


def test_random_pruning_depends_on_the_seed_and_not_on_the_company(engine: Engine) -> None:
    def kept(*requests: Request) -> list[int]:
        batch = new_batch(engine)
        sequences = [batch.add(one) for one in requests]
        batch.step()
        return sequences[-1].prefill.plans[0].keep.tolist()

    ids = random_ids(9, 40)
    ours, other = request(ids, RandomPrune(0.5), seed=5), request(ids, RandomPrune(0.5), seed=6)
    assert kept(ours) == kept(other, POOL["static"], ours) == kept(POOL["random"], POOL["random"], ours)
    assert kept(ours) != kept(other)
    assert kept(ours) != kept(request(ids, RandomPrune(0.5, 1), seed=5))
