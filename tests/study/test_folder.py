"""A run's folder: what is written is whole or not there, whoever was killed when, and one process writes at a time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from filelock import FileLock
from studying import ARMS

from fewer.errors import BadInput, StorageError
from fewer.study import shard
from fewer.study.files import append_whole, hash_json, write_whole
from fewer.study.folder import read_done, read_header, read_run
from fewer.study.row import LATER, LOG_VERSION, SCHEMA
from fewer.study.spec import Study

STUDY = Study.model_validate({"name": "towers", "tasks": [{"name": "a"}], "arms": ARMS})


HEADER = {
    "log_version": LOG_VERSION,
    "study": STUDY.model_dump(mode="json"),
    "study_sha256": STUDY.sha256,
    "environment": {"model_sha256": None},
    "setting": {},
    "units": [],
    "left_out": {},
    "num_cells": 2,
    "registration": {},
    "started": "2026-11-30T10:00:00+00:00",
}


def make_row(unit: int, arm: str, **changes: object) -> dict:
    row = {"unit": unit, "arm": arm, "cell": f"{unit}|{arm}", "score": 0.5, "study_sha256": STUDY.sha256}
    return dict.fromkeys(SCHEMA.names) | row | changes


@pytest.fixture
def run(tmp_path: Path) -> Path:
    write_whole(tmp_path / "run.json", json.dumps(HEADER))
    return tmp_path


def done(run: Path) -> set[int]:
    return read_done(run, read_header(run))


def fill(run: Path, units: range, part: tuple[int, int] = (0, 1)) -> None:
    with shard.open_shard(run, *part) as log:
        for unit in units:
            log.append(unit, [make_row(unit, "full"), make_row(unit, "ends")])


def cells(run: Path) -> list[str]:
    return read_run(run).rows["cell"].to_pylist()


def test_what_was_appended_is_read(run: Path) -> None:
    fill(run, range(3))
    assert cells(run) == [f"{unit}|{arm}" for unit in range(3) for arm in ("full", "ends")]
    assert done(run) == {0, 1, 2}
    assert read_run(run).rows.schema == SCHEMA
    assert read_run(run).study == STUDY


@pytest.mark.parametrize("sealed", [False, True])
def test_rows_from_before_a_column_came_have_null_in_it(run: Path, sealed: bool) -> None:
    (run / "shard-0-of-1").mkdir()
    early = [name for name in SCHEMA.names if name not in LATER]
    row = {name: value for name, value in make_row(0, "full").items() if name in early}
    if sealed:
        table = pa.Table.from_pylist([row], schema=pa.schema([SCHEMA.field(name) for name in early]))
        pq.write_table(table, run / "shard-0-of-1" / "000001.parquet")
    else:
        line = json.dumps({"unit": 0, "rows": [row]}) + "\n"
        (run / "shard-0-of-1" / "000001.jsonl").write_text(line)
    fill(run, range(1, 3), (0, 1))
    rows = read_run(run).rows
    assert rows.schema == SCHEMA
    assert cells(run) == ["0|full", *(f"{unit}|{arm}" for unit in (1, 2) for arm in ("full", "ends"))]
    assert {name: rows[name].null_count for name in LATER} == dict.fromkeys(LATER, 5)
    assert done(run) == {0, 1, 2}
    with shard.open_shard(run, 0, 1) as log:
        log.seal()
    assert cells(run)[0] == "0|full"


def test_full_files_are_sealed_and_the_next_begins(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shard, "SEAL_AFTER", 4)
    fill(run, range(10))
    names = sorted(path.name for path in (run / "shard-0-of-1").iterdir() if path.name != "lock")
    assert names == ["000001.parquet", "000002.parquet", "000003.jsonl"]
    assert len(cells(run)) == 20
    fill(run, range(10, 13))
    assert len(cells(run)) == 26
    assert done(run) == set(range(13))
    assert pq.read_table(run / "shard-0-of-1" / "000001.parquet").num_rows == 8


@pytest.mark.parametrize("cut", [1, 5, 200, -1])
def test_a_torn_last_line_is_dropped_and_run_again(run: Path, cut: int) -> None:
    fill(run, range(3))
    path = run / "shard-0-of-1" / "000001.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:2]) + lines[2][:cut])
    assert done(run) == {0, 1}
    assert len(cells(run)) == 4
    fill(run, range(2, 4))
    assert cells(run) == [f"{unit}|{arm}" for unit in range(4) for arm in ("full", "ends")]


def test_a_seal_that_was_killed_at_any_point_leaves_every_row_once(run: Path) -> None:
    fill(run, range(3))
    place = run / "shard-0-of-1"
    before = (place / "000001.jsonl").read_bytes()
    (place / "000001.part").write_bytes(b"half a file")
    assert len(cells(run)) == 6
    with shard.open_shard(run, 0, 1) as log:
        log.seal()
    (place / "000001.jsonl").write_bytes(before)  # killed between the rename and the removal
    assert len(cells(run)) == 6
    fill(run, range(3, 5))
    assert len(cells(run)) == 10
    assert done(run) == set(range(5))


def test_shards_of_any_number_are_one_run(run: Path) -> None:
    fill(run, range(0, 4, 2), (0, 2))
    fill(run, range(1, 4, 2), (1, 2))
    fill(run, range(3, 5), (0, 1))  # 3 twice
    assert done(run) == set(range(5))
    assert cells(run) == [f"{unit}|{arm}" for unit in range(5) for arm in ("full", "ends")]


def test_two_processes_cannot_write_one_shard(run: Path) -> None:
    with shard.open_shard(run, 0, 2), shard.open_shard(run, 1, 2):
        again = shard.open_shard(run, 0, 2)
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

    with shard.open_shard(run, 0, 1) as log:
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


@pytest.mark.parametrize("room", [0, 1, 700, 1400])
def test_a_disk_that_takes_only_a_part_of_a_line_keeps_none_of_it(run: Path, tmp_path: Path, room: int) -> None:
    """A limit on the file's size, in a process of its own, refuses the rest of the write as a full disk does."""
    fill(run, range(2))
    path = run / "shard-0-of-1" / "000001.jsonl"
    before = path.read_bytes()
    script = (
        "import resource, signal, sys; from pathlib import Path; from fewer.study.files import append_whole\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({len(before) + room}, {len(before) + room}))\n"
        "append_whole(Path(sys.argv[1]), b'x' * 1500 + b'\\n')"
    )
    ended = subprocess.run([sys.executable, "-c", script, path], capture_output=True, text=True, check=False)
    assert "StorageError" in ended.stderr
    assert path.read_bytes() == before
    append_whole(path, b"")
    assert done(run) == {0, 1}


