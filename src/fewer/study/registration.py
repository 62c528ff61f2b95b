"""Registration before the run: what will be asked, of which model, and what would kill each claim, under one hash.

A registration is one JSON file. Its `sha256` is that of everything else in it, so a file that was changed afterwards is
found out. What that proves is limited: whoever has this program can write a new file with any date in it. The hash is
evidence of a time only where others could see it then, in a public repository, an archive of preregistrations or a
letter. Publish it before the run.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from fewer.errors import BadInput, bad
from fewer.study.changes import compare_studies, compare_tasks, quote
from fewer.study.files import hash_json, write_whole
from fewer.study.item import Item
from fewer.study.spec import Study

__all__ = ["FORMAT", "Registration", "Status", "check", "load_registration", "register", "registration_path"]

FORMAT = "1"
STRICT = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
_SHOWN = 12  # hexadecimal digits of a hash in a sentence


class TaskRecord(BaseModel):
    """The items of one task."""

    model_config = STRICT

    name: str
    num_items: int
    num_clusters: int
    sha256: str
    """Over the ids and the fingerprints of all items, in the order of the ids: the order of running is free."""
    items: dict[str, str]
    """The first 16 digits of each item's fingerprint, by id: to name what changed."""


class Registration(BaseModel):
    """Everything that was fixed before the run. Made by `register`."""

    model_config = STRICT

    format: Literal["1"]
    registered_at: str
    """UTC, such as 2026-11-30T10:12:00Z, as the registering machine's clock had it."""
    study: dict[str, Any]
    """The whole study as canonical JSON: seeds, outcomes, and the claims with what would kill them are in it."""
    study_sha256: str
    tasks: tuple[TaskRecord, ...]
    left_out: dict[str, int]
    """Items left out before the run, by task or reason."""
    model_sha256: str | None
    """Of the model's weights; None where it is not known, and then the model is held by its path alone."""
    versions: dict[str, str]
    sha256: str
    """Over all of the above."""

    @property
    def date(self) -> str:
        """When, to the minute, for sentences."""
        return f"{self.registered_at[:10]} {self.registered_at[11:16]} UTC"

    @property
    def short(self) -> str:
        """The date and the beginning of the hash, for sentences."""
        return f"{self.date}, SHA-256 {self.sha256[:_SHOWN]}"

    def save(self, path: str | Path) -> None:
        """Write it whole or not at all. Writing the same one again changes nothing.

        Raises BadInput where the path holds a different registration, or a broken one; StorageError.
        """
        path = Path(path)
        if path.exists():
            way_out = "Run under the one that is there, or save this one to another path; both then remain."
            try:
                there = load_registration(path)
            except BadInput as error:
                raise BadInput(f"{path} is not written over, although it is no sound registration: {error}") from None
            if there.sha256 != self.sha256:
                raise bad(str(path), f"a registration of {there.short}", f"free, or hold {self.sha256}", way_out)
            return
        write_whole(path, json.dumps(self.model_dump(mode="json"), indent=1, ensure_ascii=True) + "\n")


class Status(BaseModel):
    """How a run stands to its registration."""

    model_config = STRICT

    kind: Literal["registered", "differs", "none"]
    sentence: str
    """For the top of every page."""
    differences: tuple[str, ...] = ()
    """One sentence each: what a reader of the registration would not expect."""
    notes: tuple[str, ...] = ()
    """One sentence each: what changed without changing what is claimed, asked or computed."""
    registered_at: str | None = None
    sha256: str | None = None


def register(
    study: Study, items: Sequence[Item], left_out: Mapping[str, int], *, model_sha256: str | None, when: str
) -> Registration:
    """Fix a study, its items and its model. `when` is UTC in ISO 8601, such as datetime.now(UTC).isoformat().

    Raises BadInput for a time that is not in UTC, an item's id given twice, or no items.
    """
    content = {
        "format": FORMAT,
        "registered_at": _read_time(when),
        "study": study.model_dump(mode="json"),
        "study_sha256": study.sha256,
        "tasks": [task.model_dump(mode="json") for task in _record_tasks(items)],
        "left_out": dict(sorted(left_out.items())),
        "model_sha256": model_sha256,
        "versions": _versions(),
    }
    return Registration.model_validate(content | {"sha256": hash_json(content)})


def registration_path(study_file: str | Path) -> Path:
    """Where the registration of a study's file lies: beside it, `needles.yaml` to `needles.registration.json`."""
    return Path(study_file).with_suffix(".registration.json")


