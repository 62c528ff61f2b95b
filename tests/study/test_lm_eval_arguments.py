"""The arguments of `fewer` in lm-evaluation-harness: what is refused, and what stands in where nothing is said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from lm_eval.api.registry import get_model
from lm_eval_tiny import END, TURN, ask, make_tokenizer, save_model
from transformers import GenerationConfig

from fewer.errors import BadInput, ModelError, PromptTooLong
from fewer.study.lm_eval.arguments import Arguments, read_arguments
from fewer.study.lm_eval.contexts import Contexts
from fewer.study.lm_eval.generation import Decoding, read_decoding
from fewer.study.lm_eval.texts import Texts
from fewer.study.lm_eval_model import FewerLM
from fewer.types import Sampling


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_model(tmp_path_factory.mktemp("model"), bos=False)


def decode(settings: dict[str, Any], **own: Any) -> Decoding:
    return read_decoding(settings, GenerationConfig(**own), make_tokenizer(bos=False), vocab_size=200)


def test_the_harness_finds_the_model_and_its_own() -> None:
    assert get_model("fewer") is FewerLM
    assert get_model("dummy").__name__ == "DummyLM"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"evict": "h2o"}, "evict is 'h2o'; it must be none in this version"),
        ({"prune": "magic"}, "prune is 'magic'; it must be one of none, ends, entroprefill, lazyllm"),
        (
            {"revision": "main"},
            "a model argument is 'revision'; it must be one of add_bos_token, .*, batch_size, .*evict",
        ),
        ({"prune": "static", "keep": 9, "depth": 3}, "'depth'; it must be one of .*grain, keep, layer, .*weights"),
        ({"keep": 0.5}, "without keep, since nothing is pruned"),
        ({"sinks": 2}, "without sinks, since nothing is pruned"),
        ({"prune": "static"}, "settings of prune=static: keep, layer, grain"),
        ({"prune": "static", "keep": 0.0}, "keep is 0.0"),
        ({"prune": "static", "keep": 5, "sinks": -1}, "sinks is -1; it must be a whole number of at least 0"),
        ({"seed": 1.5}, "seed is 1.5; it must be a whole number"),
        ({"max_length": 1}, "max_length is 1; it must be a whole number of at least 2"),
        ({"add_bos_token": "yes"}, "add_bos_token is 'yes'; it must be True or False"),
        ({"truncation": True}, "truncation is True; it must be 'left' or 'error'"),
        ({"batch_size": 0}, "batch_size is 0; it must be a whole number of at least 1, or 'auto'"),
        ({"batch_size": "auto:4"}, "batch_size is 'auto:4'"),
        ({"batch_size": 4, "max_batch_size": 8}, "max_batch_size is 8; it must be left out"),
        ({"enable_thinking": True}, "think_end_token is None; it must be given with enable_thinking=True"),
        ({"chat_template_args": "x"}, "chat_template_args is 'x'; it must be a mapping"),
    ],
    ids=str,
)
def test_wrong_arguments_are_refused_before_anything_is_loaded(given: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        FewerLM("/nowhere", **given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"max_length": 193}, "max_length is 193; it must be at most 192"),
        ({"prefix_token_id": 100000}, "prefix_token_id is 100000; it must be below"),
        ({"prune": "static", "keep": 5, "layer": 4}, "layer is 4; it must be a whole number from 1 to 3"),
        ({"receipts": __file__}, "receipts is .*; it must be a name not taken yet"),
        ({"receipts": "/nowhere/at/all"}, "receipts is .*; it must be in a folder that exists"),
    ],
    ids=str,
)
def test_arguments_the_model_cannot_meet_are_refused(folder: Path, given: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        FewerLM(str(folder), device="cpu", dtype="float32", **given)


def test_several_processes_are_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(BadInput, match="WORLD_SIZE is '2'; it must be 1"):
        FewerLM(str(folder))


@pytest.mark.parametrize(
    ("given", "size"),
    [
        ({}, 1),
        ({"batch_size": "16"}, 16),
        ({"batch_size": "auto"}, 32),
        ({"batch_size": "auto", "max_batch_size": 6}, 6),
    ],
    ids=str,
)
def test_batch_sizes(given: dict[str, Any], size: int) -> None:
    assert read_arguments(given).batch_size == size


def test_a_context_that_is_too_long_can_be_an_error(folder: Path) -> None:
    model = FewerLM(str(folder), device="cpu", dtype="float32", truncation="error", max_length=20)
    with pytest.raises(PromptTooLong, match="A context has 30 tokens, and 19 fit beside what follows"):
        model.loglikelihood(ask("loglikelihood", ("x" * 30, "yz")), disable_tqdm=True)


def test_a_requests_seed_depends_on_its_context_the_repeat_and_the_seed() -> None:
    contexts, others = Contexts(read_arguments({}), None), Contexts(read_arguments({"seed": 1}), None)
    made = [contexts.make([1, 2, 3], 9), contexts.make([1, 2, 4], 9), contexts.make([1, 2, 3], 9, repeat=1)]
    seeds = [request.sampling.seed for request in (*made, others.make([1, 2, 3], 9))]
    assert len(set(seeds)) == 4
    assert contexts.make([7, 1, 2, 3], 3).sampling.seed == seeds[0]


def test_a_continuation_of_no_tokens_or_too_many_is_an_error(folder: Path) -> None:
    model = FewerLM(str(folder), device="cpu", dtype="float32", max_length=20)
    with pytest.raises(BadInput, match="from 1 to 20 tokens long; it has 0"):
        model.loglikelihood(ask("loglikelihood", ("x", "")), disable_tqdm=True)
    with pytest.raises(BadInput, match="from 1 to 20 tokens long; it has 21"):
        model.loglikelihood(ask("loglikelihood", ("x", "y" * 21)), disable_tqdm=True)
    with pytest.raises(BadInput, match="max_gen_toks is 20; it must be below 20"):
        model.generate_until(ask("generate_until", ("x", {"max_gen_toks": 20})), disable_tqdm=True)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"stop": ["x"]}, "a generation argument is 'stop'; it must be one of until, max_gen_toks, .*top_k"),
        ({"num_beams": 10}, "num_beams is 10; it must be 1"),
        ({"do_sample": True}, "temperature is 0.0; it must be above 0 with do_sample=True"),
        ({"do_sample": "no"}, "do_sample is 'no'; it must be True or False"),
        ({"until": [""]}, "until is \\[''\\]; it must be one non-empty string"),
        ({"max_gen_toks": 0}, "max_tokens is 0"),
        ({"top_p": 1.5}, "top_p is 1.5"),
    ],
    ids=str,
)
def test_wrong_generation_arguments_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        decode(settings)


def test_what_the_models_own_configuration_asks_for_and_is_not_there_is_refused() -> None:
    with pytest.raises(ModelError, match=r"generation_config.json sets no_repeat_ngram_size to 3"):
        decode({}, no_repeat_ngram_size=3)


@pytest.mark.parametrize(
    ("settings", "own", "sampling"),
    [
        ({}, {}, Sampling(256, stop=(END,), top_k=50)),
        ({"until": ["\n", END], "max_tokens": 9}, {}, Sampling(9, stop=("\n", END), top_k=50)),
        ({"max_completion_tokens": 9, "max_gen_toks": 7}, {}, Sampling(7, stop=(END,), top_k=50)),
        ({"temperature": 0.5}, {}, Sampling(256, 0.5, 50, stop=(END,))),
        ({"temperature": 0.5, "do_sample": False}, {}, Sampling(256, 0.0, 50, stop=(END,))),
        ({"temperature": 1, "top_k": 0}, {"top_p": 0.8, "top_k": 20}, Sampling(256, 1, 0, 0.8, stop=(END,))),
        ({"temperature": 1}, {"top_k": 20, "min_p": 0.1}, Sampling(256, 1, 20, 1.0, 0.1, stop=(END,))),
        ({"top_k": 300, "repetition_penalty": 1.0}, {"repetition_penalty": 1.2}, Sampling(256, 0, 200, stop=(END,))),
        ({}, {"repetition_penalty": 1.2}, Sampling(256, 0, 50, repetition_penalty=1.2, stop=(END,))),
    ],
    ids=str,
)
def test_generation_arguments_fall_back_on_the_model_and_then_on_transformers(
    settings: dict[str, Any], own: dict[str, Any], sampling: Sampling
) -> None:
    assert decode(settings, **own).sampling == sampling


def test_control_tokens_among_the_stop_strings_end_a_generation() -> None:
    tokenizer = make_tokenizer(bos=False)
    found = decode({"until": [TURN, "e", "the"]})
    assert found.until == (TURN, "e", "the", END)
    assert found.end_tokens == set(tokenizer.convert_tokens_to_ids([TURN, END]))


@pytest.mark.parametrize(("mark", "text"), [(None, "a) b)  c "), (")", "c "), ("number", "c "), ("x", "a) b)  c ")])
def test_a_generation_is_what_follows_the_last_thought(mark: str | None, text: str) -> None:
    tokenizer = make_tokenizer(bos=False)
    ids, number = tokenizer.encode("a) b)  c Stop"), tokenizer.convert_tokens_to_ids(")")
    assert ids.count(number) == 2
    arguments = Arguments(think_end_token=number if mark == "number" else mark)
    assert Texts(tokenizer, arguments).decode(ids, ["Stop"]) == text
