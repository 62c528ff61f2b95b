"""Running a study: whatever is not yet in the folder's log is answered, unit by unit, until all is there.

Deterministic: the same study on the same machine and versions gives the same rows, but for seconds and dates. Killed at
any moment, the same command goes on where the log ends. Not covered: moving a run to another machine or version
half-way; the folder refuses it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import quantiles
from typing import Any

from fewer.engine import Engine
from fewer.errors import bad
from fewer.study.answering import Answering
from fewer.study.arms import check_arms
from fewer.study.cells import list_cells
from fewer.study.environment import describe_environment, describe_setting
from fewer.study.files import write_whole
from fewer.study.folder import lock_run, read_done, read_header
from fewer.study.prepare import Prepared, Unit, prepare
from fewer.study.registration import check, load_registration, registration_path
from fewer.study.row import LOG_VERSION
from fewer.study.shard import open_shard
from fewer.study.spec import Study, load_study

__all__ = ["Progress", "Summary", "open_study", "run_study"]


@dataclass(frozen=True)
class Progress:
    """Where a shard's run stands. left_s: seconds that remain, a tenth and nine tenths of the likely; None at first."""

    done: int
    total: int
    task: str
    left_s: tuple[float, float] | None


@dataclass(frozen=True)
class Summary:
    """What a call of `run_study` did. `left` units of the whole run are still to be done by other shards."""

    folder: Path
    answered: int
    total: int
    left: int
    statuses: dict[str, int]


def open_study(file: Path, note: Callable[[str], None] | None = None) -> tuple[Study, Engine, Prepared]:
    """A study's file read, its model loaded, and its items prepared. `note` is told what takes long."""
    study = load_study(file)
    choice = study.model
    engine = Engine.load(choice.path, choice.device, choice.dtype, weights=choice.weights, progress=note)
    check_arms(study.expanded, engine.adapter.facts)
    return study, engine, prepare(study, engine.tokenizer, file.parent)


def run_study(
    file: str | Path,
    out: str | Path,
    *,
    shard: tuple[int, int] = (0, 1),
    note: Callable[[str], None] | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Summary:
    """Run the study of a file into a folder; goes on where an earlier call stopped.

    shard: (index from 0, count); shards may run at the same time, in one folder, on one machine. Raises BadInput where
    the folder holds something else or is in use, and StorageError for the disk; what was finished is kept.
    """
    file, out = Path(file), Path(out)
    index, count = shard
    if not 0 <= index < count:
        raise bad("shard", f"{index + 1}/{count}", "K/N with K from 1 to N", "Write 1/4 for the first of four.")
    note = note or (lambda _: None)
    study, engine, prepared = open_study(file, note)
    cells = list_cells(study)
    with lock_run(out):
        header = _write_header(study, engine, prepared, file, out, len(cells))
    stamp = {"study": study.name, "study_sha256": study.sha256} | header["environment"]
    answering = Answering(study, engine, cells, stamp)
    mine = [unit for unit in prepared.units if unit.number % count == index]
    statuses: dict[str, int] = {}
    with open_shard(out, index, count) as log:
        done = read_done(out, header)
        waiting = [unit for unit in mine if unit.number not in done]
        note(f"{len(mine) - len(waiting)} of {len(mine)} items are done; {len(cells)} answers each.")
        clock = _Clock(waiting)
        for number, unit in enumerate(waiting):
            if progress:
                progress(Progress(len(mine) - len(waiting) + number, len(mine), unit.item.task, clock.left_s))
            rows = answering.answer(unit)
            log.append(unit.number, rows)
            clock.tick(unit)
            for row in rows:
                statuses[row["status"]] = statuses.get(row["status"], 0) + 1
        log.seal()
        left = len(prepared.units) - len(read_done(out, header))
    return Summary(out, len(waiting), len(mine), left, statuses)


def _write_header(
    study: Study, engine: Engine, prepared: Prepared, file: Path, out: Path, num_cells: int
) -> dict[str, Any]:
    """The run's header: the one that is there if it is of this study, these items and these versions, or a new one."""
    environment = describe_environment(engine)
    path = registration_path(file)
    registration = load_registration(path) if path.exists() else None
    items = [unit.item for unit in prepared.units]
    status = check(registration, study, items, environment["model_sha256"])
    header = {
        "log_version": LOG_VERSION,
        "study": study.model_dump(mode="json"),
        "study_sha256": study.sha256,
        "environment": environment,
        "setting": describe_setting(engine, study),
        "units": [[unit.item.id, unit.item.fingerprint, unit.item.task, unit.num_tokens] for unit in prepared.units],
        "left_out": prepared.left_out,
        "num_cells": num_cells,
        "registration": status.model_dump(mode="json"),
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    there = read_header(out)
    if there is None:
        if out.is_dir() and any(path for path in out.iterdir() if not path.name.startswith(".")):
            raise bad("the run's folder", str(out), "empty, new, or a run of this study", "Choose another --out.")
        write_whole(out / "run.json", json.dumps(header, indent=1) + "\n")
        return header
    for name, what in (
        ("study_sha256", "study"),
        ("units", "items"),
        ("environment", "model, machine or versions"),
        ("setting", "setting"),
    ):
        if there[name] != json.loads(json.dumps(header[name])):
            raise bad(
                "the run's folder",
                str(out),
                f"a run of the same {what}; {_first_difference(there[name], header[name])}",
                "Choose another --out, or go back to what the run began with.",
            )
    return there


def _first_difference(old: Any, new: Any) -> str:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in {*old, *new}:
            if old.get(key) != new.get(key):
                return f"{key} was {old.get(key)!r} and is {new.get(key)!r}"
    if isinstance(old, list) and isinstance(new, list) and len(old) != len(new):
        return f"it had {len(old)} and has {len(new)}"
    return "they have changed"


class _Clock:
    """Seconds that remain, from the seconds per prompt token of the units so far."""

    def __init__(self, waiting: list[Unit]) -> None:
        self._tokens = sum(unit.num_tokens for unit in waiting)
        self._rates: list[float] = []
        self._begin = time.perf_counter()

    def tick(self, unit: Unit) -> None:
        """A unit is done."""
        now = time.perf_counter()
        self._rates.append((now - self._begin) / unit.num_tokens)
        self._begin = now
        self._tokens -= unit.num_tokens

    @property
    def left_s(self) -> tuple[float, float] | None:
        """The remaining tokens at the first and at the ninth decile of the rates so far, from five units on."""
        if len(self._rates) < 5:
            return None
        deciles = quantiles(self._rates, n=10)
        return deciles[0] * self._tokens, deciles[-1] * self._tokens
