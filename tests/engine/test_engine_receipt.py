"""The numbers on a receipt: they add up, and they are what was measured."""

from __future__ import annotations

import itertools
import time

import pytest
import torch
from tinytext import NUM_LAYERS, TOKENIZER, random_ids, request

import fewer
from fewer import Answer, Chunk, EndsPrune, Engine, Prompt, RandomPrune, Receipt, Request, Sampling, StaticPrune
from fewer.engine.batch import Batch
from fewer.types import Planner

PLANNERS = {
    "none": None,
    "random": RandomPrune(0.5),
    "random after 2": RandomPrune(17, 2),
    "static": StaticPrune(0.3),
    "static, late": StaticPrune(0.7, 3),
    "static by chunk": StaticPrune(0.6, 2, "chunk"),
    "ends": EndsPrune(0.2, 1),
    "all": StaticPrune(1.0),
    "fewer than protected": RandomPrune(1, 1),
}


def chunked(seed: int, sizes: tuple[int, ...] = (9, 4, 12)) -> Prompt:
    """Two sinks, chunks with one protected token between, three tokens at the end."""
    chunks, at = [], 2
    for number, size in enumerate(sizes):
        chunks.append(Chunk(f"chunk {number}", at, at + size))
        at += size + 1
    total = at + 3
    protected = torch.ones(total, dtype=torch.bool)
    for chunk in chunks:
        protected[chunk.start : chunk.stop] = False
    return Prompt(torch.tensor(random_ids(seed, total)), protected, tuple(chunks), (total - 3, total))


def answer_of(engine: Engine, planner: Planner | None, **sampling: object) -> Answer:
    settings = Sampling(**{"max_tokens": 6, "ignore_eos": True, **sampling})
    return engine.generate([Request(chunked(3), settings, planner, layout_s=0.125)])[0]


@pytest.mark.parametrize("name", PLANNERS)
def test_token_layers_add_up(engine: Engine, name: str) -> None:
    answer, prompt = answer_of(engine, PLANNERS[name]), chunked(3)
    receipt = answer.receipt
    computed, parts, size = receipt.computed, receipt.prompt, len(prompt)
    assert computed.decode_steps == len(answer.ids) - 1 == 5
    assert computed.token_layers_full == (size + 5) * NUM_LAYERS
    assert computed.token_layers_computed + computed.token_layers_skipped == computed.token_layers_full
    assert computed.token_layers_computed == sum(computed.prefill_rows_per_layer) + 5 * NUM_LAYERS
    kept = [size] * NUM_LAYERS
    for plan in receipt.plans:
        kept[plan.layer :] = [plan.num_kept] * (NUM_LAYERS - plan.layer)
        assert plan.num_kept + plan.num_dropped == size
    assert computed.prefill_rows_per_layer == tuple(kept)
    assert (parts.num_tokens, parts.num_protected, parts.query_len) == (size, prompt.num_protected, 3)
    assert parts.protected_per_layer == (prompt.num_protected,) * NUM_LAYERS
    for chunk, of in zip(parts.chunks, prompt.chunks, strict=True):
        assert (chunk.title, chunk.start, chunk.stop, chunk.num_tokens) == (of.title, of.start, of.stop, of.num_tokens)
    per_layer = [sum(chunk.kept_per_layer[layer] for chunk in parts.chunks) for layer in range(NUM_LAYERS)]
    assert [rows + prompt.num_protected for rows in per_layer] == kept


