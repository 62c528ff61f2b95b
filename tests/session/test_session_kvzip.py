"""Sessions whose policy has the text repeated: what a compression repeats, and what a failed one leaves."""

from __future__ import annotations

import json

import pytest
import torch
from speaker import kept, make_engine, policy, random_ids, same_bits

from fewer import Engine, PromptTooLong, Request, Sampling
from fewer.engine import repeat
from fewer.session import Session
from fewer.session.asking import whole_prompt
from fewer.session.saved import _digest


@pytest.fixture(scope="module")
def engine() -> Engine:
    return make_engine()


def make(engine: Engine, name: str = "pivotal:kvzip", **settings: object) -> Session:
    session = Session(engine, policy(name, **{"budget": 20, **settings}), chat=False)
    session.append(random_ids(1, 70))
    return session


@pytest.fixture
def ids_repeated(monkeypatch) -> list[int]:
    """How many tokens each repeat began at, and how many had been seen."""
    calls: list[tuple[int, int]] = []
    plain = repeat.Repeater.repeat

    def note(self, state, ids, start, stretch):
        calls.append((start, ids.numel()))
        return plain(self, state, ids, start, stretch)

    monkeypatch.setattr(repeat.Repeater, "repeat", note)
    return calls


def test_a_compression_repeats_what_came_since_the_last_one(engine, ids_repeated) -> None:
    session = make(engine)
    first = session.compress()
    session.append(random_ids(2, 30))
    session.ask(random_ids(3, 6), max_tokens=4, ignore_eos=True)
    second = session.compress()
    assert ids_repeated == [(0, 70), (70, session.num_seen)]
    asks = len(engine.tokenizer(repeat._ASKS, add_special_tokens=False)["input_ids"])
    assert (first.repeated_tokens, second.repeated_tokens) == (70 + asks, session.num_seen - 70 + asks)
    assert int(second.rows_after.sum()) == second.rows_after.numel() * 20


def test_it_keeps_the_rows_of_a_request_that_is_compressed_before_its_question(engine) -> None:
    session = make(engine)
    session.compress()
    answer = session.ask(random_ids(3, 6), max_tokens=5, ignore_eos=True)
    prompt = whole_prompt([*random_ids(1, 70), *random_ids(3, 6)], 70)
    asked = Request(
        prompt, Sampling(max_tokens=5, ignore_eos=True), evict=policy("pivotal:kvzip", 20, moment="context")
    )
    (wanted,) = engine.generate([asked])
    assert answer.ids == wanted.ids
    assert answer.receipt.eviction.compressions[0].rows_after == wanted.receipt.eviction.compressions[0].rows_after


def test_loaded_it_goes_on_to_the_bit(engine, tmp_path) -> None:
    session = make(engine)
    session.compress()
    session.append(random_ids(2, 30))
    session.save(tmp_path / "kept")
    other = Session.load(tmp_path / "kept", engine)
    assert [each.repeated_tokens for each in other.evictions] == [each.repeated_tokens for each in session.evictions]
    for one in (session, other):
        assert one.compress().num_evicted > 0
    assert same_bits(session, other)
    assert kept(session) == kept(other)


@pytest.mark.parametrize("again", [False, True])
def test_a_repeat_that_fails_leaves_the_session_sound(engine, monkeypatch, again) -> None:
    session = make(engine)
    if again:
        session.compress()
        session.append(random_ids(2, 30))
    twin = session.fork()
    with monkeypatch.context() as patch:
        patch.setattr(repeat, "forward", lambda *_: (_ for _ in ()).throw(MemoryError("none left")))
        with pytest.raises(MemoryError, match="none left"):
            session.compress()
    assert same_bits(session, twin)
    assert session.compress().num_evicted == twin.compress().num_evicted > 0
    assert same_bits(session, twin)


def test_rolled_back_and_forked_it_compresses_alike(engine) -> None:
    session = make(engine)
    session.compress()
    other = session.fork()
    session.append(random_ids(8, 40))
    session.compress()
    session.rollback()
    for one in (session, other):
        one.append(random_ids(9, 25))
        one.compress()
    assert same_bits(session, other)


