"""One turn of a session: what fails at its end, or asks the session in its middle, changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from speaker import policy, random_ids, same_bits

from fewer import Answer, BadInput, Engine, Gate, Policy
from fewer.decide import Evidence
from fewer.engine.keeper import Keeper
from fewer.session import Session
from fewer.session.recompute import Recompute
from fewer.session.transcript import Transcript

CONTEXT, QUESTION = random_ids(2, 60), random_ids(11, 7)  # an answer that the cache breaks
SAMPLING = {"max_tokens": 9, "ignore_eos": True}


@dataclass
class Acting:
    """A signal that does something first."""

    act: Callable[[], object]
    name: str = "acting"
    channel: str = "cache"

    def __call__(self, evidence: Evidence) -> float:
        self.act()
        return 1.0


def make(engine: Engine, evict: Policy | None = None) -> Session:
    session = Session(engine, evict or policy(), seed=5)
    session.append(CONTEXT)
    session.compress()
    return session


def ask(session: Session, question: list[int] = QUESTION, **settings: object) -> Answer:
    return session.ask(question, **{**SAMPLING, **settings})


@pytest.mark.parametrize(
    ("fault", "rule", "keep"),
    [
        ("give", "always", True),
        ("give", "always", False),
        ("add_answer", "always", True),
        ("add_answer", "never", True),
    ],
)
def test_what_fails_at_the_end_changes_nothing_either(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, fault: str, rule: str, keep: bool
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("the end")

    session, twin = make(engine), make(engine)
    monkeypatch.setattr(Recompute if fault == "give" else Transcript, fault, fail)
    with pytest.raises(RuntimeError, match="the end"):
        ask(session, recompute=rule, keep=keep)
    monkeypatch.undo()
    assert (session.ids, session.num_seen) == (twin.ids, twin.num_seen)
    assert same_bits(session, twin)
    assert ask(session).ids == ask(twin).ids


@pytest.mark.parametrize("action", ["ask", "append", "compress", "rollback"])
def test_a_signal_cannot_change_the_session_that_asks_it(engine: Engine, action: str) -> None:
    session, twin = make(engine), make(engine)

    def act() -> None:
        getattr(session, action)(*([3],) if action in ("ask", "append") else ())

    gate = Gate(Acting(act), threshold=0.0)
    with pytest.raises(BadInput, match="session is 'in the middle of an answer'"):
        ask(session, recompute=gate)
    assert (session.ids, session.num_seen) == (twin.ids, twin.num_seen)
    assert same_bits(session, twin)
    assert ask(session).ids == ask(twin).ids


@pytest.mark.parametrize("rule", ["never", Gate("logprob", threshold=0.0)])
@pytest.mark.parametrize("evidence", [None, 0, 1, "yes", []])
def test_evidence_is_true_or_false(engine: Engine, rule: object, evidence: object) -> None:
    with pytest.raises(BadInput, match=r"evidence is .*; it must be True or False"):
        ask(make(engine), recompute=rule, evidence=evidence)


def test_seconds_of_compressing_before_a_question_are_no_part_of_its_prefill(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = make(engine, policy(block=8, every=400))
    ask(session)  # its rows fill the block, so the next question begins with a compression
    begun: list[Keeper] = []

    def slow(self: Keeper, *arguments: object) -> object:
        begun.append(self)
        self.seconds += 1000.0
        return original(self, *arguments)

    original = Keeper.compress
    monkeypatch.setattr(Keeper, "compress", slow)
    receipt = ask(session, [3], max_tokens=1).receipt
    assert len(begun) == 1
    assert 0 < receipt.seconds.prefill_s <= receipt.seconds.total_s
    assert receipt.seconds.evict_s > 1000