@pytest.mark.parametrize("name", PLANNERS)
def test_bytes_are_those_of_the_storages(engine: Engine, name: str) -> None:
    batch = Batch(engine.adapter, engine.tokenizer, engine.end_tokens)
    sequence = batch.add(Request(chunked(3), Sampling(max_tokens=6, ignore_eos=True), PLANNERS[name]))
    while not batch.idle:
        batch.step()
    memory = engine._answer(sequence).receipt.memory
    storages = [layer.k.untyped_storage() for layer in sequence.state.layers]
    assert len({storage.data_ptr() for storage in storages}) == NUM_LAYERS
    assert memory.kv_bytes_per_layer == tuple(storage.nbytes() for storage in storages)
    assert memory.kv_total_bytes == sum(memory.kv_bytes_per_layer)
    adapter, prompt_len = engine.adapter, len(chunked(3))
    row = 2 * adapter.num_kv_heads * adapter.head_dim * 4
    assert memory.kv_bytes_full_estimate == (row * (prompt_len + 5),) * NUM_LAYERS
    plans = sequence.prefill.plans
    rows = plans[0].keep.numel() if plans else prompt_len
    assert [layer.num_rows for layer in sequence.state.layers] == [rows + 5] * NUM_LAYERS
    assert memory.kv_used_bytes_per_layer == (row * (rows + 5),) * NUM_LAYERS
    assert (memory.kv_used_bytes_per_layer == memory.kv_bytes_full_estimate) == (rows == prompt_len)
    assert memory.kv_bytes_per_layer == (row * (rows + 6),) * NUM_LAYERS  # room for max_tokens, and no copy on the way
    assert memory.weights_bytes >= 4 * adapter.num_parameters
    assert memory.peak_bytes > memory.weights_bytes + memory.kv_total_bytes
    assert memory.peak_scope


@pytest.mark.parametrize(("name", "layers"), [("random", 0), ("random after 2", 2), ("static, late", 3), ("all", 1)])
def test_released_bytes_are_the_measured_drop(engine: Engine, name: str, layers: int) -> None:
    def held(planner: Planner | None) -> list[int]:
        batch = Batch(engine.adapter, engine.tokenizer, engine.end_tokens)
        sequence = batch.add(Request(chunked(3), Sampling(max_tokens=6), planner))
        batch.step()
        return [layer.nbytes for layer in sequence.state.layers]

    before, after = held(None), held(PLANNERS[name])
    (plan,) = answer_of(engine, PLANNERS[name]).receipt.plans
    assert plan.layer == layers
    assert plan.released_bytes == sum(before[:layers]) - sum(after[:layers])
    assert (plan.released_bytes > 0) == (plan.num_dropped > 0 and layers > 0)


def test_seconds_are_in_order(engine: Engine) -> None:
    begin = time.perf_counter()
    answers = engine.generate([Request(chunked(seed), Sampling(max_tokens=5), layout_s=0.125) for seed in range(3)])
    took = time.perf_counter() - begin
    for receipt in (answer.receipt for answer in answers):
        seconds = receipt.seconds
        assert (seconds.load_s, seconds.layout_s) == (0.25, 0.125)
        assert seconds.queue_s >= 0
        assert seconds.prefill_s > 0
        assert seconds.layout_s + seconds.queue_s + seconds.prefill_s == pytest.approx(seconds.first_token_s, abs=1e-6)
        gaps = seconds.per_output_token_s
        assert 0 < gaps.median <= gaps.max
        assert gaps.mean <= gaps.max
        assert seconds.total_s >= seconds.first_token_s + 4 * gaps.mean - 1e-6
        assert seconds.total_s < took + 0.125 + 1e-6


def test_a_reader_that_dawdles_is_not_in_the_seconds_per_token(engine: Engine) -> None:
    batch = Batch(engine.adapter, engine.tokenizer, engine.end_tokens)
    sequence = batch.add(Request(chunked(0), Sampling(max_tokens=4, ignore_eos=True)))
    while not batch.idle:
        batch.step()
        time.sleep(0.05)
    seconds = engine._answer(sequence).receipt.seconds
    assert seconds.total_s > 0.15
    assert len(sequence.step_s) == 4
    assert seconds.per_output_token_s.mean == pytest.approx(sum(sequence.step_s[1:]) / 3)
    assert seconds.total_s >= sum(sequence.step_s) + 0.15 - 1e-3


def test_waiting_is_time_in_the_queue(engine: Engine) -> None:
    batch, now = Batch(engine.adapter, engine.tokenizer, engine.end_tokens, max_running=1), time.perf_counter()
    sequences = [batch.add(Request(chunked(seed), Sampling(max_tokens=3)), now) for seed in range(3)]
    while not batch.idle:
        batch.step()
    receipts = [engine._answer(sequence).receipt for sequence in sequences]
    for earlier, later in itertools.pairwise(receipts):
        assert later.seconds.queue_s >= earlier.seconds.total_s


