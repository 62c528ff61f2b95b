"""Answers that are computed again: by which rule, with what, what the session keeps, and what the receipt says."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from speaker import KV_HEADS, NUM_LAYERS, answer_afresh, make_engine, policy, random_ids, same_bits

from fewer import Answer, BadInput, Engine, Gate, Policy, Receipt
from fewer.decide import SIGNALS, Evidence, calibrate
from fewer.session import Session
from fewer.session import turn as turn_module
from fewer.session.recompute import Recompute

CONTEXT, QUESTION = random_ids(2, 60), random_ids(11, 7)  # an answer that every cache below breaks
SAMPLING = {"max_tokens": 9, "ignore_eos": True, "logprobs": 1}


@dataclass
class Doubt:
    """A signal that says what it is told to, in turn."""

    says: list[float | None]
    name: str = "doubt"
    channel: str = "cache"

    def __call__(self, evidence: Evidence) -> float | None:
        assert evidence.ids
        return self.says.pop(0)


def make(engine: Engine, evict: Policy | None = None, seed: int = 5) -> Session:
    session = Session(engine, evict or policy(), seed=seed)
    session.append(CONTEXT)
    session.compress()
    return session


def ask(session: Session, question: list[int] = QUESTION, **settings: object) -> Answer:
    return session.ask(question, **{**SAMPLING, **settings})


def test_always_gives_the_full_caches_answer(engine: Engine) -> None:
    session, twin = make(engine), make(engine)
    alone, full = ask(twin, keep=False), answer_afresh(engine, CONTEXT + QUESTION, seed=5, **SAMPLING)
    answer = ask(session, keep=False, recompute="always")
    assert answer.ids == full.ids != alone.ids
    assert [entry.logprob for entry in answer.logprobs] == [entry.logprob for entry in full.logprobs]
    assert answer.first.ids == alone.ids
    assert answer.first.receipt.certificate == alone.receipt.certificate
    assert answer.first.receipt.gate is None
    assert same_bits(session, twin)
    assert session.ids == tuple(CONTEXT)
    assert len(session.answer_certificates) == 8
    assert alone.receipt.gate is None
    assert alone.first is None
    assert ask(session).ids == alone.ids  # the next one is not


def test_the_receipt_has_both_runs(engine: Engine) -> None:
    answer = ask(make(engine), recompute="always")
    record = answer.receipt.gate
    assert (record.rule, record.signal, record.value, record.threshold, record.level) == ("always", *[None] * 4)
    assert record.fired
    assert (record.reason, record.escalate) == ("every answer is computed again", "full")
    first, again = record.first, record.again
    assert (first.num_tokens, again.num_tokens) == (9, 9)
    assert (first.finish_reason, again.finish_reason) == ("length", "length")
    assert first.token_layers_computed == (7 + 8) * NUM_LAYERS
    assert again.token_layers_computed == (67 + 8) * NUM_LAYERS == answer.receipt.computed.token_layers_computed
    row = 2 * KV_HEADS * 12 * 4 * NUM_LAYERS
    assert (first.kv_used_bytes, again.kv_used_bytes) == ((20 + 15) * row, 75 * row)
    assert first.total_s == answer.first.receipt.seconds.total_s > 0
    assert again.total_s == answer.receipt.seconds.total_s > 0
    same = [mine == theirs for mine, theirs in zip(answer.ids, answer.first.ids, strict=True)]
    assert record.num_agreeing == same.index(False)
    assert record.kept_token_layers == (7 + 8) * NUM_LAYERS
    assert record.kept_s > 0
    assert (answer.receipt.eviction, answer.receipt.settings.evict) == (None, None)
    assert answer.receipt.prompt.num_before == 0
    assert Receipt.model_validate_json(answer.receipt.to_json()) == answer.receipt


def test_a_gate_recomputes_where_it_fires(engine: Engine) -> None:
    doubt = Doubt([0.2, 0.9, None, 0.4])
    gate = Gate(doubt, threshold=0.5)
    session, twin = make(engine), make(engine)
    answers = [ask(session, random_ids(number, 6), keep=False, recompute=gate) for number in range(4)]
    for number, answer in enumerate(answers):
        record, asked = answer.receipt.gate, random_ids(number, 6)
        assert (record.rule, record.signal, record.threshold) == ("threshold", "doubt", 0.5)
        assert record.fired == (number in (1, 2))
        assert record.value == [0.2, 0.9, None, 0.4][number]
        alone = ask(twin, asked, keep=False)
        if record.fired:
            assert answer.ids == answer_afresh(engine, CONTEXT + asked, seed=5, **SAMPLING).ids
            assert answer.first.ids == alone.ids
        else:
            assert answer.ids == alone.ids
            assert (answer.first, record.again, record.num_agreeing) == (None, None, None)
    assert answers[0].receipt.gate.reason == "doubt 0.2 is not above 0.5"
    assert (gate.num_decided, gate.num_fired, doubt.says) == (4, 2, [])
    assert same_bits(session, twin)


@pytest.mark.parametrize("name", sorted(set(SIGNALS) - {"disagreement"}))
def test_every_signal_of_one_answer_has_a_value_here(engine: Engine, name: str) -> None:
    record = ask(make(engine), keep=False, recompute=Gate(name, threshold=1e9)).receipt.gate
    assert record.value is not None
    assert not record.fired
    assert "is not above 1e+09" in record.reason


def test_a_rate_holds_over_a_session(engine: Engine) -> None:
    session, gate = make(engine), Gate("certificate", rate=0.5, slack=0)
    records = [ask(session, random_ids(n, 3), keep=False, recompute=gate).receipt.gate for n in range(8)]
    fired = [record.fired for record in records]
    assert all(sum(fired[:count]) <= count / 2 for count in range(1, 9))
    assert 0 < sum(fired) == gate.num_fired
    assert {(record.rule, record.level) for record in records} == {("rate", 0.5)}


def test_where_nothing_was_evicted_no_gate_is_asked(engine: Engine) -> None:
    gate = Gate("certificate", rate=1.0)
    whole = Session(engine, policy(budget=400))
    whole.append(CONTEXT)
    whole.compress()
    early, plain = Session(engine, policy()), Session(engine)
    for session in (whole, early, plain):
        session.append(random_ids(3, 5))
        for rule in (gate, "always"):
            record = ask(session, recompute=rule).receipt.gate
            assert not record.fired
            assert record.reason == "nothing has left the cache, so this is the full cache's answer"
    assert gate.num_decided == 0


SETTINGS = [{}, {"block": 8}, {"every": 4}, {"every": 4, "block": 16}]


@pytest.mark.parametrize("settings", SETTINGS)
def test_the_answer_that_was_given_stays(engine: Engine, settings: dict[str, int]) -> None:
    session, twin = make(engine, policy(**settings)), make(engine, policy(**settings))
    before = session.ids
    answer = ask(session, recompute="always")
    assert answer.ids != answer.first.ids
    assert session.ids == (*before, *QUESTION, *answer.ids)
    assert session.num_seen == len(session.ids) - 1
    twin.append([*QUESTION, *answer.ids[:-1]])
    if "every" in settings:
        assert session.evictions[-1].num_seen == session.num_seen  # what an answer of its own would have done by then
        twin.compress()
    assert same_bits(session, twin)
    assert [each.num_seen for each in session.evictions] == [each.num_seen for each in twin.evictions]
    after = ask(session, random_ids(4, 5))
    assert after.ids == ask(twin, [answer.ids[-1], *random_ids(4, 5)]).ids
    session.rollback()
    assert session.ids == (*before, *QUESTION, *answer.ids)


def test_rollback_goes_behind_a_recomputed_answer(engine: Engine) -> None:
    session, twin = make(engine, policy(every=4)), make(engine, policy(every=4))
    ask(session, recompute="always")
    session.rollback()
    assert session.ids == twin.ids
    assert same_bits(session, twin)
    assert ask(session).ids == ask(twin).ids


def test_answers_that_agree_are_not_read_again(engine: Engine, fp32: float) -> None:
    session, twin = make(engine, policy(budget=58)), make(engine, policy(budget=58))
    answer, alone = ask(session, recompute="always"), ask(twin)
    record = answer.receipt.gate
    assert answer.ids == answer.first.ids == alone.ids
    assert record.num_agreeing == 9
    assert (record.kept_token_layers, record.kept_s) == (0, 0.0)
    assert same_bits(session, twin)


def test_a_larger_budget(engine: Engine) -> None:
    session, twin = make(engine), make(engine)
    answer = ask(session, keep=False, recompute="always", escalate="80%")
    (each,) = answer.receipt.eviction.compressions
    assert each.num_seen == 67
    assert {count for layer in each.rows_after for count in layer} == {54}
    assert answer.receipt.gate.escalate == "80%"
    assert answer.receipt.settings.evict == {**policy(budget="80%").describe()}
    assert answer.receipt.certificate.kind == "estimate"
    again = ask(twin, keep=False, recompute="always", escalate="80%")
    assert again.ids == answer.ids
    assert again.receipt.certificate == answer.receipt.certificate
    assert same_bits(session, twin)
    other = ask(make(engine, seed=6), keep=False, recompute="always", escalate="80%", seed=5)
    assert other.receipt.certificate != answer.receipt.certificate  # another draw for another session


@pytest.mark.parametrize("signal", ["certificate", "logprob"])
def test_evidence_is_there_where_it_was_asked_for(engine: Engine, signal: str) -> None:
    answer = ask(make(engine), recompute=Gate(signal, threshold=0.0), keep=False)
    assert SIGNALS[signal](answer.first.evidence) == answer.receipt.gate.value
    assert answer.evidence is None
    assert ask(make(engine), recompute="always", keep=False).first.evidence is None
    assert ask(make(engine), recompute="always", keep=False, evidence=True).first.evidence is not None


def test_the_second_cache_is_freed(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = []

    def begin(self: Recompute, *arguments: object) -> object:
        begun.append(original(self, *arguments))
        return begun[-1]

    original = Recompute.begin
    monkeypatch.setattr(Recompute, "begin", begin)
    ask(make(engine), recompute="always")
    assert [sequence.state.layers for sequence in begun] == [[]]


@pytest.mark.parametrize("settings", [{}, {"every": 4, "block": 16}])
@pytest.mark.parametrize("fault", ["begin", "second", "decide", "read"])
def test_what_fails_changes_nothing(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, settings: dict[str, int], fault: str
) -> None:
    session, twin = make(engine, policy(**settings)), make(engine, policy(**settings))
    ask(session, keep=False)
    certificates = session.answer_certificates

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("the end")

    def write(self: turn_module.Turn, sequence: object, run: str) -> object:
        return fail() if run == "again" else original(self, sequence, run)

    original = turn_module.Turn._write
    if fault == "second":
        monkeypatch.setattr(turn_module.Turn, "_write", write)
    else:
        place = {"begin": Recompute, "decide": Recompute, "read": Session}[fault]
        monkeypatch.setattr(place, "_read" if fault == "read" else fault, fail)
    with pytest.raises(RuntimeError, match="the end"):
        ask(session, recompute="always")
    monkeypatch.undo()
    assert session.ids == twin.ids
    assert same_bits(session, twin)
    assert session.answer_certificates is certificates
    assert ask(session, recompute="always").ids == ask(twin, recompute="always").ids
    assert same_bits(session, twin)


def test_a_calibrated_gate_knows_its_model_and_policy(engine: Engine, tmp_path: Path) -> None:
    gate = calibrate(
        "certificate",
        [0.001 * number for number in range(19)],
        [0.0] * 18 + [1.0],
        0.05,
        data="made up",
        loss="broken",
        facts=engine.adapter.facts,
        policy=policy().describe(),
    )
    record = ask(make(engine), keep=False, recompute=gate).receipt.gate
    assert (record.rule, record.level, record.fired) == ("calibrated", 0.05, True)
    assert record.reason.endswith("calibrated on made up to risk 0.05")
    with pytest.raises(BadInput, match=r"the model is .* which the gate was calibrated for"):
        ask(make(make_engine(seed=1)), recompute=gate)
    with pytest.raises(BadInput, match=r"the policy is 'budget\.keep 24 tokens"):
        ask(make(engine, policy(budget=24)), recompute=gate)
    with pytest.raises(BadInput, match="escalate is '50%'; it must be 'full' with a calibrated gate"):
        ask(make(engine), recompute=gate, escalate="50%")
    with pytest.raises(BadInput, match="the policy is"):
        ask(Session(engine), recompute=replace(gate))


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"recompute": "sometimes"}, "recompute is 'sometimes'; it must be 'never', 'always' or a Gate"),
        ({"recompute": None}, "recompute is None"),
        ({"recompute": Gate}, "recompute is .*; it must be"),
        ({"escalate": "full"}, "escalate is 'full'; it must be left out where nothing is recomputed"),
        ({"recompute": "always", "escalate": "10%"}, r"escalate is '10% \(7 rows\)'; .* 20 tokens \(20 rows of 67"),
        ({"recompute": "always", "escalate": 20}, "escalate is '20 tokens"),
        ({"recompute": "always", "escalate": "most"}, "escalate is 'most'; it must be a whole number"),
        ({"recompute": "always", "escalate": 0.0}, "escalate is 0.0"),
        ({"recompute": "always", "escalate": np.array([20, 30])}, r"escalate is array\(\[20, 30\]\)"),
        ({"recompute": np.array([1, 2])}, r"recompute is array\(\[1, 2\]\); it must be 'never', 'always' or a Gate"),
    ],
)
def test_bad_settings(engine: Engine, settings: dict[str, object], match: str) -> None:
    session = make(engine)
    with pytest.raises(BadInput, match=match):
        ask(session, **settings)
    assert session.ids == tuple(CONTEXT)


def test_no_budget_without_a_policy(engine: Engine) -> None:
    session = Session(engine)
    session.append(CONTEXT)
    with pytest.raises(BadInput, match="escalate is '50%'; it must be 'full' in a session without a policy"):
        ask(session, recompute="always", escalate="50%")


def test_a_signal_may_not_return_just_anything(engine: Engine) -> None:
    session = make(engine)
    with pytest.raises(BadInput, match="value is tensor"):
        ask(session, recompute=Gate(Doubt([torch.tensor(1.0)]), rate=0.5))
    assert session.ids == tuple(CONTEXT)
