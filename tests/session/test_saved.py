"""Sessions on disk: whole or not there, checked, and refused where they cannot mean what they did."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections import namedtuple
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from speaker import make_engine, policy, random_ids, same_bits

from fewer import BadInput, Engine, StorageError
from fewer.session import Session, saved


@pytest.fixture
def session(engine: Engine) -> Session:
    made = Session(engine, policy(), seed=4)
    made.append("A hat and a cat." * 4)
    made.compress()
    made.ask("What?", max_tokens=4)
    return made


@pytest.fixture
def place(session: Session, tmp_path: Path) -> Path:
    session.save(tmp_path / "kept")
    return tmp_path / "kept"


def test_what_is_on_the_disk(session: Session, place: Path) -> None:
    assert {path.name for path in place.iterdir()} == {"session.json", "cache.safetensors"}
    assert {path.name for path in place.parent.iterdir()} == {"kept"}
    header = json.loads((place / "session.json").read_text())
    assert (header["format"], header["version"], header["seed"]) == ("fewer session", 1, 4)
    assert header["num_seen"] == session.num_seen
    assert "hat" not in (place / "session.json").read_text()


def test_it_goes_on_as_it_would_have(engine: Engine, session: Session, place: Path) -> None:
    loaded = Session.load(place, engine)
    assert (loaded.ids, loaded.num_seen, loaded.seed) == (session.ids, session.num_seen, 4)
    assert loaded.policy.describe() == session.policy.describe()
    assert same_bits(loaded, session)
    one, two = (each.ask("And then?", max_tokens=6) for each in (session, loaded))
    assert one.ids == two.ids
    assert one.receipt.eviction == two.receipt.eviction
    assert one.receipt.certificate == two.receipt.certificate
    with pytest.raises(BadInput, match="nothing to go back to"):
        Session.load(place, engine).rollback()


def test_an_empty_session(engine: Engine, tmp_path: Path) -> None:
    Session(engine, policy(), chat=False).save(tmp_path / "empty")
    loaded = Session.load(tmp_path / "empty", engine)
    assert loaded.ids == ()
    assert loaded.ask("a", max_tokens=3).ids == Session(engine, chat=False).ask("a", max_tokens=3).ids


def test_in_bfloat16(tmp_path: Path) -> None:
    engine = make_engine(dtype=torch.bfloat16)
    session = Session(engine, policy("poisson:snapkv", 24))
    session.append(random_ids(1, 50))
    session.compress()
    session.save(tmp_path / "half")
    loaded = Session.load(tmp_path / "half", engine)
    assert same_bits(loaded, session)
    assert loaded.ask([1, 2], max_tokens=5).ids == session.ask([1, 2], max_tokens=5).ids


def test_an_earlier_session_is_replaced(session: Session, place: Path, engine: Engine) -> None:
    session.append("More.")
    session.save(place)
    assert Session.load(place, engine).ids == session.ids
    assert {path.name for path in place.parent.iterdir()} == {"kept"}
    (place.parent / "free").mkdir()
    session.save(place.parent / "free")
    assert Session.load(place.parent / "free", engine).ids == session.ids


def test_what_else_lies_beside_a_session_is_not_replaced(session: Session, place: Path) -> None:
    (place / "gate.json").write_text("mine")
    before = (place / "session.json").read_bytes()
    session.append("More.")
    with pytest.raises(BadInput, match=r"kept, which also holds gate\.json'; it must be a saved session alone"):
        session.save(place)
    assert (place / "gate.json").read_text() == "mine"
    assert (place / "session.json").read_bytes() == before


def cut(name: str, size: int) -> Callable[[Path], None]:
    return lambda place: os.truncate(place / name, size)


def flip(place: Path) -> None:
    data = bytearray((place / "cache.safetensors").read_bytes())
    data[-9] ^= 1
    (place / "cache.safetensors").write_bytes(data)


def change(**values: object) -> Callable[[Path], None]:
    def write(place: Path) -> None:
        header = json.loads((place / "session.json").read_text())
        (place / "session.json").write_text(json.dumps({**header, **values}))

    return write


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (cut("cache.safetensors", 100), "checksum of cache.safetensors does not fit"),
        (cut("session.json", 100), "whole"),
        (flip, "checksum of cache.safetensors does not fit"),
        (lambda place: (place / "cache.safetensors").unlink(), "cache.safetensors is missing"),
        (lambda place: (place / "session.json").unlink(), "a directory with session.json in it"),
        (lambda place: (place / "session.json").write_text("[1]"), "session.json there is something else"),
        (lambda place: (place / "session.json").write_bytes(b"\xff\xfe"), "whole"),
        (change(format="notes"), "session.json there is something else"),
        (change(seed=5), "checksum of session.json does not fit"),
        (change(version=2), "version is 2; it must be 1 for this reader. Load it with the version of fewer"),
        (shutil.rmtree, "a directory with session.json in it"),
    ],
)
def test_a_damaged_other_or_newer_file(place: Path, engine: Engine, damage: Callable[[Path], None], words: str) -> None:
    damage(place)
    with pytest.raises(BadInput, match=words):
        Session.load(place, engine)


def test_another_model_is_refused_with_what_differs(place: Path) -> None:
    for engine, words in (
        (make_engine(seed=1), r"engine is .*llama-r2: fingerprint \w+ \(saved: \w+\)"),
        (make_engine("qwen3"), r"fingerprint .*, family qwen3 \(saved: llama\)"),
        (make_engine(dtype=torch.bfloat16), r"dtype bfloat16 \(saved: float32\)"),
    ):
        with pytest.raises(BadInput, match=words):
            Session.load(place, engine)


def test_the_policy_is_the_one_it_was_saved_with(place: Path, engine: Engine, tmp_path: Path) -> None:
    assert Session.load(place, engine, policy()).policy == policy()
    with pytest.raises(BadInput, match=r"budget.keep 30 tokens \(saved: 20 tokens\)"):
        Session.load(place, engine, policy(budget=30))

    class Mine(type(policy().score)):  # type: ignore[misc]
        name = "mine"

    own = replace(policy(), score=Mine())
    session = Session(engine, own)
    session.append(random_ids(1, 40))
    session.save(tmp_path / "own")
    with pytest.raises(BadInput, match="Pass the policy that the session was made with"):
        Session.load(tmp_path / "own", engine)
    assert Session.load(tmp_path / "own", engine, own).compress().num_evicted > 0
    Session(engine).save(tmp_path / "none")
    with pytest.raises(BadInput, match="saved without one"):
        Session.load(tmp_path / "none", engine, policy())


@pytest.mark.parametrize(
    "name",
    ["snapkv", "systematic:question", "poisson:h2o+spread", "pivotal:uniform", "conditional-poisson:keynorm", "tova"],
)
@pytest.mark.parametrize("settings", [{"layers": "pyramid"}, {"heads": "adaptive", "every": 9}, {"block": 16}])
def test_policies_are_made_again_from_their_description(
    engine: Engine, tmp_path: Path, name: str, settings: dict[str, object]
) -> None:
    made = policy(name, 0.3333333333333333, **settings)
    Session(engine, made).save(tmp_path / "one")
    again = Session.load(tmp_path / "one", engine).policy
    assert again.describe() == made.describe()
    assert again.budget.keep == made.budget.keep


def fill(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def interrupt(*_: object, **__: object) -> None:
    raise KeyboardInterrupt("stop")


def refuse(*_: object, **__: object) -> None:
    raise OSError(errno.EACCES, "Permission denied")


@pytest.mark.parametrize(
    ("name", "fault", "words"),
    [
        ("save_file", fill, r"The session needs \d+ bytes in .* and \d+ are free. Free some space"),
        ("_flush", fill, "are free. Free some space"),
        ("_put", refuse, r"cannot be written to .* \(Permission denied\)"),
        ("digest_file", interrupt, "stop"),
    ],
)
@pytest.mark.parametrize("replaces", [True, False])
def test_a_write_that_fails_leaves_what_was_there(
    session: Session, place: Path, engine: Engine, monkeypatch, name: str, fault, words: str, replaces: bool
) -> None:  # type: ignore[no-untyped-def]
    ids = session.ids
    session.append("More.")
    target = place if replaces else place.parent / "new"
    with monkeypatch.context() as patch:
        patch.setattr(saved, name, fault)
        with pytest.raises((StorageError, KeyboardInterrupt), match=words):
            session.save(target)
    assert {path.name for path in place.parent.iterdir()} == {"kept"}
    assert Session.load(place, engine).ids == ids


def test_no_room(session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "total used free")(10, 10, 0)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    with pytest.raises(StorageError, match="0 are free"):
        session.save(tmp_path / "new")
    assert list(tmp_path.iterdir()) == []


def test_places_that_are_no_place(session: Session, engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("mine")
    for place, words in (
        (tmp_path / "file", "a free name"),
        (tmp_path / "full", "a free name"),
        (tmp_path / "missing" / "one", "in a directory that exists"),
        ("", "a directory's name"),
        (None, "a directory's name"),
        ("a\0b", "a directory's name"),
    ):
        with pytest.raises(BadInput, match=words):
            session.save(place)
    assert (tmp_path / "full" / "mine").read_text() == "mine"
    with pytest.raises(BadInput, match="a directory's name"):
        Session.load("", engine)
    with pytest.raises(BadInput, match=r"Engine.load"):
        Session.load(tmp_path, "engine")
