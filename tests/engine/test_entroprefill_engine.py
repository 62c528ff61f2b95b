"""EntroPrefill among other requests: each gets what it gets alone, packed, streamed, sampled, scored, fanned out."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from entro_requests import ask, chunked, entro
from hypothesis import given, settings
from hypothesis import strategies as st
from tinytext import NUM_LAYERS, make_engine, random_ids

from fewer import (
    Answer,
    Engine,
    EntroPrefill,
    LazyLLM,
    NonFiniteError,
    StaticPrune,
)
from fewer.engine.batch import Batch
from fewer.engine.engine import Stream
from fewer.engine.sequence import Sequence
from fewer.types import Observation
from tolerances import FP32

POOL = {
    "full": ask(chunked(10), None),
    "static": ask(chunked(17), StaticPrune(0.5)),
    "lazy": ask(chunked(18), LazyLLM("1:60%, 3:40%", shortest=0, profile=None)),
    "after 1": ask(chunked(9), entro(monitor="1:all")),
    "after 2": ask(chunked(2), entro(monitor="2:all")),
    "after 3": ask(chunked(3), entro(monitor="3:all")),
    "as it comes": ask(chunked(4, (5, 8, 11, 4, 6)), entro(keep_at_most="95%")),
    "sampled observers": ask(chunked(5), entro(choose_observers="sample", seed=4)),
    "infeasible": ask(chunked(6), entro(tolerance=0.01)),
    "hoeffding": ask(chunked(7), entro(audit="hoeffding", audit_draws=8)),
    "sampled": ask(chunked(8), entro(), temperature=1.0, seed=1),
    "another seed": ask(chunked(8), entro(), temperature=1.0, seed=2),
    "short": ask(chunked(9), entro(shortest=256)),
    "one answer token": ask(chunked(8), entro(), max_tokens=1),
}
BYPASSED = {"infeasible", "hoeffding", "short"}


@pytest.fixture(scope="module")
def alone(engine: Engine) -> dict[str, Answer]:
    """Everyone's answer without company."""
    return {name: engine.generate([one])[0] for name, one in POOL.items()}


def same(answer: Answer, other: Answer) -> None:
    """The tokens, and all that is not about time and company."""
    assert (answer.ids, answer.text, answer.finish_reason) == (other.ids, other.text, other.finish_reason)
    one, two = answer.receipt, other.receipt
    assert (one.computed, one.revival, one.bypass, one.prompt) == (two.computed, two.revival, two.bypass, two.prompt)
    assert one.memory.kv_bytes_per_layer == two.memory.kv_bytes_per_layer
    for mine, theirs in zip(one.plans, two.plans, strict=True):
        rounded = {"bound": 0.0, "dual_gap": 0.0}
        assert mine.model_copy(update=rounded) == theirs.model_copy(update=rounded)
    for mine, theirs in zip(one.decisions, two.decisions, strict=True):
        assert (mine.layer, mine.outcome) == (theirs.layer, theirs.outcome)
        for name, value in mine.numbers.items():
            assert (
                name.endswith("seconds")
                or name == "audit_worst_head"
                or value == pytest.approx(theirs.numbers[name], abs=1e-3)
            )


def test_the_pool_prunes_at_different_layers_and_its_calls_are_clear(alone: dict[str, Answer]) -> None:
    planned = {name: [plan.layer for plan in answer.receipt.plans] for name, answer in alone.items()}
    assert {name for name, layers in planned.items() if not layers} == {"full", *BYPASSED}
    assert (planned["after 1"], planned["after 2"], planned["after 3"]) == ([1], [2], [3])
    assert min(answer.receipt.output.min_margin for answer in alone.values()) > 10 * FP32
    assert alone["sampled"].ids != alone["another seed"].ids


@pytest.mark.parametrize("max_running", [1, 5, 32])
@pytest.mark.parametrize("backwards", [False, True])
def test_everyone_gets_what_they_get_alone(
    engine: Engine, alone: dict[str, Answer], max_running: int, backwards: bool
) -> None:
    names = list(POOL)[:: -1 if backwards else 1]
    answers = engine.generate([POOL[name] for name in names], max_running=max_running)
    for name, answer in zip(names, answers, strict=True):
        same(answer, alone[name])


@given(
    arrivals=st.lists(st.tuples(st.sampled_from(list(POOL)), st.integers(0, 9)), min_size=1, max_size=6),
    leavers=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 9)), max_size=2),
    max_rows=st.sampled_from([1, 60, 8192]),
)
@settings(max_examples=10, deadline=None, derandomize=True)
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
    while step <= 9 or not batch.idle:
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