def test_rows_of_another_study_or_model_are_refused(run: Path) -> None:
    fill(run, range(2))
    for name in ("study_sha256", "model_sha256"):
        with shard.open_shard(run, 1, 2) as log:
            log.append(7, [make_row(7, "full", **{name: "f00"})])
        for read in (read_run, done):
            with pytest.raises(BadInput, match=f"{name} of rows in .*000001.jsonl is 'f00'"):
                read(run)
        (run / "shard-1-of-2" / "000001.jsonl").unlink()


def test_a_study_that_was_changed_after_the_run_began_is_refused(run: Path) -> None:
    changed = json.loads((run / "run.json").read_text())
    changed["study"]["seeds"] = [5]
    (run / "run.json").write_text(json.dumps(changed))
    with pytest.raises(BadInput, match="was changed"):
        read_run(run)


def test_files_that_are_not_ours_are_passed_over(run: Path) -> None:
    fill(run, range(2))
    (run / "shard-0-of-1" / "000001-copy.jsonl").write_text("mine")
    (run / "shard-0-of-1" / "notes.parquet").write_text("mine")
    assert done(run) == {0, 1}


def test_a_shard_that_is_sealed_while_it_is_read_is_read_again(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(run, range(3))
    list_parts, calls = shard._parts, []

    def seal_behind(folder: Path) -> list[tuple[int, Path]]:
        found = list_parts(folder)
        calls.append(found)
        if len(calls) == 1:
            monkeypatch.setattr(shard, "_parts", list_parts)
            with shard.open_shard(run, 0, 1) as log:
                log.seal()
            monkeypatch.setattr(shard, "_parts", seal_behind)
        return found

    monkeypatch.setattr(shard, "_parts", seal_behind)
    assert done(run) == {0, 1, 2}
    assert [found[0][1].suffix for found in calls] == [".jsonl", ".parquet"]


def test_a_row_that_is_not_of_the_schema_is_not_written(run: Path) -> None:
    with shard.open_shard(run, 0, 1) as log:
        for row in (make_row(0, "full", colour=1), make_row(0, "full", score="good"), {"unit": 0}):
            with pytest.raises(Exception, match=r"schema|convert"):
                log.append(0, [row])
    assert done(run) == set()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "a folder written by fewer study run"),
        ("{", "cannot be read"),
        ("{}", "cannot be read"),
        (json.dumps({name: value for name, value in HEADER.items() if name != "units"}), "it has no units"),
        (json.dumps(HEADER | {"study": {}, "study_sha256": hash_json({})}), "its study is none"),
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
