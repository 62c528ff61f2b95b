"""Answers of a session while they are written: what is shown and held back, and what stays when it is cut short."""

from __future__ import annotations

import gc

import pytest
from speaker import policy, random_ids, same_bits

from fewer import Answer, BadInput, Engine, Gate, PromptTooLong
from fewer.engine import batch as batch_module
from fewer.session import Session
from fewer.session.stream import SessionStream

CONTEXT, QUESTION = random_ids(2, 60), random_ids(11, 7)  # an answer that the cache breaks
SAMPLING = {"max_tokens": 9, "ignore_eos": True}
FIRES, STANDS = {"recompute": "always"}, {"recompute": Gate("certificate", threshold=1e9)}


def make(engine: Engine, compressed: bool = True, **settings: int) -> Session:
    session = Session(engine, policy(**settings), seed=5)
    session.append(CONTEXT)
    if compressed:
        session.compress()
    return session


def stream(session: Session, **settings: object) -> SessionStream:
    return session.stream(QUESTION, **{**SAMPLING, **settings})


def ask(session: Session, **settings: object) -> Answer:
    return session.ask(QUESTION, **{**SAMPLING, **settings})


def runs(pieces: list[str]) -> list[str]:
    return [piece.run for piece in pieces]


@pytest.mark.parametrize("settings", [{}, FIRES, STANDS, {"recompute": "always", "escalate": "90%"}])
@pytest.mark.parametrize("show", ["final", "both"])
@pytest.mark.parametrize("keep", [True, False])
def test_it_is_what_ask_gives(engine: Engine, settings: dict[str, object], show: str, keep: bool) -> None:
    session, twin = make(engine), make(engine)
    streaming, asked = stream(session, show=show, keep=keep, **settings), ask(twin, keep=keep, **settings)
    pieces = list(streaming)
    answer = streaming.answer
    assert answer.ids == asked.ids
    assert answer.text == asked.text
    assert (answer.first and answer.first.ids) == (asked.first and asked.first.ids)
    assert (answer.receipt.gate is None) == (not settings)
    assert session.ids == twin.ids
    assert same_bits(session, twin)
    final = "again" if answer.first else "first"
    assert "".join(piece for piece in pieces if piece.run == final) == answer.text
    if answer.first and show == "both":
        assert "".join(piece for piece in pieces if piece.run == "first") == answer.first.text
        assert runs(pieces) == sorted(runs(pieces), reverse=False, key=["first", "again"].index)
    else:
        assert set(runs(pieces)) <= {final}
    assert list(streaming) == []
    assert streaming.answer is answer


def test_it_is_held_back_only_while_it_may_change(engine: Engine) -> None:
    many = [len(list(stream(make(engine), **settings))) for settings in ({}, FIRES, STANDS)]
    assert many[0] > 2
    assert many[1] > 2  # the second run, as it is written
    assert many[2] == 1  # the first run, at once when the gate has decided
    assert len(list(stream(make(engine, compressed=False), **FIRES))) > 2  # nothing has left the cache
    assert len(list(stream(make(engine, compressed=False, every=400), **STANDS))) == 1  # something may


def test_nothing_is_shown_before_the_decision(engine: Engine) -> None:
    gate = Gate("certificate", threshold=1e9)
    for _ in stream(make(engine), recompute=gate):
        assert gate.num_decided == 1
    assert gate.num_decided == 1


def test_the_answer_without_reading_the_pieces(engine: Engine) -> None:
    for settings in ({}, FIRES, STANDS):
        assert stream(make(engine), **settings).answer.ids == ask(make(engine), **settings).ids
        streaming = stream(make(engine), **settings)
        for _ in streaming:
            break
        assert streaming.answer.ids == ask(make(engine), **settings).ids


@pytest.mark.parametrize("settings", [{}, {"every": 4, "block": 8}])
@pytest.mark.parametrize("count", [0, 1, 3])
def test_closed_early_nothing_stays(engine: Engine, settings: dict[str, int], count: int) -> None:
    session, twin = make(engine, **settings), make(engine, **settings)
    with stream(session) as streaming:
        pieces = [piece for _, piece in zip(range(count), streaming, strict=False)]
    answer = streaming.answer
    assert answer.finish_reason == "cancelled"
    assert answer.text == "".join(pieces)
    assert len(answer.ids) < 9
    assert session.ids == twin.ids
    assert same_bits(session, twin)
    assert ask(session).ids == ask(twin).ids


