"""The evidence of an answer: against a dense float64 softmax, alone and packed, of a request and of a session."""

from __future__ import annotations

import math
from dataclasses import fields, replace

import pytest
import torch
from speaker import make_engine, policy, random_ids
from torch import Tensor

from fewer import Answer, BadInput, Chunk, Engine, Policy, Prompt, Request, Sampling
from fewer.decide import SIGNALS, Evidence
from fewer.engine.batch import Batch
from fewer.engine.sequence import Sequence
from fewer.kv import State
from fewer.session import Session
from reference import bias_of, sight
from tiny import TINY

CONTEXT, QUESTION = random_ids(1, 60), random_ids(2, 7)
MAX_TOKENS = 9
SAMPLING = {"max_tokens": MAX_TOKENS, "ignore_eos": True}
POLICIES = [
    policy(),
    policy("snapkv"),
    policy("poisson:h2o", 24, radius="paper"),  # leave-one-out terms would enlarge rounding a hundred times here
    policy("snapkv", heads="adaptive"),
]
TENSORS = [field.name for field in fields(Evidence) if field.name not in ("logprobs", "ids", "second_ids")]


def named(evict: Policy) -> str:
    return f"{evict.name} {evict.budget.heads}"


def ask(
    evict: Policy | None, moment: str = "context", evidence: bool = True, question: list[int] = QUESTION
) -> Request:
    size = len(CONTEXT) + len(question)
    protected = torch.ones(size, dtype=torch.bool)
    protected[: len(CONTEXT)] = False
    prompt = Prompt(torch.tensor(CONTEXT + question), protected, (Chunk("", 0, len(CONTEXT)),), (len(CONTEXT), size))
    wanted = None if evict is None else replace(evict, moment=moment)
    return Request(prompt, Sampling(**SAMPLING), evict=wanted, evidence=evidence)


def run(engine: Engine, request: Request) -> tuple[Sequence, Evidence]:
    batch = Batch(engine.adapter, engine.tokenizer, engine.end_tokens)
    sequence = batch.add(request)
    while not batch.idle:
        batch.step()
    if sequence.error is not None:
        raise sequence.error
    evidence = engine._answer(sequence).evidence
    assert evidence is not None
    return sequence, evidence


def see(state: State, bias: Tensor, start: int) -> None:
    """What rows from `start` on see of the tokens before it, as the state holds them. bias: [L, heads, T, T]."""
    for index, kv in enumerate(state.layers):
        heads, kv_heads = bias.shape[1], kv.k.shape[0]
        pos = kv.pos.expand(kv_heads, -1)
        log_w = torch.zeros(pos.shape) if kv.log_w is None else kv.log_w.expand(kv_heads, -1)
        for head in range(heads):
            group = head * kv_heads // heads
            there = (pos[group] < start) & ~torch.isneginf(log_w[group])
            seen = torch.full((start,), -math.inf, dtype=torch.float64)
            seen[pos[group][there]] = log_w[group][there].double()
            bias[index, head, start:, :start] += seen


def weigh_slowly(name: str, sequence: Sequence, start: int) -> Tensor:
    """Entropy over log(rows) of every row from `start` on, from a dense float64 softmax: [L, heads, rows]."""
    tiny = TINY[name]
    ids = torch.cat([sequence.request.prompt.ids, torch.tensor(sequence.ids[:-1])])
    bias = bias_of(sight(len(ids), tiny.windows))[:, None].repeat(1, tiny.model.config.num_attention_heads, 1, 1)
    see(sequence.state, bias, start)
    reference = type(tiny.dense)(sequence_model(name))
    _, weights = reference.run(ids, bias)
    found = []
    for layer, shares in enumerate(weights):
        rows = shares[:, start:]
        count = torch.isfinite(bias[layer, :, start:]).sum(-1)
        terms = torch.where(rows > 0, -rows * rows.clamp(min=1e-300).log(), 0.0).sum(-1)
        found.append(torch.where(count > 1, terms / count.double().log(), 0.0))
    return torch.stack(found)


def sequence_model(name: str) -> torch.nn.Module:
    """The model that `make_engine` runs, in float32."""
    return make_engine(name).adapter.model


