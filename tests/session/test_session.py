"""Where nothing was evicted a session answers as a fresh prefill of its tokens would, whatever happened on the way."""

from __future__ import annotations

import importlib
import tempfile
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from speaker import VOCAB, answer_afresh, ask_and_compare, make_engine, policy, random_ids, same_bits

from fewer import BadInput, Engine, ModelError, NonFiniteError, PromptTooLong
from fewer.engine import batch as batch_module
from fewer.session import Session


@pytest.mark.parametrize("family", ["llama-r2", "qwen3-sliding", "gemma3", "smollm3-sliding", "olmo2"])
def test_a_conversation_is_one_long_prompt(family: str, fp32: float) -> None:
    session = Session(make_engine(family))
    assert session.append(random_ids(1, 40)) == 40
    for turn in range(3):
        ask_and_compare(session, random_ids(10 + turn, 7), fp32)
        session.append(random_ids(20 + turn, 3 + turn))
    assert session.num_seen == len(session.ids) == 40 + 3 * 12 + 3 + 4 + 5


def test_texts_and_turns(engine: Engine, fp32: float) -> None:
    session = Session(engine)
    session.append([{"role": "system", "content": "Be short."}, {"role": "user", "content": "A hat."}])
    session.append("A cat.")
    ask_and_compare(session, "What is there?", fp32)
    answer = session.ask("And?", max_tokens=60)
    again = ask_and_compare(session, "Then?", fp32)
    assert answer.receipt.prompt.num_tokens < again.receipt.prompt.num_tokens
    assert Session(engine).ask("hello", max_tokens=8).ids == engine.ask("hello", max_tokens=8).ids


def test_many_questions_over_one_context(engine: Engine, fp32: float) -> None:
    session, untouched = Session(engine), Session(engine)
    for one in (session, untouched):
        one.append(random_ids(1, 50))
    for question in range(4):
        ask_and_compare(session, random_ids(question, 6), fp32, keep=False)
        assert session.ids == tuple(random_ids(1, 50))
        assert same_bits(session, untouched)
    assert session.append(random_ids(9, 4)) == 4
    session.rollback()
    assert session.ids == tuple(random_ids(1, 50))


def test_sampling_is_that_of_a_fresh_request(engine: Engine) -> None:
    session = Session(engine, seed=3)
    session.append(random_ids(1, 30))
    wanted = {"max_tokens": 8, "temperature": 0.8, "top_p": 0.9, "repetition_penalty": 1.2}
    answer = session.ask(random_ids(2, 4), keep=False, **wanted)
    ids = random_ids(1, 30) + random_ids(2, 4)
    assert answer.ids == answer_afresh(engine, ids, seed=3, **wanted).ids
    other = session.ask(random_ids(2, 4), keep=False, seed=4, **wanted)
    assert other.ids == answer_afresh(engine, ids, seed=4, **wanted).ids != answer.ids
    assert (answer.receipt.run.seed, other.receipt.run.seed) == (3, 4)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["append", "ask", "ask once", "rollback", "fork", "save"]), st.integers(0, 1), st.integers(1, 9)
    ),
    min_size=3,
    max_size=9,
)


@settings(max_examples=8, deadline=None, derandomize=True)
@given(steps=STEPS)
def test_two_sessions_interleaved_whatever_is_done_to_them(
    engine: Engine, fp32: float, steps: list[tuple[str, int, int]]
) -> None:
    sessions = [Session(engine), Session(engine, policy(budget=400))]
    held: list[list[tuple[int, ...]]] = [[()], [()]]  # what rollback may go back to, and what is there
    for number, (what, which, size) in enumerate(steps):
        session = sessions[which]
        if what == "append":
            session.append(random_ids(number, size))
            held[which] = [held[which][-1], (*held[which][-1], *random_ids(number, size))]
        elif what == "ask":
            ask_and_compare(session, random_ids(number, size), fp32)
            assert session.ids[: len(held[which][-1])] == held[which][-1]
            held[which] = [held[which][-1], session.ids]
        elif what == "ask once":
            ask_and_compare(session, random_ids(number, size), fp32, keep=False)
        elif what == "rollback" and len(held[which]) > 1:
            session.rollback()
            held[which].pop()
        elif what == "fork":
            fork = session.fork()
            session.ask(random_ids(99, 3), max_tokens=2)
            sessions[which] = fork
        elif what == "save":
            with tempfile.TemporaryDirectory() as folder:
                session.save(Path(folder) / "session")
                sessions[which] = Session.load(Path(folder) / "session", engine)
            held[which] = held[which][-1:]
        if which and sessions[1].ids:
            sessions[1].compress()
        assert [one.ids for one in sessions] == [ids[-1] for ids in held]
    for which in (0, 1):
        ask_and_compare(sessions[which], random_ids(50, 4), fp32)
    assert sessions[1].evictions == ()


