"""One shard of a run's log: numbered files of finished items, the newest one open for more.

Not covered: which study the rows are of; the reader says so and they are refused where they are of another.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from filelock import FileLock, Timeout

from fewer.errors import BadInput, bad
from fewer.study.files import append_whole, refuse, sync
from fewer.study.row import read_table, to_table

__all__ = ["Shard", "open_shard", "read_shard"]

SEAL_AFTER = 200  # finished items in a .jsonl before it becomes a .parquet
_ATTEMPTS = 5  # at reading a shard that is being sealed at the same time


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
        append_whole(self.folder / f"{self._number:06d}.jsonl", line.encode())
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
            pq.write_table(read_table(rows), waiting, compression="zstd")
            sync(waiting)
            os.replace(waiting, sealed)
            path.unlink()
        except OSError as error:
            waiting.unlink(missing_ok=True)
            raise refuse(sealed, error) from error
        self._number, self._lines = self._number + 1, 0


@contextmanager
def open_shard(run: Path, index: int, count: int) -> Iterator[Shard]:
    """Open shard `index` of `count` (from 0) for writing. Raises BadInput where another process is at it."""
    folder = run / f"shard-{index}-of-{count}"
    lock = FileLock(folder / "lock")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=0)
    except Timeout:
        raise bad(
            "the run's folder", str(folder), "used by one process at a time", "Wait for it, or choose another --out."
        ) from None
    except OSError as error:
        raise refuse(folder, error) from error
    try:
        yield Shard(folder)
    finally:
        lock.release()


def read_shard(folder: Path) -> Iterator[tuple[Path, pa.Table]]:
    """The files of a shard and their rows, also while it is written to. Raises BadInput for a broken file."""
    for attempt in range(_ATTEMPTS):
        try:
            tables = [(path, _read_part(path)) for _, path in _parts(folder)]
        except FileNotFoundError:  # it was sealed a moment ago
            if attempt == _ATTEMPTS - 1:
                raise
            continue
        yield from tables
        return


def _parts(folder: Path) -> list[tuple[int, Path]]:
    """The files of a shard in order: for each number the sealed one if there is one."""
    found: dict[int, Path] = {}
    for suffix in ("jsonl", "parquet"):
        for path in folder.glob(f"*.{suffix}"):
            if re.fullmatch(r"[0-9]{6,}", path.stem):
                found[int(path.stem)] = path
    return sorted(found.items())


def _read_part(path: Path) -> pa.Table:
    if path.suffix == ".jsonl":
        return read_table([row for unit in _read_lines(path) for row in unit["rows"]])
    try:
        return read_table(pq.read_table(path))
    except FileNotFoundError:
        raise
    except (OSError, KeyError, pa.ArrowException) as error:
        reason = f"{type(error).__name__}: {error}"
        raise BadInput(f"{path} is broken ({reason}). Remove it, and run its items again.") from None


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
            if type(unit["unit"]) is not int:
                raise ValueError("unit is no whole number")
            read_table(unit["rows"])
        except (ValueError, KeyError, TypeError, pa.ArrowException) as error:
            raise BadInput(f"{path}, line {number}, is broken ({type(error).__name__}: {error}). Remove it.") from None
        units.append(unit)
    return units
