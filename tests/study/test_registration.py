"""Registrations: what they hold, that a changed file is found out, and what counts as a difference."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from fewer.errors import BadInput, StorageError
from fewer.study import registration as module
from fewer.study.item import Item
from fewer.study.registration import (
    Registration,
    check,
    load_registration,
    register,
    registration_path,
)
from fewer.study.spec import Study
from fewer.types import Document

WHEN = "2026-11-30T10:12:33+00:00"
WEIGHTS = "ab" * 32
CLAIM = {
    "id": "c1",
    "statement": "Half of the tokens lose at most two points.",
    "kind": "difference",
    "arm": "static keep=50%",
    "at_least": -0.02,
    "kill_below": -0.05,
}
WRITTEN = {
    "name": "needles",
    "title": "Needles",
    "tasks": [{"name": "a", "data": "there", "num_items": 3}, {"name": "b"}],
    "arms": [{"name": "full"}, {"prune": "static", "keep": ["50%", "25%"]}],
    "seeds": [0, 1],
    "claims": [CLAIM],
}


def study(**changes: object) -> Study:
    return Study.model_validate(WRITTEN | changes)


def item(task: str, number: int) -> Item:
    chunk = Document(f"Passage {number}.")
    return Item(f"{task}{number}", task, "qa", f"document {number // 2}", (chunk,), "Where?", ("Here",), "f1")


ITEMS = [item(task, number) for task in "ab" for number in range(3)]


def registered(**changes: object) -> Registration:
    return register(study(**changes), ITEMS, {"a": 2}, model_sha256=WEIGHTS, when=WHEN)


def differences(changed: Study, items: list[Item] = ITEMS, weights: str | None = WEIGHTS) -> tuple[str, ...]:
    return check(registered(), changed, items, weights).differences


def test_it_holds_the_study_the_items_and_the_model() -> None:
    made = registered()
    assert made.study == study().model_dump(mode="json")
    assert made.study["claims"][0]["kill_below"] == -0.05
    assert made.study["seeds"] == [0, 1]
    assert made.study_sha256 == study().sha256
    assert [(task.name, task.num_items, task.num_clusters) for task in made.tasks] == [("a", 3, 2), ("b", 3, 2)]
    assert made.tasks[0].items["a1"] == ITEMS[1].fingerprint[:16]
    assert (made.left_out, made.model_sha256, made.registered_at) == ({"a": 2}, WEIGHTS, "2026-11-30T10:12:33Z")
    assert set(made.versions) == {"fewer", "torch", "transformers", "python"}


def test_it_comes_back_from_its_file_and_matches(tmp_path: Path) -> None:
    path = tmp_path / "there" / "needles.registration.json"
    registered().save(path)
    made = load_registration(path)
    assert made == registered()
    status = check(made, study(), list(reversed(ITEMS)), WEIGHTS)
    assert (status.kind, status.differences, status.notes) == ("registered", (), ())
    assert status.sentence == f"Registered 2026-11-30 10:12 UTC, SHA-256 {made.sha256[:12]}...: this run matches."
    assert (status.registered_at, status.sha256) == (made.registered_at, made.sha256)
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_without_a_registration_everything_is_exploratory() -> None:
    status = check(None, study(), ITEMS, WEIGHTS)
    assert (status.kind, status.sentence) == ("none", "Not registered: everything here is exploratory.")


@pytest.mark.parametrize("suffix", [".yaml", ".py", ".json"])
def test_its_file_lies_beside_the_study(suffix: str) -> None:
    assert registration_path(f"x/needles{suffix}") == Path("x/needles.registration.json")


def test_any_changed_field_of_the_file_is_found_out(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    registered().save(path)
    whole = json.loads(path.read_text())
    changes = {
        "registered_at": "2025-01-01T00:00:00Z",
        "study": whole["study"] | {"title": "Other"},
        "study_sha256": "0" * 64,
        "tasks": whole["tasks"][:1],
        "left_out": {},
        "model_sha256": None,
        "versions": {},
        "sha256": "0" * 64,
    }
    assert {*changes, "format"} == set(Registration.model_fields)
    for field, value in changes.items():
        path.write_text(json.dumps(whole | {field: value}))
        with pytest.raises(BadInput, match="has been changed since it was written"):
            load_registration(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "does not exist"),
        ('{"format": "1",\n oops}', "line 2, is no JSON"),
        ("[]", "a registration written by fewer"),
        ('{"format": "9"}', "the format of .* is '9'"),
        ('{"format": "1", "extra": 1}', "is no registration"),
        (b"\xff\xfe", "cannot be read"),
    ],
)
def test_what_is_no_registration_is_refused(tmp_path: Path, text: str | bytes | None, message: str) -> None:
    path = tmp_path / "r.json"
    if text is not None:
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(BadInput, match=message):
        load_registration(path)


def test_another_registration_is_never_written_over(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    registered().save(path)
    before = path.read_bytes()
    registered().save(path)
    assert path.read_bytes() == before
    for other in (registered(seeds=[0]), register(study(), ITEMS, {}, model_sha256=WEIGHTS, when=WHEN)):
        with pytest.raises(BadInput, match=r"2026-11-30 10:12 UTC.*to another path"):
            other.save(path)
    path.write_text("{}")
    with pytest.raises(BadInput, match="not written over"):
        registered().save(path)
    assert path.read_text() == "{}"


def test_a_refused_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", refuse)
    with pytest.raises(StorageError, match="No space left"):
        registered().save(tmp_path / "r.json")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("when", ["2026-11-30T10:12:00", "2026-11-30T10:12:00+02:00", "yesterday", None])
def test_a_time_outside_of_utc_is_refused(when: str) -> None:
    with pytest.raises(BadInput, match="UTC"):
        register(study(), ITEMS, {}, model_sha256=WEIGHTS, when=when)


def test_items_given_twice_or_not_at_all_are_refused() -> None:
    with pytest.raises(BadInput, match=r"'a0'.*given once"):
        register(study(), [*ITEMS, ITEMS[0]], {}, model_sha256=WEIGHTS, when=WHEN)
    with pytest.raises(BadInput, match="at least one"):
        register(study(), [], {}, model_sha256=WEIGHTS, when=WHEN)


@pytest.mark.parametrize(
    ("changes", "sentences"),
    [
        ({"claims": [CLAIM | {"at_least": -0.1, "kill_below": -0.2}]}, 2),
        ({"claims": [CLAIM | {"statement": "It loses nothing."}]}, "Claim c1: statement changed, Half of the tokens"),
        ({"claims": [CLAIM | {"at_least": 0.0}]}, "Claim c1: at_least changed, -0.02 -> 0.0."),
        ({"claims": []}, "Claim c1 was taken out."),
        ({"claims": [CLAIM, CLAIM | {"id": "c2"}]}, "Claim c2 was added."),
        ({"seeds": [0]}, "The study: seeds changed, [0, 1] -> [0]."),
        ({"sampling": {"temperature": 0.7}}, "The study: sampling changed, "),
        ({"signals": ["nll"]}, "The study: signals changed, "),
        ({"truncate": True}, "The study: truncate changed, false -> true."),
        ({"share": False}, "The study: share changed, true -> false."),
        ({"outcomes": [{"name": "correct", "at_least": 0.9}]}, "Outcome correct: at_least changed, 0.5 -> 0.9."),
        ({"arms": [*WRITTEN["arms"], {"prune": "random", "keep": "50%"}]}, "Arm random keep=50% was added."),
        ({"arms": [{"name": "full"}, {"prune": "static", "keep": "50%"}]}, "Arm static keep=25% was taken out."),
        ({"model": {"dtype": "bfloat16"}}, "The model: dtype changed, auto -> bfloat16."),
        ({"model": {"weights": "int8"}}, "The model: weights changed, native -> int8."),
        ({"tasks": [*WRITTEN["tasks"], {"name": "c"}]}, "Task c was added to the study."),
    ],
)
def test_what_changes_the_science_is_a_difference(changes: dict, sentences: str | int) -> None:
    found = differences(study(**changes))
    if isinstance(sentences, int):
        assert len(found) == sentences
    else:
        assert len(found) == 1
        assert found[0].startswith(sentences)


def test_an_arm_with_another_setting_under_its_own_name_is_a_difference() -> None:
    arms = [{"name": "full"}, {"name": "half", "prune": "static", "keep": "50%"}]
    made = register(study(arms=arms, claims=[]), ITEMS, {}, model_sha256=WEIGHTS, when=WHEN)
    arms[1] = arms[1] | {"layer": 3, "keep": "40%"}
    found = check(made, study(arms=arms, claims=[]), ITEMS, WEIGHTS).differences
    assert found == ("Arm half: keep changed, 50% -> 40%.", "Arm half: layer changed, null -> 3.")


@pytest.mark.parametrize(
    ("changes", "note"),
    [
        ({"title": "Other"}, "The study: title changed, Needles -> Other."),
        ({"name": "other"}, "The study: name changed, needles -> other."),
        ({"model": {"path": "moved"}}, "The model: path changed, null -> moved."),
        ({"model": {"device": "cuda"}}, "The model: device changed, auto -> cuda."),
        ({"task_seed": 5}, "The study: task_seed changed, 0 -> 5."),
        ({"tasks": [{"name": "a", "data": "moved", "num_items": 3}, {"name": "b"}]}, "Task a: data changed, "),
        ({"tasks": [{"name": "a", "data": "there"}, {"name": "b"}]}, "Task a: num_items changed, 3 -> null."),
    ],
)
def test_what_does_not_is_a_note(changes: dict, note: str) -> None:
    status = check(registered(), study(**changes), ITEMS, WEIGHTS)
    assert (status.kind, status.differences) == ("registered", ())
    assert len(status.notes) == 1
    assert status.notes[0].startswith(note)


def test_arms_written_one_by_one_are_the_same_arms() -> None:
    arms = [{"prune": "static", "keep": "25%"}, {"prune": "static", "keep": "50%"}, {"name": "full"}]
    assert check(registered(), study(arms=arms), ITEMS, WEIGHTS).kind == "registered"


def test_changed_items_are_named() -> None:
    changed = [replace(ITEMS[0], question="When?"), *ITEMS[2:], item("b", 9)]
    found = differences(study(), changed)
    assert found == (
        "The items of task a changed: 1 changed (such as a0), 1 gone (such as a1); 3 -> 2 items.",
        "The items of task b changed: 1 added (such as b9); 3 -> 4 items.",
    )
    assert differences(study(), ITEMS[:3]) == ("Task b, 3 items, was taken out.",)
    both = differences(study(task_seed=5), ITEMS[:2] + ITEMS[3:])
    assert both[0] == "The study: task_seed changed, 0 -> 5."
    assert len(both) == 2


def test_other_weights_are_a_difference_and_unknown_ones_a_note() -> None:
    found = differences(study(), weights="cd" * 32)
    assert found == ("The model's weights changed, SHA-256 abababababab -> cdcdcdcdcdcd (the embedded model).",)
    status = check(registered(), study(), ITEMS, None)
    assert status.kind == "registered"
    assert "held by its path alone" in status.notes[0]
    moved = check(registered(), study(model={"path": "moved"}), ITEMS, None)
    assert moved.differences == ("The model: path changed, null -> moved.",)


def test_the_device_matters_to_a_claim_about_speed() -> None:
    claim = CLAIM | {"kind": "speedup", "at_least": 1.5, "kill_below": 1.0}
    made = register(study(claims=[claim], share=False), ITEMS, {}, model_sha256=WEIGHTS, when=WHEN)
    status = check(made, study(claims=[claim], share=False, model={"device": "cuda"}), ITEMS, WEIGHTS)
    assert status.differences == ("The model: device changed, auto -> cuda.",)


def test_every_page_says_that_it_does_not_match() -> None:
    status = check(registered(), study(seeds=[0], truncate=True, claims=[]), ITEMS, WEIGHTS)
    assert status.kind == "differs"
    assert status.sentence.startswith("THIS RUN DOES NOT MATCH ITS REGISTRATION (2026-11-30 10:12 UTC, SHA-256 ")
    assert status.sentence.endswith(" And 1 more.")
    assert len(status.differences) == 3


def test_other_versions_are_notes(monkeypatch: pytest.MonkeyPatch) -> None:
    made = registered()
    monkeypatch.setattr(module, "_versions", lambda: made.versions | {"torch": "9.9"})
    status = check(made, study(), ITEMS, WEIGHTS)
    assert (status.kind, status.notes) == ("registered", (f"torch was {made.versions['torch']} then and is 9.9 now.",))


def test_a_study_that_this_version_cannot_read_is_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    made = registered().model_copy(update={"study": registered().study | {"later": 1}})
    status = check(made, study(), ITEMS, WEIGHTS)
    assert status.kind == "differs"
    assert status.differences[0].startswith("The registered study cannot be read by this version")