@pytest.mark.parametrize(("max_running", "mates"), [(1, [0, 0, 0]), (2, [1, 1, 1]), (3, [2, 2, 2])])
def test_how_many_shared_a_step(engine: Engine, max_running: int, mates: list[int]) -> None:
    requests = [Request(chunked(seed), Sampling(max_tokens=3, ignore_eos=True)) for seed in (0, 1)]
    requests.append(Request(chunked(2), Sampling(max_tokens=1 if max_running == 3 else 2, ignore_eos=True)))
    if max_running == 2:  # the third joins one of the other two
        requests[1] = Request(chunked(1), Sampling(max_tokens=1, ignore_eos=True))
    answers = engine.generate(requests, max_running=max_running)
    assert [answer.receipt.run.batch_mates for answer in answers] == mates


def test_one_token_has_no_gaps(engine: Engine) -> None:
    receipt = answer_of(engine, None, max_tokens=1).receipt
    assert receipt.seconds.per_output_token_s is None
    assert receipt.computed.decode_steps == 0
    assert receipt.seconds.total_s == receipt.seconds.first_token_s


@pytest.mark.parametrize("pieces", [0, 1, 99])
def test_what_happens_after_the_end_is_not_counted(engine: Engine, pieces: int) -> None:
    begin = time.perf_counter()
    with engine.stream("Who?", max_tokens=3) as stream:
        list(itertools.islice(stream, pieces))
    took = time.perf_counter() - begin
    time.sleep(0.02)
    assert stream.answer.receipt.seconds.total_s <= took


REASONS = {
    "none": (),
    "random": (),
    "all": ("the budget covers every token that may be left out",),
    "static by chunk": (),
}


@pytest.mark.parametrize("name", REASONS)
def test_a_pruning_that_left_nothing_out_says_why(engine: Engine, name: str) -> None:
    receipt = answer_of(engine, PLANNERS[name]).receipt
    assert receipt.bypass == REASONS[name]
    assert (receipt.computed.token_layers_skipped == 0) == (name in ("none", "all"))
    assert receipt.certificate.kind == "none"


def test_nothing_to_prune_says_so(engine: Engine) -> None:
    (answer,) = engine.generate([request(random_ids(1, 3), StaticPrune(1))])
    assert answer.receipt.bypass == ("the budget covers every token that may be left out",)
    assert answer.receipt.plans[0].reason.endswith("asked for 1; 3 are protected and always stay")


def test_what_was_asked_for_is_on_it(engine: Engine) -> None:
    receipt = answer_of(engine, StaticPrune("40%", 2, "chunk"), temperature=0.5, stop=("x", "y"), seed=7).receipt
    assert receipt.settings.prune == {"name": "static", "keep": "40%", "layer": 2, "grain": "chunk"}
    assert receipt.settings.evict is None
    sampling = receipt.settings.sampling
    assert (sampling["temperature"], sampling["stop"], sampling["seed"], sampling["max_tokens"]) == (
        0.5,
        ["x", "y"],
        7,
        6,
    )
    assert answer_of(engine, None).receipt.settings.prune is None
    run = receipt.run
    assert (run.seed, run.dtype, run.weights, run.dtype_reason) == (7, "float32", "float32", "asked for")
    assert (run.device, run.num_threads) == (str(engine.adapter.device), torch.get_num_threads())
    assert (receipt.versions.fewer, receipt.versions.torch) == (fewer.__version__, torch.__version__)
    model = receipt.model
    assert (model.name, model.family, model.source, model.num_layers) == ("tiny", "llama", "directory", NUM_LAYERS)
    assert Receipt.model_validate_json(receipt.to_json()) == receipt


def test_the_output_part(engine: Engine) -> None:
    answer = answer_of(engine, None, logprobs=0)
    output = answer.receipt.output
    assert (output.num_tokens, output.finish_reason) == (6, answer.finish_reason) == (len(answer.ids), "length")
    assert output.first_token_margin >= output.min_margin > 0
    assert output.mean_logprob < 0
    assert answer_of(engine, None).receipt.output.mean_logprob is None
    assert answer.text == TOKENIZER.decode(list(answer.ids), skip_special_tokens=True)