def test_block_by_block_the_cache_stays_within_its_bound(engine, ids_repeated) -> None:
    session = Session(engine, policy("kvzip", 20, block=16, layers="uniform"), chat=False)
    session.append(random_ids(1, 70))
    assert [start for start, _ in ids_repeated] == [0, 16, 32, 48]
    assert all(kv.num_rows <= 20 + 16 for kv in session._state.layers)


def test_without_a_position_left_it_says_so_and_the_session_goes_on() -> None:
    engine = make_engine(positions=128)
    session = Session(engine, policy("kvzip", 20), chat=False)
    session.append(random_ids(1, 110))
    with pytest.raises(PromptTooLong, match=r"kvzip has the model repeat its text, which takes .* the model has 128"):
        session.compress()
    assert len(session.ask(random_ids(2, 5), max_tokens=3, ignore_eos=True).ids) == 3


def test_a_repeat_that_fails_while_an_answer_is_written_leaves_the_session_as_it_was(engine, monkeypatch) -> None:
    session = make(engine, "kvzip", every=3)
    session.compress()
    twin = session.fork()
    plain, passes = repeat.forward, []

    def fail_later(adapter, segments):
        passes.append(segments)
        if len(passes) == 2:
            raise MemoryError("none left")
        return plain(adapter, segments)

    with monkeypatch.context() as patch:
        patch.setattr(repeat, "forward", fail_later)
        with pytest.raises(MemoryError, match="none left"):
            session.ask(random_ids(3, 6), max_tokens=12, ignore_eos=True)
    assert session.ids == twin.ids
    assert same_bits(session, twin)
    answers = [one.ask(random_ids(3, 6), max_tokens=12, ignore_eos=True) for one in (session, twin)]
    assert answers[0].ids == answers[1].ids
    assert same_bits(session, twin)


def test_a_question_that_is_not_kept_is_not_repeated_later(engine, ids_repeated) -> None:
    session = make(engine)
    session.compress()
    session.ask(random_ids(3, 6), max_tokens=4, ignore_eos=True, keep=False)
    assert session.compress() is None
    session.append(random_ids(2, 30))
    session.compress()
    assert ids_repeated == [(0, 70), (70, 100)]


def test_what_is_repeated_of_an_answer_are_its_own_tokens(engine, monkeypatch) -> None:
    seen: list[list[int]] = []
    plain = repeat.Repeater.repeat

    def note(self, state, ids, start, stretch):
        seen.append(ids.tolist())
        return plain(self, state, ids, start, stretch)

    monkeypatch.setattr(repeat.Repeater, "repeat", note)
    session = make(engine, "kvzip", every=5)
    session.compress()
    session.ask(random_ids(3, 6), max_tokens=12, ignore_eos=True)
    session.compress()
    assert len(seen) >= 3
    for ids in seen:
        assert ids == list(session.ids[: len(ids)])
    assert len(seen[-1]) == session.num_seen


def test_saved_before_repeats_were_counted_it_is_read_as_none(engine, tmp_path) -> None:
    session = make(engine, "snapkv")
    session.compress()
    session.save(tmp_path / "old")
    (path,) = (file for file in (tmp_path / "old").rglob("*.json") if "repeated_tokens" in file.read_text())
    header = json.loads(path.read_text())
    for each in header["keeper"]["evictions"]:
        assert each.pop("repeated_tokens") == 0
    del header["sha256"]
    path.write_text(json.dumps({**header, "sha256": _digest(header)}))
    assert [each.repeated_tokens for each in Session.load(tmp_path / "old", engine).evictions] == [0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_window_over_the_layers_and_narrow_numbers(dtype: torch.dtype) -> None:
    engine = make_engine("qwen3-sliding", dtype=dtype)
    session = make(engine, "pivotal:kvzip", heads="adaptive")
    for seed in (2, 4):
        eviction = session.compress()
        assert int(eviction.rows_after.sum()) == eviction.rows_after.numel() * 20
        assert int(eviction.rows_after[0].max()) <= 7  # the window of the first layer
        answer = session.ask(random_ids(seed, 6), max_tokens=4, ignore_eos=True)
        assert answer.receipt.certificate.kind == "estimate"
        assert answer.receipt.eviction.compressions[-1].repeated_tokens == eviction.repeated_tokens > 0