@pytest.mark.parametrize("evict", POLICIES, ids=named)
@pytest.mark.parametrize("family", ["llama-r2", "qwen3-sliding"])
def test_entropy_is_that_of_a_dense_float64_softmax(family: str, evict: Policy, fp32: float) -> None:
    sequence, evidence = run(make_engine(family), ask(evict))
    expected = weigh_slowly(family, sequence, len(CONTEXT))
    found = torch.cat([evidence.question_entropy, evidence.answer_entropy], dim=2)
    assert evidence.question_entropy.shape[2] == len(QUESTION)
    assert evidence.answer_entropy.shape[2] == MAX_TOKENS - 1
    assert (found.double() - expected).abs().max() < fp32
    assert float(expected.min()) < 0.8
    assert SIGNALS["entropy"](evidence) == pytest.approx(
        float(expected[..., len(QUESTION) : len(QUESTION) + 6].mean((0, 1)).max()), abs=fp32
    )


@pytest.mark.parametrize("evict", [None, *POLICIES], ids=lambda evict: "full" if evict is None else named(evict))
@pytest.mark.parametrize("moment", ["context", "prompt"])
def test_collecting_changes_no_bit_of_the_answer(engine: Engine, evict: Policy | None, moment: str) -> None:
    asked, quiet = (engine.generate([ask(evict, moment, evidence)])[0] for evidence in (True, False))
    assert quiet.evidence is None
    assert asked.logprobs is None  # evidence has them, and the answer does not
    assert asked.ids == quiet.ids == asked.evidence.ids
    assert asked.receipt.output.min_margin == quiet.receipt.output.min_margin
    assert asked.receipt.certificate == quiet.receipt.certificate


