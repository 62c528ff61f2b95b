"""A run's folder: what is in it, and how its rows are read.

    RUN/run.json                        the study, the registration's status, versions, items left out; written once
    RUN/shard-0-of-1/lock               held by the process that runs the shard
    RUN/shard-0-of-1/000001.jsonl       finished items, one a line, each with the rows of all of its arms
    RUN/shard-0-of-1/000001.parquet     the same, sealed; it takes the place of the .jsonl of its number

An item's line is written in one piece and synced, so a killed run has each item whole or not at all: a torn last line
is dropped and its item run again. Every row says which study it is of, and one of another study is refused. Not
covered: two machines on one network folder (their shard folders may be copied into one run), and somebody who changes
the study, its hash and every row together.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from filelock import FileLock
from pydantic import ValidationError

from fewer.errors import BadInput, bad
from fewer.study.files import hash_json, refuse
from fewer.study.row import LOG_VERSION, SCHEMA
from fewer.study.shard import read_shard
from fewer.study.spec import Study

__all__ = ["Run", "lock_run", "read_done", "read_header", "read_run"]

_FIELDS = {"study_sha256": str, "units": list, "left_out": dict, "environment": dict, "setting": dict, "num_cells": int}
_FIELDS |= {"registration": dict, "started": str, "study": dict}


@dataclass(frozen=True)
class Run:
    """A run as it lies on disk, finished or not."""

    folder: Path
    header: dict[str, Any]
    """The content of run.json."""
    study: Study
    rows: pa.Table
    """Every row there is, in the schema of `row.SCHEMA`, each cell once, ordered by unit and arm."""


@contextmanager
def lock_run(folder: Path) -> Iterator[None]:
    """Only one process at a time looks for the header and writes it. Raises StorageError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / ".lock")
        lock.acquire()
    except OSError as error:
        raise refuse(folder, error) from error
    try:
        yield
    finally:
        lock.release()


def read_run(folder: str | Path) -> Run:
    """Read a run, also one that is still going on.

    Raises BadInput where the folder holds no run, one of another log version, a broken file, or rows of another study.
    """
    folder = Path(folder)
    header = read_header(folder)
    if header is None:
        raise bad("the run", str(folder), "a folder written by fewer study run", "Check the path.")
    rows = pa.concat_tables([SCHEMA.empty_table(), *_read_tables(folder, header)])
    first = {cell: index for index, cell in reversed(list(enumerate(rows["cell"].to_pylist())))}
    rows = rows.take(pa.array(sorted(first.values()), pa.int64()))
    return Run(folder, header, Study.model_validate(header["study"]), rows.sort_by([("unit", "ascending")]))


def read_done(folder: Path, header: dict[str, Any]) -> set[int]:
    """The units that are in the log of any shard. Raises BadInput as `read_run` does."""
    return {unit for table in _read_tables(folder, header) for unit in table["unit"].to_pylist()}


def read_header(folder: Path) -> dict[str, Any] | None:
    """The content of run.json, None where there is none.

    Raises BadInput for another log version, a broken file, or a study that was changed after the run began.
    """
    path = folder / "run.json"
    if not path.exists():
        return None
    way_out = "Start a new run elsewhere."
    try:
        header = json.loads(path.read_text(encoding="utf-8"))
        version = header["log_version"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadInput(f"{path} cannot be read ({type(error).__name__}: {error}). {way_out}") from None
    if version != LOG_VERSION:
        version_way_out = "Read it with the version of fewer that wrote it, or run the study again."
        raise bad(f"the log version of {folder}", version, f"{LOG_VERSION!r} for this reader", version_way_out)
    for name, kind in _FIELDS.items():
        if not isinstance(header.get(name), kind):
            raise BadInput(f"{path} is broken: it has no {name}. {way_out}")
    digest = hash_json(header["study"])
    if digest != header["study_sha256"]:
        raise BadInput(
            f"{path} was changed: its study has the SHA-256 {digest[:12]}, and the run began with "
            f"{header['study_sha256'][:12]}. Put the file back, or start a new run elsewhere."
        )
    try:
        Study.model_validate(header["study"])
    except ValidationError as error:
        raise BadInput(f"{path} is broken: its study is none ({error.error_count()} faults). {way_out}") from None
    return dict(header)


def _read_tables(folder: Path, header: dict[str, Any]) -> Iterator[pa.Table]:
    """The rows of every file of every shard, all of this study and model."""
    ours = {"study_sha256": header["study_sha256"], "model_sha256": header["environment"].get("model_sha256")}
    for shard in sorted(folder.glob("shard-*-of-*")):
        for path, table in read_shard(shard):
            for name, want in ours.items():
                for found in set(table[name].to_pylist()) - {want}:
                    legal = f"{want!r}, as in {folder / 'run.json'}"
                    raise bad(f"{name} of rows in {path}", found, legal, "Take the file out: it is of another run.")
            yield table