def test_rollback_goes_back_once(engine: Engine, fp32: float) -> None:
    session = Session(engine)
    with pytest.raises(BadInput, match="nothing to go back to"):
        session.rollback()
    session.append(random_ids(1, 30))
    session.ask(random_ids(2, 5), max_tokens=4)
    session.rollback()
    assert session.ids == tuple(random_ids(1, 30))
    with pytest.raises(BadInput, match="nothing to go back to"):
        session.rollback()
    ask_and_compare(session, random_ids(3, 5), fp32)


def test_rollback_gives_memory_back(engine: Engine) -> None:
    session = Session(engine)
    session.append(random_ids(1, 10))
    before = session.nbytes
    session.append(random_ids(2, 450))
    assert session.nbytes > 4 * before
    session.rollback()
    assert session.nbytes == before


@pytest.mark.parametrize("failing", [1, 2, 4])
@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_an_ask_that_fails_changes_nothing(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, fp32: float, failing: int, error: type[BaseException]
) -> None:
    evict = policy("systematic:snapkv", 20, every=3)
    for session in (Session(engine), Session(engine, evict)):
        session.append(random_ids(1, 40))
        twin, ids = session.fork(), session.ids
        real, calls = batch_module.forward, []

        def break_down(*given: object, real=real, calls=calls, **more: object) -> object:  # type: ignore[no-untyped-def]
            calls.append(1)
            if len(calls) == failing:
                raise error("stop")
            return real(*given, **more)

        with monkeypatch.context() as patch:
            patch.setattr(batch_module, "forward", break_down)
            with pytest.raises(error):
                session.ask(random_ids(2, 6), max_tokens=8, ignore_eos=True)
        assert session.ids == ids
        assert same_bits(session, twin)
        again = [one.ask(random_ids(2, 6), max_tokens=8, ignore_eos=True) for one in (session, twin)]
        assert again[0].ids == again[1].ids
        assert again[0].receipt.certificate == again[1].receipt.certificate


@pytest.mark.parametrize("name", ["snapkv", "poisson:h2o"])
@pytest.mark.parametrize(("where", "calls"), [("_choose", 3), ("_apply", 1), ("_apply", 3)])
def test_a_compression_that_is_interrupted(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, name: str, where: str, calls: int
) -> None:
    session = Session(engine, policy(name, 24))
    session.append(random_ids(1, 60))
    session.append(random_ids(3, 10))
    twin = session.fork()
    module = importlib.import_module("fewer.evict.compress")
    real, count = getattr(module, where), []

    def break_down(*given: object) -> object:
        count.append(1)
        if len(count) == calls:
            raise KeyboardInterrupt
        return real(*given)

    with monkeypatch.context() as patch:
        patch.setattr(module, where, break_down)
        with pytest.raises(KeyboardInterrupt):
            session.compress()
    if where == "_choose" or (calls == 1 and name == "snapkv"):  # nothing had changed
        assert same_bits(session, twin)
        assert session.compress().num_evicted == twin.compress().num_evicted
        assert session.ask([1, 2], max_tokens=6).ids == twin.ask([1, 2], max_tokens=6).ids
        return
    for call in (session.compress, session.fork, lambda: session.ask("a"), lambda: session.append("a")):
        with pytest.raises(BadInput, match=r"interrupted while it was compressed.*rollback\(\)"):
            call()
    session.rollback()
    twin.rollback()
    assert session.ids == tuple(random_ids(1, 60))
    assert same_bits(session, twin)
    assert session.compress().num_evicted == twin.compress().num_evicted
    assert session.ask([1, 2], max_tokens=6).ids == twin.ask([1, 2], max_tokens=6).ids


