"""What a receipt says of a cache that was kept within a policy: it is what the storages held and the keeper saw."""

from __future__ import annotations

import time

import pytest
import torch
from test_engine_receipt import chunked
from tinytext import NUM_LAYERS, random_ids

from fewer import Engine, Prompt, Receipt, Request, Sampling, StaticPrune
from fewer.engine.batch import Batch
from fewer.engine.engine import Stream
from fewer.engine.sampling import Sampler
from fewer.engine.sequence import Sequence
from fewer.evict import make_policy
from fewer.receipt import CertificateRecord

ALL_KEPT = "the budget covers every row of the cache"
SMALL = {"sinks": 2, "recent": 4}
POLICIES = {
    "top-k": ("snapkv", 12, {}),
    "top-k, heads apart": ("keynorm", 12, {"heads": "adaptive"}),
    "top-k, pyramid": ("h2o", "50%", {"layers": "pyramid", "beta": 4.0}),
    "systematic": ("systematic:question", 12, {}),
    "poisson": ("poisson:snapkv", 16, {}),
    "pivotal, again and again": ("pivotal:uniform", 14, {"every": 3}),
    "in blocks": ("systematic:uniform", 12, {"block": 10}),
    "without a certificate": ("systematic:question", 12, {"certify": False}),
    "plug-in": ("systematic:question", 12, {"estimator": "plug-in"}),
}
SAMPLED = ("systematic", "poisson", "pivotal, again and again", "in blocks")


def request(name: str, size: int = 9, **sampling: object) -> Request:
    policy, budget, settings = POLICIES[name]
    settings = Sampling(**{"max_tokens": size, "ignore_eos": True, **sampling})
    return Request(chunked(3), settings, evict=make_policy(policy, budget, **SMALL | POLICIES[name][2]))


def run(engine: Engine, asked: Request) -> tuple[Sequence, Receipt]:
    batch = Batch(engine.adapter, engine.tokenizer, engine.end_tokens)
    sequence = batch.add(asked)
    while not batch.idle:
        batch.step()
    assert sequence.error is None
    return sequence, engine._answer(sequence).receipt


@pytest.mark.parametrize("name", POLICIES)
def test_the_record_is_what_happened(engine: Engine, name: str) -> None:
    sequence, receipt = run(engine, request(name))
    evictions, record = sequence.keeper.evictions, receipt.eviction
    assert record.name == POLICIES[name][0]
    assert receipt.settings.evict == dict(sequence.request.evict.describe())
    assert receipt.settings.evict["budget.keep"].startswith(str(POLICIES[name][1]))
    assert len(record.compressions) == len(evictions) == {"in blocks": 3, "pivotal, again and again": 3}.get(name, 1)
    assert record.most_bytes == sequence.keeper.most_bytes >= record.compressions[0].bytes_before
    for each, eviction in zip(record.compressions, evictions, strict=True):
        assert each.rows_before == tuple(map(tuple, eviction.rows_before.tolist()))
        assert each.rows_after == tuple(map(tuple, eviction.rows_after.tolist()))
        assert each.num_before - each.num_after == eviction.num_evicted > 0
        assert (each.bytes_before, each.bytes_after) == (eviction.bytes_before, eviction.bytes_after)
        assert each.bytes_after <= each.bytes_before  # room for the answer stays reserved
        head_row = 2 * engine.adapter.head_dim * 4
        assert each.used_bytes_before == head_row * each.num_before <= each.bytes_before
        assert each.used_bytes_after == head_row * each.num_after <= each.bytes_after
        assert (each.rows_by_pi is None) == (name.startswith("top-k"))
        if each.rows_by_pi is not None:
            assert sum(each.rows_by_pi) > 0
            assert each.num_certain >= 6 * NUM_LAYERS * engine.adapter.num_kv_heads  # sinks and recent
    assert record.compressions[0].bytes_after < record.compressions[0].bytes_before
    assert receipt.seconds.evict_s == sequence.keeper.seconds >= sum(eviction.seconds for eviction in evictions)
    assert receipt.bypass == ()
    assert Receipt.model_validate_json(receipt.to_json()) == receipt