def load_registration(path: str | Path) -> Registration:
    """Read a registration and hold it against its own hash.

    Raises BadInput where the file is missing, no registration, of another format, or changed since it was written.
    """
    path = Path(path)
    way_out = "Bring back the file as it was published, or register anew at another path."
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise BadInput(f"{path} does not exist. Register the study first.") from None
    except json.JSONDecodeError as error:
        raise BadInput(f"{path}, line {error.lineno}, is no JSON: {error.msg}. {way_out}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path} cannot be read: {error}. {way_out}") from None
    if not isinstance(content, dict) or "format" not in content:
        raise bad(str(path), type(content).__name__, "a registration written by fewer study register", way_out)
    if content["format"] != FORMAT:
        raise bad(f"the format of {path}", content["format"], f"{FORMAT!r}", "Read it with the version that wrote it.")
    try:
        registration = Registration.model_validate(content)
    except ValidationError as error:
        fault = error.errors()[0]
        place = ".".join(str(part) for part in fault["loc"])
        raise BadInput(f"{path} is no registration: {place}: {fault['msg']}. {way_out}") from None
    found = hash_json({name: value for name, value in content.items() if name != "sha256"})
    if found != registration.sha256:
        says = f"its content has SHA-256 {found[:_SHOWN]}... and it says {registration.sha256[:_SHOWN]}..."
        raise BadInput(f"{path} has been changed since it was written: {says} {way_out}")
    return registration


def check(registration: Registration | None, study: Study, items: Sequence[Item], model_sha256: str | None) -> Status:
    """Hold what is about to run against what was registered.

    A difference is whatever changes what is claimed, asked or computed: claims, outcomes, arms, seeds, sampling,
    signals, truncation, items, the model's weights and their arithmetic. A note is the rest: title, name, sharing,
    where data and model lie, how the same items were chosen, versions of software, and the device unless a claim is
    about speed. Not covered: when the run began.
    """
    if registration is None:
        return Status(kind="none", sentence="Not registered: everything here is exploratory.")
    known = {task.name: task for task in registration.tasks}
    now = {task.name: task for task in _record_tasks(items)}
    names = sorted(known.keys() | now.keys())
    same = {name: name in known and name in now and known[name].sha256 == now[name].sha256 for name in names}
    differences, notes = _compare_weights(registration, study, model_sha256)
    try:
        registered = Study.model_validate(registration.study)
    except ValidationError as error:
        differences.append(f"The registered study cannot be read by this version: {error.errors()[0]['msg']}.")
    else:
        weights = registration.model_sha256 is not None and registration.model_sha256 == model_sha256
        more, remarks = compare_studies(registered, study, same_items=same, same_weights=weights)
        differences += more
        notes += remarks
    for name in names:
        if not same[name]:
            before = known[name].items if name in known else {}
            differences.append(compare_tasks(name, before, now[name].items if name in now else {}))
    for name, version in sorted(_versions().items()):
        if registration.versions.get(name) != version:
            notes.append(f"{name} was {registration.versions.get(name, 'not noted')} then and is {version} now.")
    return Status(
        kind="differs" if differences else "registered",
        sentence=_summarise(registration, differences),
        differences=tuple(differences),
        notes=tuple(notes),
        registered_at=registration.registered_at,
        sha256=registration.sha256,
    )


def _summarise(registration: Registration, differences: list[str]) -> str:
    if not differences:
        return f"Registered {registration.short}...: this run matches."
    shown = " ".join(differences[:2])
    more = f" And {len(differences) - 2} more." if len(differences) > 2 else ""
    return f"THIS RUN DOES NOT MATCH ITS REGISTRATION ({registration.short}...): {shown}{more}"


def _compare_weights(registration: Registration, study: Study, model_sha256: str | None) -> tuple[list[str], list[str]]:
    """What can be said of the weights by their hash."""
    before = registration.model_sha256
    if before is None or model_sha256 is None:
        when = "when it was registered" if before is None else "now"
        return [], [f"The hash of the model's weights is not known {when}: the model is held by its path alone."]
    if before != model_sha256:
        change = f"SHA-256 {quote(before[:_SHOWN])} -> {quote(model_sha256[:_SHOWN])}"
        return [f"The model's weights changed, {change} ({study.model.path or 'the embedded model'})."], []
    return [], []


def _record_tasks(items: Iterable[Item]) -> list[TaskRecord]:
    """Every task's items, tasks and items in the order of their names."""
    tasks: dict[str, dict[str, Item]] = {}
    owner: dict[str, str] = {}
    for item in items:
        if item.id in owner:
            legal = f"given once (also in task {owner[item.id]})"
            raise bad(f"the id of an item of task {item.task}", item.id, legal, "Leave one of the two out.")
        owner[item.id] = item.task
        tasks.setdefault(item.task, {})[item.id] = item
    if not tasks:
        raise bad("items", [], "at least one", "Ask for more, or raise max_length.")
    records = []
    for name, members in sorted(tasks.items()):
        prints = {key: members[key].fingerprint for key in sorted(members)}
        records.append(
            TaskRecord(
                name=name,
                num_items=len(prints),
                num_clusters=len({item.cluster for item in members.values()}),
                sha256=hash_json(list(prints.items())),
                items={key: value[:16] for key, value in prints.items()},
            )
        )
    return records


def _read_time(when: str) -> str:
    try:
        time = datetime.fromisoformat(when)
    except (TypeError, ValueError):
        time = None
    if time is None or time.utcoffset() != timedelta(0):
        raise bad("when", when, "a time in UTC, such as 2026-11-30T10:12:00Z", "Pass datetime.now(UTC).isoformat().")
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _versions() -> dict[str, str]:
    import torch
    import transformers

    import fewer

    return {
        "fewer": fewer.__version__,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "python": platform.python_version(),
    }
