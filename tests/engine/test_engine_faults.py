"""When something breaks in the middle: the one at fault fails, with a message, and nothing is left behind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from tinytext import NUM_LAYERS, make_engine, random_ids, request
from transformers import PreTrainedModel

from fewer import Answer, BadInput, Engine, NonFiniteError, Plan, RandomPrune, Request, StaticPrune
from fewer.engine.batch import Batch
from fewer.types import Observation, Prompt

NAN, INF = float("nan"), float("inf")


@dataclass
class Breaking:
    """A planner that raises after a layer."""

    layer: int
    error: BaseException
    name: str = "breaking"
    needs: str = "nothing"

    def layers(self, num_layers: int) -> tuple[int, ...]:
        return (self.layer,)

    def check(self, prompt: Prompt) -> None:
        pass

    def after(self, observation: Observation) -> Plan:
        raise self.error

    def describe(self) -> dict[str, str | int | float | None]:
        return {}


HEALTHY = [request(random_ids(1, 14), RandomPrune(0.5)), request(random_ids(2, 33)), request(random_ids(3, 4))]


@pytest.fixture(scope="module")
def expected(engine: Engine) -> list[Answer]:
    return [engine.generate([one])[0] for one in HEALTHY]


def bits(answers: list[Answer | None]) -> list:
    return [answer and (answer.ids, answer.text, answer.receipt.output) for answer in answers]


@pytest.mark.parametrize("layer", [0, 2, NUM_LAYERS])
@pytest.mark.parametrize("place", [0, 1, 3])
def test_a_planner_that_raises_fails_alone(engine: Engine, expected: list[Answer], layer: int, place: int) -> None:
    fault = RuntimeError("the planner broke")
    requests = [*HEALTHY[:place], request(random_ids(4, 20), Breaking(layer, fault)), *HEALTHY[place:]]
    with pytest.raises(RuntimeError, match="the planner broke") as caught:
        engine.generate(requests)
    assert caught.value is fault
    answers = caught.value.answers
    assert answers.pop(place) is None
    assert [answer.ids for answer in answers] == [answer.ids for answer in expected]
    assert bits([engine.generate([one])[0] for one in HEALTHY]) == bits(expected)


def test_a_planner_that_raises_while_others_decode(engine: Engine, expected: list[Answer]) -> None:
    batch = Batch(engine.adapter, engine.tokenizer, engine.end_tokens)
    healthy = [batch.add(one) for one in HEALTHY]
    batch.step()
    broken = batch.add(request(random_ids(4, 20), Breaking(1, RuntimeError("the planner broke"))))
    late = batch.add(HEALTHY[1])
    assert batch.step() == [*healthy, broken, late]
    assert (broken.ids, broken.finish_reason, str(broken.error)) == ([], "", "the planner broke")
    assert broken not in batch.running
    while not batch.idle:
        batch.step()
    assert [tuple(sequence.ids) for sequence in healthy] == [answer.ids for answer in expected]
    assert tuple(late.ids) == expected[1].ids


def test_a_plan_that_is_refused_fails_alone(engine: Engine, expected: list[Answer]) -> None:
    class Greedy(Breaking):
        def after(self, observation: Observation) -> Plan:
            return Plan(observation.layer, observation.pos[:1])

    with pytest.raises(BadInput, match="superset of the protected positions") as caught:
        engine.generate([*HEALTHY, request(random_ids(4, 20), Greedy(1, ValueError()))])
    assert [answer and answer.ids for answer in caught.value.answers] == [*(answer.ids for answer in expected), None]


def test_the_first_of_several_errors_is_raised(engine: Engine) -> None:
    faults = [Breaking(layer, RuntimeError(f"broke after {layer}")) for layer in (3, 1)]
    with pytest.raises(RuntimeError, match="broke after 3") as caught:
        engine.generate([request(random_ids(seed, 9), fault) for seed, fault in enumerate(faults)])
    assert caught.value.answers == [None, None]


@pytest.mark.parametrize("after", range(1, 10))
def test_ctrl_c_at_any_moment_of_a_stream(engine: Engine, expected: list[Answer], after: int) -> None:
    calls = []

    def progress(layer: int, layers: int) -> None:
        calls.append((layer, layers))
        if len(calls) == after:
            raise KeyboardInterrupt

    prompt_only = "Who?", ["hello world " * 3]
    whole = engine.ask(*prompt_only, max_tokens=3)
    stream = engine.stream(*prompt_only, max_tokens=3, progress=progress)
    if after <= NUM_LAYERS:
        with pytest.raises(KeyboardInterrupt):
            list(stream)
        assert (stream.answer.finish_reason, stream.answer.ids, stream.answer.text) == ("cancelled", (), "")
    else:  # the prefill is over: nothing is reported any more
        assert "".join(stream) == whole.text
        assert calls == [(layer, NUM_LAYERS) for layer in range(1, NUM_LAYERS + 1)]
    assert engine.ask(*prompt_only, max_tokens=3).ids == whole.ids
    assert bits([engine.generate([one])[0] for one in HEALTHY]) == bits(expected)


def test_ctrl_c_while_a_token_is_chosen(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = engine.stream("Who?", ["hello world"], max_tokens=8)
    whole = engine.ask("Who?", ["hello world"], max_tokens=8)
    pieces = iter(stream)
    first = next(pieces)
    count = len(stream._sequence.ids)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(stream._sequence.sampler, "choose", interrupt)
        with pytest.raises(KeyboardInterrupt):
            list(pieces)
    answer = stream.answer  # not continued: the key of a token that was never chosen is in its store
    assert (answer.finish_reason, answer.text, answer.ids) == ("cancelled", first, whole.ids[:count])


def test_ctrl_c_in_the_middle_of_many(engine: Engine, expected: list[Answer]) -> None:
    with pytest.raises(KeyboardInterrupt):
        engine.generate([*HEALTHY, request(random_ids(4, 20), Breaking(2, KeyboardInterrupt()))])
    batch = Batch(engine.adapter, engine.tokenizer, engine.end_tokens)
    sequences = [batch.add(one) for one in HEALTHY]
    batch.step()
    batch.add(request(random_ids(4, 20), Breaking(2, KeyboardInterrupt())))
    with pytest.raises(KeyboardInterrupt):
        batch.step()
    assert batch.idle
    assert {sequence.finish_reason for sequence in sequences} == {"cancelled"}
    assert bits([engine.generate([one])[0] for one in HEALTHY]) == bits(expected)


def poison(part: str, value: float) -> Callable[[PreTrainedModel], None]:
    def change(model: PreTrainedModel) -> None:
        model.get_parameter(part).view(-1)[5] = value

    return change


PLACES = [
    ("model.embed_tokens.weight", "in the embedding"),
    ("model.layers.0.self_attn.q_proj.weight", "in layer 1 of 4"),
    ("model.layers.1.self_attn.v_proj.weight", "in layer 2 of 4"),
    ("model.layers.2.mlp.down_proj.weight", "in layer 3 of 4"),
    ("model.layers.3.input_layernorm.weight", "in layer 4 of 4"),
    ("model.norm.weight", "in the output projection"),
    ("lm_head.weight", "in the output projection"),
]


@pytest.mark.parametrize(("part", "where"), PLACES, ids=[part for part, _ in PLACES])
@pytest.mark.parametrize("value", [NAN, INF, -INF])
def test_broken_weights_are_named(device: torch.device, part: str, where: str, value: float) -> None:
    engine = make_engine(device, poison(part, value))
    ids = [0, *random_ids(1, 20)]  # token 0 has the broken number in its embedding
    for prune in (None, StaticPrune(0.5), RandomPrune(0.5, 1)):
        with pytest.raises(NonFiniteError, match=f"after 0 generated tokens.* appears {where}") as caught:
            engine.generate([request(ids, prune)])
        assert "Check the weights" in str(caught.value)
        assert caught.value.exit_code == 3
    with pytest.raises(NonFiniteError, match=where):
        list(engine.stream("!", max_tokens=4))  # "!" is token 0


def test_numbers_that_leave_the_range_later_fail_alone(device: torch.device) -> None:
    healthy = make_engine(device)
    answer = healthy.generate([request(random_ids(1, 8), ignore_eos=True)])[0]
    token = next(token for token in answer.ids[2:] if token not in random_ids(1, 8))
    count = answer.ids.index(token) + 1
    engine = make_engine(device, lambda model: model.model.embed_tokens.weight[token].fill_(INF))
    other = [number for number in random_ids(2, 9) if number != token]
    with pytest.raises(NonFiniteError, match=f"after {count} generated tokens.* in the embedding") as caught:
        engine.generate([request(random_ids(1, 8), ignore_eos=True), request(other, max_tokens=1)])
    assert caught.value.answers[0] is None
    (undisturbed,) = healthy.generate([request(other, max_tokens=1)])
    assert (
        bits(caught.value.answers[1:]) == bits(engine.generate([request(other, max_tokens=1)])) == bits([undisturbed])
    )


def test_a_stream_keeps_raising_its_error(device: torch.device) -> None:
    engine = make_engine(device, poison("model.norm.weight", NAN))
    stream = engine.stream("Who?", max_tokens=4)
    for _ in range(2):
        with pytest.raises(NonFiniteError):
            list(stream)
        with pytest.raises(NonFiniteError):
            _ = stream.answer


def test_a_failed_request_holds_no_memory(engine: Engine) -> None:
    one: Request = request(random_ids(4, 20), Breaking(3, RuntimeError("broke")))
    batch = Batch(engine.adapter, engine.tokenizer, engine.end_tokens)
    sequence = batch.add(one)
    batch.step()
    assert [layer.num_rows for layer in sequence.state.layers] == [0] * NUM_LAYERS
    assert sequence.state.num_seen == 0