@pytest.mark.parametrize("name", ["after 1", "sampled", "infeasible", "short", "one answer token"])
def test_a_stream_gives_the_answer(engine: Engine, alone: dict[str, Answer], name: str) -> None:
    stream = Stream(engine, POOL[name], time.perf_counter(), None)
    assert "".join(stream) == alone[name].text
    same(stream.answer, alone[name])


def test_a_stream_that_is_cancelled_keeps_its_decisions(engine: Engine, alone: dict[str, Answer]) -> None:
    with Stream(engine, POOL["after 2"], time.perf_counter(), None) as stream:
        next(iter(stream))
    receipt = stream.answer.receipt
    assert stream.answer.finish_reason == "cancelled"
    assert [plan.layer for plan in receipt.plans] == [2]
    assert [decision.outcome for decision in receipt.decisions] == ["accepted"]
    unread = Stream(engine, POOL["after 2"], time.perf_counter(), None)
    unread.close()
    assert unread.answer.receipt.decisions == ()
    assert unread.answer.receipt.bypass == ("the request ended before it ran",)


def test_threads_do_not_disturb_each_other(engine: Engine, alone: dict[str, Answer]) -> None:
    names = list(POOL)
    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda name: engine.generate([POOL[name]])[0], names))
    for name, answer in zip(names, answers, strict=True):
        same(answer, alone[name])


def test_fanning_out_and_scoring_give_everyone_what_they_get_alone(engine: Engine) -> None:
    prompt, reference = chunked(21), random_ids(90, 7)
    planners = (
        *(None, entro(), entro(monitor="3:all"), entro(tolerance=0.01), entro(shortest=99), StaticPrune(0.5)),
        *(entro(keep="70%", order="entropy"), entro(monitor="2:0+2", mass="absolute"), LazyLLM("2:30%", shortest=0)),
    )
    requests = [ask(prompt, planner) for planner in planners]
    scores = engine.score(requests, [reference] * len(requests))
    pruned = 0
    for one, outcome, score in zip(requests, engine.fan_out(requests, reference), scores, strict=True):
        assert outcome.error is None
        expected = engine.generate([one])[0]
        same(outcome.answer, expected)
        assert outcome.reference_logprobs == pytest.approx(score.logprobs, abs=FP32)
        assert [decision.outcome for decision in score.receipt.decisions] == [
            decision.outcome for decision in expected.receipt.decisions
        ]
        pruned += any(decision.outcome == "accepted" for decision in score.receipt.decisions)
    assert pruned >= 4


def test_with_eight_bit_weights(device: torch.device) -> None:
    engine = make_engine(device, weights="int8")
    names = ["after 1", "after 3", "sampled", "infeasible"]
    for name, answer in zip(names, engine.generate([POOL[name] for name in names]), strict=True):
        same(answer, engine.generate([POOL[name]])[0])


class Faulty:
    """EntroPrefill that raises after a layer."""

    def __init__(self, planner: EntroPrefill, fails_after: int) -> None:
        self.planner, self.fails_after = planner, fails_after

    def __getattr__(self, name: str) -> Any:
        return getattr(self.planner, name)

    def fitted(self, facts: Any) -> Faulty:
        return Faulty(self.planner.fitted(facts), self.fails_after)

    def after(self, seen: Observation) -> object:
        if seen.layer == self.fails_after:
            raise RuntimeError("the planner broke")
        return self.planner.after(seen)


def test_a_planner_that_raises_fails_alone(engine: Engine, alone: dict[str, Answer]) -> None:
    names = ["after 1", "after 3", "full"]
    faulty = ask(chunked(5), Faulty(entro(monitor="2:all"), 2))
    with pytest.raises(RuntimeError, match="the planner broke") as caught:
        engine.generate([POOL[names[0]], faulty, *(POOL[name] for name in names[1:])])
    answers = caught.value.answers
    assert answers.pop(1) is None
    for name, answer in zip(names, answers, strict=True):
        same(answer, alone[name])


@pytest.mark.parametrize("layer", [1, 2, 4])
def test_broken_weights_are_named_as_without_pruning(device: torch.device, layer: int) -> None:
    def poison(model: torch.nn.Module) -> None:
        model.model.layers[layer - 1].mlp.down_proj.weight.view(-1)[5] = float("nan")

    engine, messages = make_engine(device, poison), set()
    for planner in (None, entro(), entro(monitor="2:all"), entro(monitor="3:all", audit="off", audit_tolerance=None)):
        with pytest.raises(NonFiniteError) as caught:
            engine.generate([ask(chunked(1), planner)])
        messages.add(str(caught.value))
    (message,) = messages
    assert f"the first NaN or infinite number appears in layer {layer} of {NUM_LAYERS}" in message
