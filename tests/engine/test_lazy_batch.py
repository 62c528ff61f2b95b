"""LazyLLM among other requests: each gets what it gets alone, in a batch, a stream, sampled, scored, fanned out."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tinytext import NUM_LAYERS, make_engine, random_ids, request

from fewer import Answer, EndsPrune, Engine, LazyLLM, NonFiniteError, Prompt, Request, Sampling, StaticPrune
from fewer.engine.batch import Batch
from fewer.engine.engine import Stream
from fewer.engine.sequence import Sequence
from fewer.types import Observation, Plan
from tolerances import FP32


def lazy(schedule: object, **switches: Any) -> LazyLLM:
    return LazyLLM(schedule, **{"shortest": 0, "profile": None, **switches})


PAPER = {"revive_limit": None, "revive_floor": 0}
POOL = {
    "full": request(random_ids(10, 17)),
    "static": request(random_ids(17, 40), StaticPrune(0.3)),
    "paper": request(random_ids(1, 40), lazy({1: 20, 2: 12, 3: 6}, **PAPER), ignore_eos=True),
    "paper, another schedule": request(random_ids(1, 40), lazy("2:20%", **PAPER), ignore_eos=True),
    "as it comes": request(random_ids(2, 55), lazy("aggressive"), ignore_eos=True),
    "limited": request(random_ids(3, 33), lazy("1:40%, 3:20%", revive_limit=1, revive_floor=0.2), ignore_eos=True),
    "recompute": request(random_ids(4, 29), lazy({1: 9, 3: 4}, aux="recompute", **PAPER), ignore_eos=True),
    "off": request(random_ids(5, 61), lazy("2:30%", revive=False), ignore_eos=True),
    "by the prefill": request(random_ids(6, 25), lazy({1: 9, 3: 4}, selection="prefill", revive_limit=3)),
    "sampled": request(random_ids(7, 38), lazy({2: 9}, **PAPER), temperature=1.0, seed=1, ignore_eos=True),
    "another seed": request(random_ids(7, 38), lazy({2: 9}, **PAPER), temperature=1.0, seed=2, ignore_eos=True),
    "one token": request([5], lazy({1: "50%"}), ignore_eos=True),
    "one answer token": request(random_ids(8, 22), lazy({3: 5}), max_tokens=1),
    "declined": request(random_ids(9, 31), LazyLLM(profile=None)),
}


@pytest.fixture(scope="module")
def alone(engine: Engine) -> dict[str, Answer]:
    """Everyone's answer without company."""
    return {name: engine.generate([one])[0] for name, one in POOL.items()}


def same(answer: Answer, other: Answer) -> None:
    """The tokens, and all that is not about time and company."""
    assert (answer.ids, answer.text, answer.finish_reason) == (other.ids, other.text, other.finish_reason)
    one, two = answer.receipt, other.receipt
    assert (one.plans, one.computed, one.revival, one.bypass) == (two.plans, two.computed, two.revival, two.bypass)
    assert (one.prompt, one.memory.kv_bytes_per_layer) == (two.prompt, two.memory.kv_bytes_per_layer)


def test_the_pool_brings_tokens_back_and_its_calls_are_clear(alone: dict[str, Answer]) -> None:
    revived = {name: answer.receipt.revival.num_revived for name, answer in alone.items() if answer.receipt.revival}
    assert set(POOL) - set(revived) == {"full", "static", "one token", "declined"}
    assert {name for name, count in revived.items() if not count} <= {"off", "one answer token", "as it comes"}
    assert min(answer.receipt.output.min_margin for answer in alone.values()) > 10 * FP32
    assert alone["sampled"].ids != alone["another seed"].ids


@pytest.mark.parametrize("max_running", [1, 2, 5, 32])
@pytest.mark.parametrize("backwards", [False, True])
def test_everyone_gets_what_they_get_alone(
    engine: Engine, alone: dict[str, Answer], max_running: int, backwards: bool
) -> None:
    names = list(POOL)[:: -1 if backwards else 1]
    for name, answer in zip(
        names, engine.generate([POOL[name] for name in names], max_running=max_running), strict=True
    ):
        same(answer, alone[name])


