"""A run's folder: what is written is whole or not there, whoever was killed when, and one process writes at a time."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from filelock import FileLock
from studying import ARMS

from fewer.errors import BadInput, StorageError
from fewer.study import folder
from fewer.study.folder import open_shard, read_done, read_run, write_whole
from fewer.study.row import LOG_VERSION, SCHEMA
from fewer.study.spec import Study

STUDY = Study.model_validate({"name": "towers", "tasks": [{"name": "a"}], "arms": ARMS})


def make_row(unit: int, arm: str, **changes: object) -> dict:
    return dict.fromkeys(SCHEMA.names) | {"unit": unit, "arm": arm, "cell": f"{unit}|{arm}", "score": 0.5} | changes


@pytest.fixture
def run(tmp_path: Path) -> Path:
    header = {"log_version": LOG_VERSION, "study": STUDY.model_dump(mode="json")}
    write_whole(tmp_path / "run.json", json.dumps(header))
    return tmp_path


def fill(run: Path, units: range, shard: tuple[int, int] = (0, 1)) -> None:
    with open_shard(run, *shard) as log:
        for unit in units:
            log.append(unit, [make_row(unit, "full"), make_row(unit, "ends")])


def cells(run: Path) -> list[str]:
    return read_run(run).rows["cell"].to_pylist()


def test_what_was_appended_is_read(run: Path) -> None:
    fill(run, range(3))
    assert cells(run) == [f"{unit}|{arm}" for unit in range(3) for arm in ("full", "ends")]
    assert read_done(run) == {0, 1, 2}
    assert read_run(run).rows.schema == SCHEMA
    assert read_run(run).study == STUDY


def test_full_files_are_sealed_and_the_next_begins(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder, "SEAL_AFTER", 4)
    fill(run, range(10))
    names = sorted(path.name for path in (run / "shard-0-of-1").iterdir() if path.name != "lock")
    assert names == ["000001.parquet", "000002.parquet", "000003.jsonl"]
    assert len(cells(run)) == 20
    fill(run, range(10, 13))
    assert len(cells(run)) == 26
    assert read_done(run) == set(range(13))
    assert pq.read_table(run / "shard-0-of-1" / "000001.parquet").num_rows == 8


@pytest.mark.parametrize("cut", [1, 5, 200, -1])
def test_a_torn_last_line_is_dropped_and_run_again(run: Path, cut: int) -> None:
    fill(run, range(3))
    path = run / "shard-0-of-1" / "000001.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:2]) + lines[2][:cut])
    assert read_done(run) == {0, 1}
    assert len(cells(run)) == 4
    fill(run, range(2, 4))
    assert cells(run) == [f"{unit}|{arm}" for unit in range(4) for arm in ("full", "ends")]


def test_a_seal_that_was_killed_at_any_point_leaves_every_row_once(run: Path) -> None:
    fill(run, range(3))
    shard = run / "shard-0-of-1"
    before = (shard / "000001.jsonl").read_bytes()
    (shard / "000001.part").write_bytes(b"half a file")
    assert len(cells(run)) == 6
    with open_shard(run, 0, 1) as log:
        log.seal()
    (shard / "000001.jsonl").write_bytes(before)  # killed between the rename and the removal
    assert len(cells(run)) == 6
    fill(run, range(3, 5))
    assert len(cells(run)) == 10
    assert read_done(run) == set(range(5))


def test_shards_of_any_number_are_one_run(run: Path) -> None:
    fill(run, range(0, 4, 2), (0, 2))
    fill(run, range(1, 4, 2), (1, 2))
    fill(run, range(3, 5), (0, 1))  # 3 twice
    assert read_done(run) == set(range(5))
    assert cells(run) == [f"{unit}|{arm}" for unit in range(5) for arm in ("full", "ends")]


def test_two_processes_cannot_write_one_shard(run: Path) -> None:
    with open_shard(run, 0, 2), open_shard(run, 1, 2):
        again = open_shard(run, 0, 2)
        with pytest.raises(BadInput, match="one process at a time"):
            again.__enter__()
    lock = FileLock(run / "shard-0-of-2" / "lock")
    lock.acquire(timeout=0)  # was given back
    lock.release()


def test_a_full_disk_leaves_the_log_as_it_was(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(run, range(2))
    before = (run / "shard-0-of-1" / "000001.jsonl").read_bytes()

    def refuse(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with open_shard(run, 0, 1) as log:
        monkeypatch.setattr(os, "fsync", refuse)
        with pytest.raises(StorageError, match="No space left on device"):
            log.append(2, [make_row(2, "full")])
        with pytest.raises(StorageError, match="No space left on device"):
            log.seal()
    assert (run / "shard-0-of-1" / "000001.jsonl").read_bytes() == before
    assert sorted(path.name for path in (run / "shard-0-of-1").iterdir()) == ["000001.jsonl", "lock"]
    with pytest.raises(StorageError):
        write_whole(run / "run.json", "{}")
    assert json.loads((run / "run.json").read_text())["log_version"] == LOG_VERSION


def test_a_row_that_is_not_of_the_schema_is_not_written(run: Path) -> None:
    with open_shard(run, 0, 1) as log:
        for row in (make_row(0, "full", colour=1), make_row(0, "full", score="good"), {"unit": 0}):
            with pytest.raises(Exception, match=r"schema|convert"):
                log.append(0, [row])
    assert read_done(run) == set()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "a folder written by fewer study run"),
        ("{", "cannot be read"),
        ("{}", "cannot be read"),
        (json.dumps({"log_version": "0", "study": {}}), "the log version of .* is '0'"),
    ],
)
def test_folders_that_are_no_run(tmp_path: Path, content: str | None, message: str) -> None:
    if content is not None:
        (tmp_path / "run.json").write_text(content)
    with pytest.raises(BadInput, match=message):
        read_run(tmp_path)


def test_broken_parts_are_named_with_file_and_line(run: Path) -> None:
    fill(run, range(2))
    path = run / "shard-0-of-1" / "000001.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"{broken}\n" + lines[1])
    with pytest.raises(BadInput, match=r"000001\.jsonl, line 1, is broken"):
        read_run(run)
    path.unlink()
    (run / "shard-0-of-1" / "000001.parquet").write_bytes(b"PAR1 not really")
    with pytest.raises(BadInput, match=r"000001\.parquet is broken"):
        read_run(run)