def test_closed_in_the_second_run(engine: Engine) -> None:
    session, twin = make(engine), make(engine)
    with stream(session, **FIRES) as streaming:
        piece = next(iter(streaming))
    answer = streaming.answer
    assert (piece.run, answer.text, answer.finish_reason) == ("again", piece, "cancelled")
    assert answer.first.ids == ask(make(engine)).ids
    record = answer.receipt.gate
    assert (record.fired, record.again.finish_reason, record.first.finish_reason) == (True, "cancelled", "length")
    assert same_bits(session, twin)


@pytest.mark.parametrize("settings", [{}, {"show": "both", "recompute": "always"}])
def test_closed_right_behind_the_last_piece(engine: Engine, settings: dict[str, object]) -> None:
    many = [piece.run for piece in stream(make(engine), **settings)].count("first")
    session, twin = make(engine), make(engine)
    with stream(session, **settings) as streaming:
        pieces = [piece for _, piece in zip(range(many), streaming, strict=False)]
    assert streaming.answer.text == "".join(pieces)
    assert (streaming.answer.finish_reason, len(streaming.answer.ids)) == ("cancelled", 9)
    assert session.ids == twin.ids
    assert same_bits(session, twin)


def test_closed_before_the_decision(engine: Engine) -> None:
    session = make(engine)
    with stream(session, show="both", **FIRES) as streaming:
        assert next(iter(streaming)).run == "first"
    answer = streaming.answer
    assert (answer.finish_reason, answer.first, answer.receipt.gate) == ("cancelled", None, None)
    assert session.ids == tuple(CONTEXT)


def test_the_session_waits_for_its_stream(engine: Engine) -> None:
    session = make(engine)
    streaming = stream(session)
    for begun in (False, True):
        if begun:
            next(iter(streaming))
        for action in (
            session.compress,
            session.fork,
            session.rollback,
            lambda: session.append([1]),
            lambda: ask(session),
        ):
            with pytest.raises(BadInput, match=r"session is 'in the middle of an answer'; .* close"):
                action()
    streaming.close()
    streaming.close()
    assert ask(session).ids == ask(make(engine)).ids


def test_a_stream_that_is_forgotten_lets_go(engine: Engine) -> None:
    session, twin = make(engine), make(engine)
    streaming = stream(session)
    next(iter(streaming))
    del streaming
    gc.collect()
    assert same_bits(session, twin)
    assert ask(session).ids == ask(twin).ids


def test_an_error_leaves_the_session_as_it_was(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    session, twin = make(engine), make(engine)
    streaming = stream(session)
    pieces = iter(streaming)
    next(pieces)

    def fail(*_: object) -> None:
        raise RuntimeError("the end")

    monkeypatch.setattr(batch_module, "forward", fail)
    with pytest.raises(RuntimeError, match="the end"):
        list(pieces)
    with pytest.raises(RuntimeError, match="the end"):
        _ = streaming.answer
    monkeypatch.undo()
    streaming.close()
    assert same_bits(session, twin)
    assert ask(session).ids == ask(twin).ids


def test_an_interrupt_leaves_what_was_written(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    session, twin = make(engine), make(engine)
    streaming = stream(session, **FIRES)
    pieces = iter(streaming)
    piece = next(pieces)

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(batch_module, "forward", stop)
    with pytest.raises(KeyboardInterrupt):
        list(pieces)
    monkeypatch.undo()
    answer = streaming.answer
    assert (answer.finish_reason, answer.text) == ("cancelled", piece)
    assert answer.first.ids == ask(make(engine)).ids
    assert same_bits(session, twin)


def test_what_is_wrong_is_said_at_once(engine: Engine) -> None:
    session = make(engine)
    for settings, error, match in (
        ({"show": "all"}, BadInput, "show is 'all'; it must be 'final' or 'both'"),
        ({"recompute": "often"}, BadInput, "recompute is 'often'"),
        ({"top_k": 10**6}, BadInput, "top_k is 1000000"),
        ({"max_tokens": 10**6}, PromptTooLong, "model has 512 positions"),
    ):
        with pytest.raises(error, match=match):
            stream(session, **settings)
    with pytest.raises(TypeError, match="unknown keyword 'max_token'"):
        stream(session, max_token=3)
    assert ask(session).ids == ask(make(engine)).ids