@pytest.mark.parametrize("name", POLICIES)
def test_bytes_at_the_end_are_those_of_the_storages(engine: Engine, name: str) -> None:
    sequence, receipt = run(engine, request(name))
    memory, adapter = receipt.memory, engine.adapter
    head_row = 2 * adapter.head_dim * 4
    layers = sequence.state.layers
    assert memory.kv_bytes_per_layer == tuple(layer.k.untyped_storage().nbytes() for layer in layers)
    assert memory.kv_used_bytes_per_layer == tuple(head_row * adapter.num_kv_heads * layer.num_rows for layer in layers)
    held = [0 if layer.log_w is None else int(torch.isneginf(layer.log_w).sum()) for layer in layers]
    assert memory.kv_padding_bytes_per_layer == tuple(head_row * count for count in held)
    assert receipt.eviction.compressions[-1].padding_per_layer == tuple(held)
    assert (sum(held) > 0) == (name in ("top-k, heads apart", "poisson"))
    assert sum(memory.kv_used_bytes_per_layer) < sum(memory.kv_bytes_full_estimate)
    assert receipt.computed.token_layers_skipped == 0  # eviction is about what is held, not what is computed


@pytest.mark.parametrize("name", SAMPLED)
def test_the_certificate_is_the_keepers(engine: Engine, name: str) -> None:
    sequence, receipt = run(engine, request(name))
    claim, steps = receipt.certificate, sequence.keeper.certificates
    means = [float(step.radius.double().mean()) for step in steps]
    assert (claim.kind, claim.delta, len(steps)) == ("estimate", 0.1, receipt.computed.decode_steps)
    assert claim.steps == pytest.approx(means)
    assert claim.radius > 0
    assert claim.radius == pytest.approx(max(means[:6]))
    assert claim.mean == pytest.approx(sum(means) / len(means))
    assert claim.largest == pytest.approx(max(means))
    clipped = [float(step.radius.double().clamp(max=1).mean()) for step in steps]
    assert claim.clipped_steps == pytest.approx(clipped)
    assert claim.clipped == pytest.approx(max(clipped[:6]))
    by_layer = torch.stack([step.radius[..., 0].double().mean(1) for step in steps[:6]]).amax(0)
    assert claim.per_layer == pytest.approx(by_layer.tolist())
    assert claim.says == (
        "estimated relative errors of attention outputs, each at level 0.1, averaged over layers and heads, largest of "
        "the first six steps; an average bounds nothing"
    )
    assert len(claim.assumptions) == 7


@pytest.mark.parametrize("name", [name for name in POLICIES if name not in SAMPLED])
def test_other_policies_claim_nothing(engine: Engine, name: str) -> None:
    why = {
        "without a certificate": "no certificate was asked for",
        "plug-in": "the plug-in estimator leaves out the probabilities that a certificate is made of",
    }.get(name, "topk keeps rows for certain, and what stays then says nothing of what left")
    assert run(engine, request(name))[1].certificate == CertificateRecord.none(why)


@pytest.mark.parametrize("name", POLICIES)
def test_rows_of_each_chunk_are_those_whose_positions_are_held(engine: Engine, name: str) -> None:
    sequence, receipt = run(engine, request(name))
    heads = engine.adapter.num_kv_heads
    assert len(receipt.prompt.chunks) == len(receipt.eviction.rows_per_chunk) == 3
    total = 0
    for chunk, rows in zip(receipt.prompt.chunks, receipt.eviction.rows_per_chunk, strict=True):
        for layer, held in zip(sequence.state.layers, rows, strict=True):
            there = layer.pos.expand(heads, -1)
            inside = (there >= chunk.start) & (there < chunk.stop)
            if layer.log_w is not None:
                inside &= ~torch.isneginf(layer.log_w)
            assert held == int(inside.sum())
        total += sum(rows)
    assert 0 < total < sum(each.stop - each.start for each in receipt.prompt.chunks) * heads * NUM_LAYERS


def test_short_answers_say_how_many_steps(engine: Engine) -> None:
    none = CertificateRecord.none("no decode step came after the compression")
    assert run(engine, request("systematic", 1))[1].certificate == none
    two, three = (run(engine, request("systematic", size))[1].certificate for size in (2, 3))
    assert two.says.endswith("largest of 1 step; an average bounds nothing")
    assert three.says.endswith("largest of 2 steps; an average bounds nothing")
    assert two.radius == two.mean == two.largest == two.steps[0] == three.steps[0]


