"""A run's folder: what is in it, who may write to it, and how its rows are read.

    RUN/run.json                        the study, the registration's status, versions, items left out; written once
    RUN/shard-0-of-1/lock               held by the process that runs the shard
    RUN/shard-0-of-1/000001.jsonl       finished items, one a line, each with the rows of all of its arms
    RUN/shard-0-of-1/000001.parquet     the same, sealed; it takes the place of the .jsonl of its number

An item's line is written in one piece and synced, so a killed run has each item whole or not at all: a torn last line
is dropped and its item run again. Not covered: two machines on one network folder (their shards may be joined by
copying the shard folders into one run).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from filelock import FileLock, Timeout

from fewer.errors import BadInput, StorageError, bad
from fewer.study.row import LOG_VERSION, SCHEMA, to_table
from fewer.study.spec import Study

__all__ = ["Run", "Shard", "open_shard", "read_done", "read_header", "read_run", "write_whole"]

SEAL_AFTER = 200  # finished items in a .jsonl before it becomes a .parquet


@dataclass(frozen=True)
class Run:
    """A run as it lies on disk, finished or not."""

    folder: Path
    header: dict[str, Any]
    """The content of run.json."""
    study: Study
    rows: pa.Table
    """Every row there is, in the schema of `row.SCHEMA`, each cell once, ordered by unit and arm."""


class Shard:
    """One shard's log, open for writing. Made by `open_shard`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._number, self._lines = 1, 0
        for number, path in _parts(folder):
            self._number, self._lines = number + 1, 0
            if path.suffix == ".jsonl":
                self._number, self._lines = number, len(_read_lines(path, repair=True))

    def append(self, unit: int, rows: list[dict[str, Any]]) -> None:
        """Add a finished item. On return it is on the disk. Raises StorageError and leaves nothing half-written."""
        to_table(rows)
        line = json.dumps({"unit": unit, "rows": rows}, allow_nan=False, separators=(",", ":")) + "\n"
        path = self.folder / f"{self._number:06d}.jsonl"
        try:
            with open(path, "ab") as file:
                before = file.tell()
                try:
                    file.write(line.encode())
                    file.flush()
                    os.fsync(file.fileno())
                except OSError:
                    os.truncate(path, before)
                    raise
        except OSError as error:
            raise _refused(path, error) from error
        self._lines += 1
        if self._lines >= SEAL_AFTER:
            self.seal()

    def seal(self) -> None:
        """Turn the open .jsonl into a .parquet. Killed in between, a reader finds one or both."""
        path = self.folder / f"{self._number:06d}.jsonl"
        if not path.exists():
            return
        rows = [row for unit in _read_lines(path) for row in unit["rows"]]
        sealed = path.with_suffix(".parquet")
        waiting = sealed.with_suffix(".part")
        try:
            pq.write_table(to_table(rows), waiting, compression="zstd")
            _sync(waiting)
            os.replace(waiting, sealed)
            path.unlink()
        except OSError as error:
            waiting.unlink(missing_ok=True)
            raise _refused(sealed, error) from error
        self._number, self._lines = self._number + 1, 0


@contextmanager
def open_shard(run: Path, index: int, count: int) -> Iterator[Shard]:
    """Open shard `index` of `count` (from 0) for writing. Raises BadInput where another process is at it."""
    folder = run / f"shard-{index}-of-{count}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _refused(folder, error) from error
    lock = FileLock(folder / "lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise bad(
            "the run's folder", str(folder), "used by one process at a time", "Wait for it, or choose another --out."
        ) from None
    try:
        yield Shard(folder)
    finally:
        lock.release()


def read_run(folder: str | Path) -> Run:
    """Read a run, also one that is still going on.

    Raises BadInput where the folder holds no run, one of another log version, or a broken file.
    """
    folder = Path(folder)
    header = read_header(folder)
    if header is None:
        raise bad("the run", str(folder), "a folder written by fewer study run", "Check the path.")
    tables = []
    for shard in sorted(folder.glob("shard-*-of-*")):
        for _, path in _parts(shard):
            if path.suffix == ".parquet":
                tables.append(_read_parquet(path))
            else:
                tables.append(to_table([row for unit in _read_lines(path) for row in unit["rows"]]))
    rows = pa.concat_tables([SCHEMA.empty_table(), *tables])
    cells = rows["cell"].to_pylist()
    first = {cell: index for index, cell in reversed(list(enumerate(cells)))}
    rows = rows.take(pa.array(sorted(first.values()), pa.int64()))
    return Run(folder, header, Study.model_validate(header["study"]), rows.sort_by([("unit", "ascending")]))


def read_done(folder: Path) -> set[int]:
    """The units that are in the log of any shard."""
    done: set[int] = set()
    for shard in folder.glob("shard-*-of-*"):
        for _, path in _parts(shard):
            if path.suffix == ".parquet":
                done |= set(_read_parquet(path)["unit"].to_pylist())
            else:
                done |= {unit["unit"] for unit in _read_lines(path)}
    return done


def read_header(folder: Path) -> dict[str, Any] | None:
    """The content of run.json, None where there is none. Raises BadInput for another log version or a broken file."""
    path = folder / "run.json"
    if not path.exists():
        return None
    try:
        header = json.loads(path.read_text(encoding="utf-8"))
        version = header["log_version"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadInput(f"{path} cannot be read ({type(error).__name__}: {error}). Start a new run elsewhere.") from None
    if version != LOG_VERSION:
        way_out = "Read it with the version of fewer that wrote it, or run the study again."
        raise bad(f"the log version of {folder}", version, f"{LOG_VERSION!r} for this reader", way_out)
    return dict(header)


def write_whole(path: Path, text: str) -> None:
    """Write a file whole or not at all. Raises StorageError."""
    waiting = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        waiting.write_text(text, encoding="utf-8")
        _sync(waiting)
        os.replace(waiting, path)
    except OSError as error:
        waiting.unlink(missing_ok=True)
        raise _refused(path, error) from error


def _parts(folder: Path) -> list[tuple[int, Path]]:
    """The files of a shard in order: for each number the sealed one if there is one."""
    found: dict[int, Path] = {}
    for path in sorted(folder.glob("[0-9]*.jsonl")) + sorted(folder.glob("[0-9]*.parquet")):
        found[int(path.stem)] = path
    return sorted(found.items())


def _read_lines(path: Path, repair: bool = False) -> list[dict[str, Any]]:
    """The finished items of a .jsonl. A torn last line is passed over, and with `repair` cut off."""
    content = path.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    if repair and len(whole) < len(content):
        os.truncate(path, len(whole))
    units = []
    for number, line in enumerate(whole.splitlines(), 1):
        try:
            unit = json.loads(line)
            to_table(unit["rows"])
        except (ValueError, KeyError, TypeError, pa.ArrowException) as error:
            raise BadInput(f"{path}, line {number}, is broken ({type(error).__name__}: {error}). Remove it.") from None
        units.append(unit)
    return units


def _read_parquet(path: Path) -> pa.Table:
    try:
        table = pq.read_table(path)
        return table.select(SCHEMA.names).cast(SCHEMA)
    except (OSError, KeyError, pa.ArrowException) as error:
        raise BadInput(
            f"{path} is broken ({type(error).__name__}: {error}). Remove it, and run its items again."
        ) from None


def _sync(path: Path) -> None:
    with open(path, "rb") as file:
        os.fsync(file.fileno())


def _refused(path: Path, error: OSError) -> StorageError:
    return StorageError(
        f"{path} cannot be written: {error.strerror or error}. Free space or choose another --out; what was finished "
        "before is kept, and the same command goes on from there."
    )
