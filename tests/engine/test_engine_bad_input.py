"""Bad input through the Python surface: the value, the legal range, the way out, and nothing computed."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
import torch
from tinytext import NUM_LAYERS, VOCAB, make_engine, random_ids, request

from fewer import (
    BadInput,
    EndsPrune,
    Engine,
    EntroPrefill,
    FewerError,
    LazyLLM,
    Prompt,
    PromptTooLong,
    RandomPrune,
    Request,
    Sampling,
    StaticPrune,
)
from fewer.prune import PLANNERS

NAN, INF = float("nan"), float("inf")
SETTINGS = [
    ("max_tokens", 0, "of at least 1", "at least one token"),
    ("max_tokens", -3, "of at least 1", "at least one token"),
    ("max_tokens", 1.5, "a whole number", "at least one token"),
    ("max_tokens", None, "a whole number", "at least one token"),
    ("max_tokens", True, "a whole number", "at least one token"),
    ("temperature", -1, "of at least 0 and at most 100", "Use 0 for greedy"),
    ("temperature", NAN, "of at least 0", "Use 0 for greedy"),
    ("temperature", INF, "at most 100", "Use 0 for greedy"),
    ("temperature", 1e-9, "0 or at least 1e-06", "Use 0 for greedy"),
    ("temperature", "warm", "a number", "Use 0 for greedy"),
    ("top_k", -1, "of at least 0", "Use 0 to switch it off"),
    ("top_k", 1.0, "a whole number", "Use 0 to switch it off"),
    ("top_p", 0, "above 0 and at most 1", "Use 1 to switch it off"),
    ("top_p", 2, "above 0 and at most 1", "Use 1 to switch it off"),
    ("top_p", NAN, "above 0 and at most 1", "Use 1 to switch it off"),
    ("min_p", -0.1, "of at least 0 and at most 1", "Use 0 to switch it off"),
    ("min_p", 1.1, "of at least 0 and at most 1", "Use 0 to switch it off"),
    ("repetition_penalty", 0, "of at least 0.01 and at most 100", "Use 1 to switch it off"),
    ("repetition_penalty", INF, "at most 100", "Use 1 to switch it off"),
    ("seed", -1, "of at least 0", "whole number"),
    ("seed", 2**63, "at most", "whole number"),
    ("seed", 0.5, "a whole number", "whole number"),
    ("stop", "", "non-empty string", "Leave it out"),
    ("stop", ["a", ""], "non-empty string", "Leave it out"),
    ("stop", [7], "non-empty string", "Leave it out"),
    ("stop", None, "non-empty string", "Leave it out"),
    ("stop", b"x", "non-empty string", "Leave it out"),
    ("logprobs", -1, "of at least 0 and at most 100", "Leave it out"),
    ("logprobs", 101, "of at least 0 and at most 100", "Leave it out"),
    ("ignore_eos", "no", "True or False", "Leave it out"),
]


@pytest.mark.parametrize(("name", "value", "legal", "way_out"), SETTINGS, ids=[f"{n}={v!r}" for n, v, *_ in SETTINGS])
def test_a_setting(engine: Engine, name: str, value: object, legal: str, way_out: str) -> None:
    for ask in (engine.ask, engine.stream, engine.request):
        with pytest.raises(BadInput) as caught:
            ask("Who?", **{name: value})
        message = str(caught.value)
        assert message.startswith(f"{name} is {value!r}; it must be ")
        assert legal in message
        assert way_out in message


KEEPS = [0, -1, 1.5, 0.0, NAN, INF, "abc", "", "0%", "120%", "-5", True, None, (1, 2)]


@pytest.mark.parametrize("keep", KEEPS, ids=repr)
@pytest.mark.parametrize("kind", [RandomPrune, StaticPrune, EndsPrune])
def test_a_budget(kind: Callable[..., object], keep: object) -> None:
    with pytest.raises(BadInput) as caught:
        kind(keep)
    assert str(caught.value).startswith(f"keep is {keep!r}; it must be ")
    assert "a fraction above 0 and at most 1" in str(caught.value)
    assert "Write a count of tokens (256) or a fraction of the prompt (0.25 or 25%)." in str(caught.value)


@pytest.mark.parametrize("layer", [-1, NUM_LAYERS, 99, 1.0, "2", True])
@pytest.mark.parametrize("kind", [RandomPrune, StaticPrune, EndsPrune])
def test_a_layer(engine: Engine, kind: Callable[..., object], layer: object) -> None:
    with pytest.raises(BadInput) as caught:
        engine.ask("Who?", max_tokens=4, prune=kind(0.5, layer))
    lowest = 1 if kind is StaticPrune else 0
    assert str(caught.value) == (
        f"layer is {layer!r}; it must be a whole number from {lowest} to 3 (the model has 4 layers). "
        "Prune after a layer that still has one behind it."
    )


def test_a_static_planner_has_nothing_to_look_at_before_the_first_layer(engine: Engine) -> None:
    with pytest.raises(BadInput, match="layer is 0; it must be a whole number from 1 to 3"):
        engine.ask("Who?", max_tokens=4, prune=StaticPrune(0.5, 0))


def test_a_grain() -> None:
    with pytest.raises(BadInput, match="grain is 'word'; it must be 'token' or 'chunk'"):
        StaticPrune(0.5, 1, "word")


@pytest.mark.parametrize("kind", [RandomPrune, StaticPrune, EndsPrune])
def test_more_than_the_prompt_has_is_refused_before_anything_runs(engine: Engine, kind: Callable[..., object]) -> None:
    passes: list[object] = []
    requests = [request(random_ids(1, 9)), request(random_ids(2, 8), kind(9))]
    message = "keep is 9; it must be at most 8, the prompt's tokens. Keep fewer, or all: 100%."
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fewer.engine.batch.forward", lambda *call: passes.append(call))
        with pytest.raises(BadInput) as caught:
            engine.generate(requests)
    assert str(caught.value) == message
    assert passes == []


REQUESTS = [
    ([VOCAB, 1], f"token id is {VOCAB}; it must be from 0 to {VOCAB - 1}, the model's vocabulary"),
    ([5, -1, 3], f"token id is -1; it must be from 0 to {VOCAB - 1}"),
    ([2**40], "token id is 1099511627776"),
]


@pytest.mark.parametrize(("ids", "message"), REQUESTS)
def test_token_ids_out_of_the_vocabulary(engine: Engine, ids: list[int], message: str) -> None:
    with pytest.raises(BadInput, match=message) as caught:
        engine.generate([request(random_ids(1, 4)), request(ids)])
    assert "Use the tokenizer that belongs to the model" in str(caught.value)


IDS = [
    [],
    torch.zeros(0, dtype=torch.int64),
    [1.0, 2.0],
    "hello",
    [[1, 2], [3, 4]],
    [[1], [2, 3]],
    [True],
    None,
    7.0,
    [2**70],
]


@pytest.mark.parametrize("ids", IDS, ids=repr)
def test_ids_that_are_no_prompt(ids: object) -> None:
    with pytest.raises(BadInput, match=r"ids is .*; it must be one row of at least one token id\. Pass the token ids"):
        Prompt.from_ids(ids)


@pytest.mark.parametrize(("size", "max_tokens"), [(128, 1), (100, 29), (1, 128), (1, 10**9)])
def test_too_long_together(engine: Engine, size: int, max_tokens: int) -> None:
    with pytest.raises(PromptTooLong) as caught:
        engine.generate([request(random_ids(1, size), max_tokens=max_tokens)])
    assert str(caught.value) == (
        f"The prompt has {size} tokens and {max_tokens} more are asked for, {size + max_tokens} together; the model "
        "has 128 positions. Give fewer documents, allow truncation, or ask for fewer tokens."
    )


def test_the_last_position_can_be_used(engine: Engine) -> None:
    (answer,) = engine.generate([request(random_ids(1, 100), max_tokens=28, ignore_eos=True)])
    assert len(answer.ids) == 28
    with pytest.raises(PromptTooLong, match="positions"):
        engine.ask("Who?", ["hello the world"] * 3, max_tokens=100)


@pytest.mark.parametrize("name", ["top_k", "logprobs"])
def test_more_than_the_vocabulary(device: torch.device, name: str) -> None:
    engine = make_engine(device)
    engine.adapter.vocab_size = 50
    with pytest.raises(BadInput, match=f"{name} is 51; it must be at most 50, the vocabulary"):
        engine.generate([request([1, 2], **{name: 51})])


@pytest.mark.parametrize("item", ["Who?", 5, None, [1, 2, 3], {"prompt": 1}], ids=repr)
def test_a_request_of_a_wrong_type(engine: Engine, item: object) -> None:
    with pytest.raises(
        BadInput, match=r"request is .*; it must be a Request or a Prompt. Make one with engine.request"
    ):
        engine.generate([request(random_ids(1, 3)), item])
    with pytest.raises(BadInput, match=r"prompt is .*; it must be a Prompt"):
        Request(item)


@pytest.mark.parametrize("single", [Prompt.from_ids([1, 2]), request([1, 2])], ids=["prompt", "request"])
def test_one_request_instead_of_several(engine: Engine, single: object) -> None:
    with pytest.raises(BadInput, match="Put them into a list"):
        engine.generate(single)


def test_settings_of_a_wrong_type() -> None:
    prompt = Prompt.from_ids([1, 2])
    with pytest.raises(BadInput, match=r"sampling is {'max_tokens': 3}; it must be a Sampling"):
        Request(prompt, {"max_tokens": 3})
    for prune, way_out in (
        ("static", """Pass StaticPrune(keep="50%"), or fewer.prune.make_planner('static', ...)."""),
        (StaticPrune, 'Pass StaticPrune(keep="50%"), or'),
        (" LazyLLM", """Pass LazyLLM("balanced"), or fewer.prune.make_planner('lazyllm', ...)."""),
        (LazyLLM, 'Pass LazyLLM("balanced"), or'),
        (EntroPrefill, "Pass EntroPrefill(), or"),
        ("none", "Pass None, or leave it out."),
        ("balanced", 'Pass for example LazyLLM("balanced") or StaticPrune(keep="50%").'),
        (object(), "Pass for example LazyLLM("),
        (0.5, "Pass for example LazyLLM("),
    ):
        with pytest.raises(BadInput, match=re.escape(f"it must be a planner or None. {way_out}")):
            Request(prompt, Sampling(), prune)


@pytest.mark.parametrize("name", PLANNERS)
def test_every_planner_is_suggested_by_its_name_and_its_class(name: str) -> None:
    for meant in (name, PLANNERS[name]):
        with pytest.raises(BadInput, match=rf"Pass {PLANNERS[name].__name__}\(.*make_planner\('{name}', \.\.\.\)"):
            Request(Prompt.from_ids([1, 2]), Sampling(), meant)


@pytest.mark.parametrize("max_running", [0, -1, 1.0, True, None, "4"])
def test_max_running(engine: Engine, max_running: object) -> None:
    with pytest.raises(BadInput, match=r"max_running is .*; it must be a whole number of at least 1"):
        engine.generate([request([1])], max_running=max_running)


def test_an_unknown_keyword_names_the_known_ones(engine: Engine) -> None:
    for ask in (engine.ask, engine.stream, engine.request):
        with pytest.raises(
            TypeError, match=r"unknown keyword 'top-k'; known ones are prune, .*, max_tokens, .*, top_k,"
        ):
            ask("Who?", **{"top-k": 3})
    with pytest.raises(TypeError, match="keep"):
        engine.generate([request([1])], keep=3)
    with pytest.raises(TypeError, match="rounds"):
        StaticPrune(0.5, rounds=2)
    with pytest.raises(TypeError, match="beams"):
        Sampling(beams=2)


def test_all_of_them_are_value_errors_with_exit_code_two() -> None:
    for kind in (BadInput, PromptTooLong):
        assert issubclass(kind, FewerError)
        assert issubclass(kind, ValueError)
        assert kind.exit_code == 2