def test_a_model_that_breaks_down(fp32: float) -> None:
    broken = make_engine()
    session = Session(broken)
    session.append(random_ids(1, 20))
    weight = broken.adapter.model.model.norm.weight
    healthy = weight.data.clone()
    weight.data.fill_(float("nan"))
    with pytest.raises(NonFiniteError, match="not finite"):
        session.ask(random_ids(2, 4), max_tokens=3)
    weight.data.copy_(healthy)
    assert session.ids == tuple(random_ids(1, 20))
    ask_and_compare(session, random_ids(2, 4), fp32)


def test_what_does_not_fit_is_refused_before_it_is_read() -> None:
    session = Session(make_engine(positions=64))
    session.append(random_ids(1, 50))
    with pytest.raises(PromptTooLong, match=r"has 50 tokens and 20 more.*64 positions, which leaves 14"):
        session.ask(random_ids(2, 10), max_tokens=10)
    with pytest.raises(PromptTooLong, match="has 50 tokens and 15 more"):
        session.append(random_ids(2, 15))
    assert session.append(random_ids(2, 14)) == 14
    assert len(session.ids) == session.num_seen == 64


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda s: s.append(""), "text is ''; it must be a text that is not blank"),
        (lambda s: s.append("  \n"), "not blank"),
        (lambda s: s.append([]), "at least one token id"),
        (lambda s: s.append(torch.zeros(0, dtype=torch.int64)), "at least one token id"),
        (lambda s: s.append(None), "at least one token id"),
        (lambda s: s.append([1.5]), "at least one token id"),
        (lambda s: s.append([0, VOCAB]), f"from 0 to {VOCAB - 1}"),
        (lambda s: s.append([0, -1]), "from 0 to"),
        (lambda s: s.append("\ud800"), "valid Unicode"),
        (lambda s: s.append([{"role": "user"}]), "role and content"),
        (lambda s: s.append([{"role": "user", "content": 3}]), "role and content"),
        (lambda s: s.append([{"role": "user", "content": " "}]), "not blank"),
        (lambda s: s.append([{"role": "", "content": "a"}]), "such as user"),
        (lambda s: s.ask(" "), "not blank"),
        (lambda s: s.ask([]), "at least one token id"),
        (lambda s: s.ask("a", keep="no"), "True or False"),
        (lambda s: s.ask("a", max_tokens=0), "max_tokens"),
        (lambda s: s.compress(), "a Policy where a session is compressed"),
        (lambda s: Session(s.engine, policy()).compress(), "Append something first"),
        (lambda s: Session(s.engine, policy(moment="context")), r"Call compress\(\)"),
        (lambda s: Session(s.engine, "snapkv"), "a Policy or None"),
        (lambda s: Session(s.engine, seed=-1), "seed"),
        (lambda s: Session(s.engine, chat=1), "True or False"),
        (lambda s: Session("engine"), "Engine.load"),
        (lambda s: Session(s.engine, chat=False).append([{"role": "user", "content": "a"}]), "without a chat template"),
    ],
)
def test_bad_input_is_a_clear_sentence_and_changes_nothing(engine: Engine, call, words: str) -> None:  # type: ignore[no-untyped-def]
    session = Session(engine)
    session.append(random_ids(1, 10))
    with pytest.raises(BadInput, match=words):
        call(session)
    assert session.ids == tuple(random_ids(1, 10))
    assert session.num_seen == 10


def test_unknown_keywords_and_templates(engine: Engine) -> None:
    with pytest.raises(
        TypeError, match="unknown keyword 'max_token'; known ones are keep, evidence, recompute, escalate, max_tokens"
    ):
        Session(engine).ask("a", max_token=3)
    assert issubclass(ModelError, ValueError)