@pytest.mark.parametrize(("budget", "prune"), [("100%", None), (512, None), ("100%", StaticPrune(1.0))])
def test_a_budget_that_covers_everything_is_said(engine: Engine, budget: str | int, prune: StaticPrune | None) -> None:
    policy = make_policy("systematic:question", budget, **SMALL)
    _, receipt = run(engine, Request(chunked(3), Sampling(max_tokens=4, ignore_eos=True), prune, evict=policy))
    pruning = ("the budget covers every token that may be left out",) if prune else ()
    assert receipt.bypass == (*pruning, ALL_KEPT)
    assert receipt.eviction.compressions == ()
    assert receipt.seconds.evict_s > 0
    assert receipt.certificate == CertificateRecord.none("every row stayed")
    full = [(each.stop - each.start) * engine.adapter.num_kv_heads for each in receipt.prompt.chunks]
    assert receipt.eviction.rows_per_chunk == tuple((rows,) * NUM_LAYERS for rows in full)
    assert receipt.memory.kv_used_bytes_per_layer == receipt.memory.kv_bytes_full_estimate


def test_pruned_and_evicted(engine: Engine) -> None:
    policy = make_policy("systematic:uniform", 10, **SMALL)
    asked = Request(chunked(3), Sampling(max_tokens=5, ignore_eos=True), StaticPrune("60%", 2), evict=policy)
    _, receipt = run(engine, asked)
    (plan,), (each,) = receipt.plans, receipt.eviction.compressions
    assert {rows for heads in each.rows_before for rows in heads} == {plan.num_kept}
    assert {rows for heads in each.rows_after for rows in heads} == {10}
    assert receipt.bypass == ()
    assert receipt.computed.token_layers_skipped == plan.num_dropped * (NUM_LAYERS - 2)


def test_without_eviction_nothing_is_said(engine: Engine) -> None:
    _, receipt = run(engine, Request(chunked(3), Sampling(max_tokens=4)))
    assert (receipt.eviction, receipt.settings.evict, receipt.seconds.evict_s) == (None, None, 0.0)
    assert receipt.memory.kv_padding_bytes_per_layer == (0,) * NUM_LAYERS


def test_compressing_is_not_prefill(engine: Engine) -> None:
    _, receipt = run(engine, request("systematic"))
    seconds = receipt.seconds
    parts = seconds.layout_s + seconds.queue_s + seconds.prefill_s + seconds.evict_s
    assert parts <= seconds.first_token_s + 1e-6
    assert seconds.prefill_s < seconds.first_token_s - seconds.evict_s + 1e-6


def test_a_request_that_is_cancelled(engine: Engine) -> None:
    unread = Stream(engine, request("systematic"), time.perf_counter(), None)
    unread.close()
    receipt = unread.answer.receipt
    assert receipt.bypass == ("the request ended before it ran",)
    assert receipt.eviction.compressions == ()
    assert receipt.eviction.rows_per_chunk == ((0,) * NUM_LAYERS,) * 3
    assert receipt.certificate == CertificateRecord.none("the cache was not compressed")
    with Stream(engine, request("systematic"), time.perf_counter(), None) as stream:
        for _ in range(3):
            stream._batch.step()
    receipt = stream.answer.receipt
    assert (len(stream.answer.ids), len(receipt.certificate.steps)) == (3, 2)


def test_a_step_without_a_token_has_no_certificate(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C when the third token is chosen: its pass has been seen by the witness."""
    choose = Sampler.choose

    def stop(sampler: Sampler, logits: torch.Tensor) -> int:
        stop.calls += 1
        if stop.calls == 3:
            raise KeyboardInterrupt
        return choose(sampler, logits)

    stop.calls = 0
    monkeypatch.setattr(Sampler, "choose", stop)
    stream = Stream(engine, request("systematic"), time.perf_counter(), None)
    stream._batch.step()
    stream._batch.step()
    with pytest.raises(KeyboardInterrupt):
        stream._batch.step()
    sequence, receipt = stream._sequence, stream.answer.receipt
    assert len(sequence.keeper.certificates) == 2
    assert (receipt.output.num_tokens, receipt.computed.decode_steps, len(receipt.certificate.steps)) == (2, 1, 1)


def test_given_tokens_have_an_eviction_and_no_certificate(engine: Engine) -> None:
    (score,) = engine.score([request("systematic")], [random_ids(5, 4)])
    receipt = score.receipt
    assert receipt.eviction.compressions[0].num_after == 12 * NUM_LAYERS * engine.adapter.num_kv_heads
    assert receipt.certificate == CertificateRecord.none("no decode step came after the compression")


def test_the_same_seed_gives_the_same_record(engine: Engine) -> None:
    def told(mates: int) -> tuple[object, ...]:
        others = [Request(Prompt.from_ids(random_ids(7, 20)), Sampling(max_tokens=3)) for _ in range(mates)]
        receipt = engine.generate([request("poisson", seed=4), *others])[0].receipt
        (each,) = receipt.eviction.compressions
        return each.rows_after, each.rows_by_pi, each.num_certain

    assert told(0) == told(2)