@given(
    arrivals=st.lists(st.tuples(st.sampled_from(list(POOL)), st.integers(0, 15)), min_size=1, max_size=7),
    leavers=st.lists(st.tuples(st.integers(0, 6), st.integers(0, 15)), max_size=3),
    max_rows=st.sampled_from([1, 45, 100, 8192]),
)
@settings(max_examples=25, deadline=None, derandomize=True)
def test_joining_and_leaving_at_any_step(
    engine: Engine,
    alone: dict[str, Answer],
    arrivals: list[tuple[str, int]],
    leavers: list[tuple[int, int]],
    max_rows: int,
) -> None:
    batch = Batch(engine.adapter, engine.tokenizer, engine.end_tokens, max_rows=max_rows)
    sequences: dict[int, Sequence] = {}
    step = 0
    while step <= 15 or not batch.idle:
        for number, (name, when) in enumerate(arrivals):
            if when == step:
                sequences[number] = batch.add(POOL[name])
        for number, when in leavers:
            if when == step and number in sequences and not sequences[number].finish_reason:
                batch.cancel(sequences[number])
        batch.step()
        step += 1
    for number, sequence in sequences.items():
        expected = alone[arrivals[number][0]]
        if sequence.finish_reason == "cancelled":
            assert sequence.ids == list(expected.ids[: len(sequence.ids)])
        else:
            same(engine._answer(sequence), expected)


@pytest.mark.parametrize("name", ["paper", "recompute", "sampled", "by the prefill", "declined", "one answer token"])
def test_a_stream_gives_the_answer(engine: Engine, alone: dict[str, Answer], name: str) -> None:
    stream = Stream(engine, POOL[name], time.perf_counter(), None)
    assert "".join(stream) == alone[name].text
    same(stream.answer, alone[name])


@pytest.mark.parametrize("pieces", [0, 1, 3])
def test_a_stream_that_is_cancelled_has_an_honest_receipt(
    engine: Engine, alone: dict[str, Answer], pieces: int
) -> None:
    whole = alone["paper"]
    with Stream(engine, POOL["paper"], time.perf_counter(), None) as stream:
        for _ in zip(range(pieces), stream, strict=False):
            pass
    answer = stream.answer
    assert answer.finish_reason == "cancelled"
    assert answer.ids == whole.ids[: len(answer.ids)]
    assert len(answer.ids) < len(whole.ids)
    steps = max(0, len(answer.ids) - 1)
    assert answer.receipt.computed.decode_steps == steps
    assert bool(answer.receipt.revival) == bool(pieces)
    if pieces:
        assert answer.receipt.revival.revived_per_step == whole.receipt.revival.revived_per_step[:steps]
        assert answer.receipt.revival.active_per_step == whole.receipt.revival.active_per_step[:steps]


def test_threads_do_not_disturb_each_other(engine: Engine, alone: dict[str, Answer]) -> None:
    names = [name for name in POOL for _ in range(3)]
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda name: engine.generate([POOL[name]])[0], names))
    for name, answer in zip(names, answers, strict=True):
        same(answer, alone[name])


REFERENCE = random_ids(90, 9)


def ways() -> list[Request]:
    prompt = Prompt.from_ids(random_ids(10, 37), sinks=2)
    planners = (
        *(None, StaticPrune(0.5), lazy({1: 15, 3: 8}, **PAPER), lazy({3: 8}, aux="recompute", **PAPER)),
        *(lazy({2: 9}, revive=False), lazy({2: 9}, selection="prefill"), EndsPrune(0.5), lazy({1: 15, 3: 8}, **PAPER)),
    )
    return [Request(prompt, Sampling(max_tokens=12, ignore_eos=True), planner) for planner in planners]


def test_fanning_out_gives_everyone_what_they_get_alone(engine: Engine) -> None:
    requests = ways()
    scores = engine.score(requests, [REFERENCE] * len(requests))
    for one, outcome, score in zip(requests, engine.fan_out(requests, REFERENCE), scores, strict=True):
        assert outcome.error is None
        same(outcome.answer, engine.generate([one])[0])
        assert outcome.reference_logprobs == pytest.approx(score.logprobs, abs=FP32)


def test_a_score_reads_token_by_token_what_an_answer_would(engine: Engine) -> None:
    for one in ways():
        (answer,) = engine.generate(
            [Request(one.prompt, Sampling(max_tokens=12, ignore_eos=True, logprobs=0), one.prune)]
        )
        (score,) = engine.score([one], [answer.ids])
        assert score.logprobs == pytest.approx([entry.logprob for entry in answer.logprobs], abs=FP32)
        assert all(score.greedy)
        assert score.receipt.computed == answer.receipt.computed
        assert score.receipt.revival == answer.receipt.revival


