"""One request through the engine: the tokens are transformers' own, the same every time, and nothing global changes."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from tinytext import END_ID, NUM_LAYERS, TOKENIZER, make_engine, random_ids, request, theirs
from transformers import PreTrainedModel

from fewer import Answer, Engine, Prompt, RandomPrune, Request, StaticPrune
from tolerances import FP32

SIZES = (1, 2, 3, 7, 16, 40)


@pytest.mark.parametrize("size", SIZES)
def test_greedy_tokens_are_those_of_transformers(engine: Engine, reference: PreTrainedModel, size: int) -> None:
    ids = random_ids(size, size)
    (answer,) = engine.generate([request(ids, max_tokens=30, ignore_eos=True)])
    assert answer.receipt.output.min_margin > 10 * FP32  # otherwise equal tokens would be luck
    assert list(answer.ids) == theirs(reference, ids, 30)
    assert answer.finish_reason == "length"


def test_an_end_token_ends_the_answer(engine: Engine, reference: PreTrainedModel) -> None:
    ids = random_ids(2, 9)
    plain = engine.generate([request(ids, ignore_eos=True)])[0]
    end = plain.ids[4]
    stopping = Engine(engine.adapter, engine.tokenizer, engine.setting)
    stopping.end_tokens = frozenset({end, END_ID})
    answer = stopping.generate([request(ids)])[0]
    first = plain.ids.index(end)
    assert list(answer.ids) == list(plain.ids[: first + 1]) == theirs(reference, ids, 12, end)
    assert answer.finish_reason == "stop"
    assert answer.text == TOKENIZER.decode(list(answer.ids[:-1]), skip_special_tokens=True)
    assert stopping.generate([request(ids, ignore_eos=True)])[0].ids == plain.ids


def test_the_models_own_settings_say_what_ends_an_answer(engine: Engine) -> None:
    assert engine.end_tokens == {END_ID}  # of the tokenizer, since the model has none
    config = engine.adapter.model.generation_config
    for ends, expected in ((7, {7}), ([7, 9], {7, 9})):
        config.eos_token_id = ends
        assert Engine(engine.adapter, engine.tokenizer, engine.setting).end_tokens == expected
    config.eos_token_id = None


@pytest.mark.parametrize("prune", [None, StaticPrune(0.5), RandomPrune(0.5)], ids=["none", "static", "random"])
@pytest.mark.parametrize("temperature", [0.0, 1.5])
def test_a_second_run_is_bit_identical(engine: Engine, prune: object, temperature: float) -> None:
    def run() -> Answer:
        return engine.generate([request(random_ids(5, 21), prune, temperature=temperature, seed=3, logprobs=4)])[0]

    first = run()
    engine.generate([request(random_ids(6, 30), RandomPrune(3)), request(random_ids(7, 2), temperature=1.0)])
    again = run()
    assert (again.text, again.ids, again.finish_reason, again.logprobs) == (
        *(first.text, first.ids, first.finish_reason, first.logprobs),
    )
    for part in ("model", "run", "prompt", "settings", "computed", "plans", "bypass", "output", "certificate"):
        assert getattr(again.receipt, part) == getattr(first.receipt, part), part
    assert again.receipt.memory.kv_bytes_per_layer == first.receipt.memory.kv_bytes_per_layer


@pytest.mark.parametrize(("dtype", "weights"), [("bfloat16", "native"), ("float32", "int8"), ("bfloat16", "int8")])
def test_other_number_formats(device: torch.device, dtype: str, weights: str) -> None:
    engine = make_engine(device, lambda model: model.to(getattr(torch, dtype)), weights)
    requests = [request(random_ids(5, 21), prune, logprobs=2) for prune in (None, StaticPrune(1.0), StaticPrune(0.5))]
    plain, kept, pruned = (engine.generate([one])[0] for one in requests)
    assert (kept.ids, kept.logprobs) == (plain.ids, plain.logprobs)
    assert [engine.generate([one])[0].logprobs for one in requests] == [plain.logprobs, kept.logprobs, pruned.logprobs]
    run = plain.receipt.run
    assert (run.dtype, run.weights) == (dtype, "int8" if weights == "int8" else dtype)
    row = 2 * 2 * 12 * (2 if dtype == "bfloat16" else 4)
    assert plain.receipt.memory.kv_bytes_per_layer == ((21 + 12) * row,) * NUM_LAYERS
    assert pruned.receipt.memory.kv_bytes_per_layer == ((10 + 12) * row,) * NUM_LAYERS


def test_answers_come_in_the_order_of_the_requests(engine: Engine) -> None:
    requests = [request(random_ids(seed, 3 + 5 * seed), max_tokens=14 - 3 * seed) for seed in range(4)]
    answers = engine.generate(iter([*requests, requests[1]]))
    assert [answer.ids for answer in answers] == [engine.generate([one])[0].ids for one in (*requests, requests[1])]
    assert engine.generate([]) == []


def test_a_prompt_is_a_request_with_default_settings(engine: Engine) -> None:
    prompt = Prompt.from_ids(random_ids(1, 10))
    with pytest.raises(ValueError, match="256 more are asked for"):  # the default does not fit into this tiny model
        engine.generate([prompt])
    assert Request(prompt).sampling.max_tokens == 256


def test_ask_stream_and_generate_agree(engine: Engine) -> None:
    settings = {"max_tokens": 9, "seed": 4, "temperature": 1.0, "prune": StaticPrune(0.8)}
    documents = ["hello world", {"title": "T", "text": "the other"}]
    asked = engine.ask("Who?", documents, **settings)
    stream = engine.stream("Who?", documents, **settings)
    pieces = list(stream)
    (generated,) = engine.generate([engine.request("Who?", documents, **settings)])
    assert asked.ids == stream.answer.ids == generated.ids
    assert asked.text == "".join(pieces) == stream.answer.text == generated.text
    assert asked.receipt.prompt == stream.answer.receipt.prompt
    assert [chunk.title for chunk in asked.receipt.prompt.chunks] == ["document 1", "T"]


def test_truncation_is_on_the_receipt(engine: Engine) -> None:
    long = "the lamp " * 60
    with pytest.raises(ValueError, match="positions"):
        engine.ask("Who?", [long], max_tokens=4)
    answer = engine.ask("Who?", [long], max_tokens=4, truncate=True)
    prompt = answer.receipt.prompt
    assert prompt.num_tokens == engine.adapter.max_positions - 4
    assert prompt.truncated_tokens == len(TOKENIZER(long)["input_ids"]) - prompt.chunks[0].num_tokens > 0


def test_the_loop_uses_no_global_random_numbers_and_no_global_settings(engine: Engine) -> None:
    def world() -> list:
        return [torch.get_rng_state().tolist(), random.getstate(), torch.get_num_threads(), torch.is_grad_enabled()]

    before, ids = world(), random_ids(1, 12)
    prompt = Prompt.from_ids(ids)
    engine.generate([Request(prompt, request(ids, temperature=1.0).sampling, RandomPrune(0.5))])
    assert world() == before
    assert prompt.ids.tolist() == ids
    assert not torch.is_inference_mode_enabled()


def test_one_engine_serves_several_threads(engine: Engine) -> None:
    requests = [
        request(random_ids(seed, 5 + seed), RandomPrune(0.6) if seed % 2 else None, temperature=0.9, seed=seed)
        for seed in range(8)
    ]
    expected = [engine.generate([one])[0].ids for one in requests]
    with ThreadPoolExecutor(4) as pool:
        assert [answers[0].ids for answers in pool.map(engine.generate, [[one] for one in requests])] == expected