def test_nothing_is_measured_where_nobody_asks(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> None:
        raise AssertionError("measured")

    monkeypatch.setattr("fewer.model.attention.show_rows", never)
    assert engine.generate([ask(policy(), evidence=False)])[0].evidence is None
    with pytest.raises(AssertionError, match="measured"):
        engine.generate([ask(policy())])


def test_what_there_is_by_policy_and_moment(engine: Engine) -> None:
    heads = engine.adapter.num_heads
    stream, aware = (run(engine, ask(policy(), moment))[1] for moment in ("context", "prompt"))
    assert stream.question.shape == stream.question_entropy.shape == (4, heads, len(QUESTION))
    assert (aware.question, aware.question_entropy) == (None, None)
    assert aware.answer.shape == aware.answer_entropy.shape == (4, heads, MAX_TOKENS - 1)
    assert aware.evicted_mass.shape == aware.boundary_margin.shape == (4, 2)
    certain = run(engine, ask(policy("snapkv")))[1]
    assert (certain.question, certain.answer) == (None, None)
    assert certain.answer_entropy.shape == (4, heads, MAX_TOKENS - 1)
    full = run(engine, ask(None))[1]
    assert [getattr(full, name) for name in TENSORS] == [None] * 6
    assert len(full.logprobs) == MAX_TOKENS
    covered = run(engine, ask(policy(budget=400)))[1]  # every row stays: attention has an entropy, nothing is lost
    assert covered.answer_entropy.shape == (4, heads, MAX_TOKENS - 1)
    assert (covered.answer, covered.evicted_mass) == (None, None)


def test_numbers_are_the_receipts_and_the_samplers(engine: Engine) -> None:
    request = ask(policy())
    request = replace(request, sampling=replace(request.sampling, logprobs=0))
    (answer,) = engine.generate([request])
    receipt, evidence = answer.receipt, answer.evidence
    assert SIGNALS["certificate"](evidence) == receipt.certificate.radius
    assert SIGNALS["certificate_mean"](evidence) == pytest.approx(receipt.certificate.mean)
    assert SIGNALS["certificate_largest"](evidence) == receipt.certificate.largest
    assert evidence.logprobs == tuple(entry.logprob for entry in answer.logprobs)
    assert SIGNALS["logprob"](evidence) == pytest.approx(-receipt.output.mean_logprob)


def same(one: Evidence, other: Evidence, tolerance: float) -> bool:
    for name in TENSORS:
        mine, theirs = getattr(one, name), getattr(other, name)
        if (mine is None) != (theirs is None):
            return False
        if mine is not None:
            gap = (mine - theirs).abs() / theirs.abs().clamp(min=1)
            if mine.shape != theirs.shape or float(gap.nan_to_num().max()) > tolerance:
                return False
    near = [abs(a - b) <= tolerance for a, b in zip(one.logprobs, other.logprobs, strict=True)]
    return one.ids == other.ids and all(near)


def test_a_packed_batch_has_the_evidence_of_each_alone(engine: Engine, fp32: float) -> None:
    requests = [ask(evict, moment, question=random_ids(at, 3 + at)) for at, evict in enumerate(POLICIES)
                for moment in ("context", "prompt")]  # fmt: skip
    packed = engine.generate([*requests, ask(None)])
    alone = [engine.generate([request])[0] for request in [*requests, ask(None)]]
    for one, other in zip(packed, alone, strict=True):
        assert one.receipt.run.batch_mates > other.receipt.run.batch_mates == 0
        assert same(one.evidence, other.evidence, fp32)
    assert not same(packed[0].evidence, packed[1].evidence, fp32)


@pytest.mark.parametrize("evict", POLICIES, ids=named)
def test_shared_prefills_have_the_evidence_of_each_alone(engine: Engine, evict: Policy, fp32: float) -> None:
    request = ask(evict, "prompt")
    other = replace(request, evict=None)
    outcomes = engine.fan_out([request, other, replace(request, sampling=replace(request.sampling, seed=4))])
    for way, outcome in zip([request, other], outcomes, strict=False):
        assert same(outcome.answer.evidence, engine.generate([way])[0].evidence, fp32)


def make(engine: Engine, evict: Policy) -> Session:
    session = Session(engine, evict)
    session.append(CONTEXT)
    session.compress()
    return session


def ask_session(session: Session, question: list[int] = QUESTION, **settings: object) -> Answer:
    return session.ask(question, **{**SAMPLING, "evidence": True, **settings})


@pytest.mark.parametrize("evict", POLICIES, ids=named)
def test_a_session_has_the_evidence_of_the_stream_condition(engine: Engine, evict: Policy, fp32: float) -> None:
    session = make(engine, evict)
    found = ask_session(session, keep=False).evidence
    assert same(found, run(engine, ask(evict))[1], fp32)
    assert ask_session(session, keep=False, evidence=False).evidence is None
    asked, quiet = (ask_session(session, keep=False, evidence=evidence).ids for evidence in (True, False))
    assert asked == quiet


def test_every_question_of_a_session_has_its_own(engine: Engine, tmp_path, fp32: float) -> None:  # type: ignore[no-untyped-def]
    session = make(engine, policy())
    first, second = (ask_session(session, random_ids(seed, 5), keep=False).evidence for seed in (3, 4))
    assert not same(first, second, fp32)
    assert torch.equal(first.evicted_mass, second.evicted_mass)  # of one compression
    ask_session(session, random_ids(3, 5))
    later = ask_session(session, random_ids(4, 5), keep=False).evidence
    assert later.question_entropy.shape[2] == later.question.shape[2] == 6  # the last answer's last token too
    session.save(tmp_path / "one")
    for other in (session.fork(), Session.load(tmp_path / "one", engine)):
        assert same(ask_session(other, random_ids(4, 5), keep=False).evidence, later, 0.0)


def test_evidence_after_several_compressions_is_of_the_last(engine: Engine) -> None:
    sequence, evidence = run(engine, ask(policy(every=3)))
    keeper = sequence.keeper
    assert len(keeper.evictions) > 2
    assert torch.equal(evidence.evicted_mass, keeper.evictions[-1].mass)
    assert evidence.answer_entropy.shape[2] == evidence.answer.shape[2] == MAX_TOKENS - 1
    blocks = run(engine, ask(policy(block=16)))[1]
    assert blocks.question.shape[2] == blocks.question_entropy.shape[2] == len(QUESTION)
    assert blocks.answer_entropy.shape[2] == MAX_TOKENS - 1
    known = run(engine, ask(policy(block=16), "prompt"))[1]
    assert (known.question, known.question_entropy) == (None, None)


def test_a_cancelled_answer_has_what_came(engine: Engine) -> None:
    batch = Batch(engine.adapter, engine.tokenizer, engine.end_tokens)
    sequence = batch.add(ask(policy()))
    for _ in range(5):
        batch.step()
    batch.cancel(sequence)
    evidence = engine._answer(sequence).evidence
    assert len(evidence.ids) == len(evidence.logprobs) == 4
    assert evidence.answer_entropy.shape[2] == evidence.answer.shape[2] == 3


@pytest.mark.parametrize("value", [1, "yes", None])
def test_evidence_is_asked_for_with_true(value: object) -> None:
    with pytest.raises(BadInput, match=r"evidence is .*; it must be True or False"):
        ask(policy(), evidence=value)  # type: ignore[arg-type]