def test_scores_that_share_a_prefill_choose_for_themselves(engine: Engine) -> None:
    prompt = Prompt.from_ids(random_ids(10, 37), sinks=2)
    one = Request(prompt, prune=lazy({1: 15, 3: 8}, **PAPER))
    rests = [random_ids(91, 9), random_ids(92, 14), random_ids(93, 1)]
    together = engine.score([one] * 3, rests)
    for rest, score in zip(rests, together, strict=True):
        (single,) = engine.score([one], [rest])
        assert score.logprobs == pytest.approx(single.logprobs, abs=FP32)
        assert score.receipt.revival == single.receipt.revival
        assert score.receipt.computed == single.receipt.computed
        assert score.receipt.run.shared_prefill
    assert together[0].receipt.revival.num_revived > 0


def test_with_eight_bit_weights(device: torch.device) -> None:
    engine = make_engine(device, weights="int8")
    names = ["paper", "recompute", "sampled", "by the prefill"]
    for name, answer in zip(names, engine.generate([POOL[name] for name in names]), strict=True):
        same(answer, engine.generate([POOL[name]])[0])
    everything = request(random_ids(1, 40), lazy({1: "100%", 3: "100%"}), ignore_eos=True)
    full = request(random_ids(1, 40), ignore_eos=True)
    assert engine.generate([everything])[0].ids == engine.generate([full])[0].ids


class Faulty:
    """LazyLLM that raises at a step."""

    def __init__(self, planner: LazyLLM, step: int) -> None:
        self.planner, self.step = planner, step

    def __getattr__(self, name: str) -> Any:
        if name == "fitted":
            raise AttributeError
        return getattr(self.planner, name)

    def after(self, seen: Observation) -> Plan | None:
        if seen.step == self.step:
            raise RuntimeError("the planner broke")
        return self.planner.after(seen)


@pytest.mark.parametrize("step", [0, 1, 4])
def test_a_planner_that_raises_at_a_step_fails_alone(engine: Engine, alone: dict[str, Answer], step: int) -> None:
    names = ["paper", "recompute", "sampled", "full"]
    faulty = request(random_ids(5, 30), Faulty(lazy({1: 15, 3: 8}, **PAPER), step), ignore_eos=True)
    with pytest.raises(RuntimeError, match="the planner broke") as caught:
        engine.generate([*(POOL[name] for name in names[:2]), faulty, *(POOL[name] for name in names[2:])])
    answers = caught.value.answers
    assert answers.pop(2) is None
    for name, answer in zip(names, answers, strict=True):
        same(answer, alone[name])


@pytest.mark.parametrize("layer", [1, 2, 4])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_broken_weights_are_named_as_without_pruning(device: torch.device, layer: int, value: float) -> None:
    def poison(model: torch.nn.Module) -> None:
        model.model.layers[layer - 1].mlp.down_proj.weight.view(-1)[5] = value

    engine = make_engine(device, poison)
    messages = set()
    for planner in (None, lazy({1: 9}), lazy({2: 9, 3: 5}, **PAPER), lazy({3: 2}, revive=False)):
        with pytest.raises(NonFiniteError) as caught:
            engine.generate([request(random_ids(1, 20), planner)])
        messages.add(str(caught.value))
    (message,) = messages
    assert (
        f"after 0 generated tokens; the first NaN or infinite number appears in layer {layer} of {NUM_LAYERS}"
        in message
    )


def test_numbers_that_break_at_a_later_step_are_named_as_without_pruning(device: torch.device) -> None:
    ids = random_ids(1, 40)
    for planner in (None, lazy({1: 20, 2: 12, 3: 6}, **PAPER)):
        answer = make_engine(device).generate([request(ids, planner, ignore_eos=True)])[0]
        token = next(token for token in answer.ids[2:] if token not in ids)
        count = answer.ids.index(token) + 1
        engine = make_engine(device, lambda model, token=token: model.model.embed_tokens.weight[token].fill_(torch.inf))
        with pytest.raises(NonFiniteError, match=f"after {count} generated tokens.* in the embedding"):
            engine.generate([request(ids, planner, ignore_eos=True)])
