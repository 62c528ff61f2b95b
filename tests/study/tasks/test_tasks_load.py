"""Finding tasks in a folder, taking some of their items, and the sample that ships."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from rowfiles import make_row, write_lines, write_prompt

from fewer.errors import BadInput, DocumentError
from fewer.study.metrics import METRICS
from fewer.study.tasks import SAMPLE, list_tasks, load_sample, load_task
from fewer.study.tasks.reading import read_lines

PERMISSIVE = ("Apache-2.0", "MIT", "PSF-2.0", "CC BY 4.0", "CC BY 3.0")


def test_tasks_of_a_folder(tmp_path: Path) -> None:
    write_lines(tmp_path / "towers.jsonl", [make_row(0)])
    write_lines(tmp_path / "spires.jsonl.gz", [make_row(0, task="spires")])
    write_lines(tmp_path / "notes.jsonl", [{"text": "hello"}])
    (tmp_path / "README.md").write_text("rows")
    assert list_tasks(tmp_path) == ("notes", "spires", "towers")
    (item,) = load_task("spires", tmp_path)
    assert item.task == "spires"
    with pytest.raises(BadInput, match=r"the fields of the first row of .*notes\.jsonl is 'text'; it must be those of"):
        load_task("notes", tmp_path)


def test_an_unknown_task_names_those_like_it(tmp_path: Path) -> None:
    write_lines(tmp_path / "towers.jsonl", [make_row(0)])
    with pytest.raises(BadInput, match=r"the task in .* is 'tower'; it must be a task that is there. Is it towers\?"):
        load_task("tower", tmp_path)
    with pytest.raises(BadInput, match=r"the task in the sample is 'kv_retrieval'.* Is it kv_retrieval_75"):
        load_task("kv_retrieval")
    with pytest.raises(BadInput, match="Check the path; a folder in it may be its split"):
        load_task("towers", tmp_path / "..")
    with pytest.raises(BadInput, match=r"the data folder is .*; it must be an existing folder"):
        load_task("towers", tmp_path / "gone")
    with pytest.raises(BadInput, match=r"the data folder is .*; it must be an existing folder"):
        list_tasks(tmp_path / "towers.jsonl")


def test_a_split_is_a_folder(tmp_path: Path) -> None:
    write_lines(tmp_path / "dev" / "towers.jsonl", [make_row(0)])
    write_lines(tmp_path / "test" / "towers.jsonl", [make_row(1), make_row(2)])
    assert list_tasks(tmp_path) == ()
    assert len(load_task("towers", tmp_path, split="dev")) == 1
    assert len(load_task("towers", str(tmp_path), split="test")) == 2
    assert list_tasks(tmp_path / "dev", "test") == ()
    with pytest.raises(BadInput, match=r"the task in .* is 'towers'"):
        load_task("towers", tmp_path / "dev", split="test")


def test_one_task_in_two_files(tmp_path: Path) -> None:
    write_lines(tmp_path / "towers.jsonl", [make_row(0)])
    write_lines(tmp_path / "towers.jsonl.gz", [make_row(0)])
    with pytest.raises(BadInput, match=r"the task towers in .* is 'towers'; it must be in one file"):
        list_tasks(tmp_path)


def test_a_broken_file_does_not_hide_the_others(tmp_path: Path) -> None:
    (tmp_path / "towers.jsonl.gz").write_bytes(b"no gzip")
    write_lines(tmp_path / "masts.jsonl", ["{"])
    write_lines(tmp_path / "vt" / "validation.jsonl", ["{"])
    write_lines(tmp_path / "spires.jsonl", [make_row(0, task="spires")])
    assert list_tasks(tmp_path) == ("masts", "ruler_vt", "spires", "towers")
    assert len(load_task("spires", tmp_path)) == 1
    with pytest.raises(DocumentError, match=r"towers\.jsonl\.gz is a broken gzip file"):
        load_task("towers", tmp_path)
    with pytest.raises(BadInput, match=r"masts\.jsonl, line 1 is not JSON"):
        load_task("masts", tmp_path)
    with pytest.raises(BadInput, match=r"validation\.jsonl, line 1 is not JSON"):
        load_task("ruler_vt", tmp_path)


def test_a_row_that_misses_a_field_is_still_a_row(tmp_path: Path) -> None:
    write_lines(tmp_path / "towers.jsonl", [make_row(0, answers=None)])
    with pytest.raises(BadInput, match=r"towers\.jsonl, line 1: answers is missing"):
        load_task("towers", tmp_path)


def test_fewer_items_are_the_first_of_more(tmp_path: Path) -> None:
    rows = [make_row(number) for number in range(30)]
    write_lines(tmp_path / "a" / "towers.jsonl", rows)
    write_lines(tmp_path / "b" / "towers.jsonl", rows[::-1])
    whole = load_task("towers", tmp_path / "a", seed=4)
    assert len(whole) == 30
    for size in (1, 10, 20, 30, 99):
        assert load_task("towers", tmp_path / "a", size, seed=4) == whole[:size]
        assert [item.id for item in load_task("towers", tmp_path / "b", size, seed=4)] == [i.id for i in whole[:size]]
    assert len({item.cluster for item in whole[:15]}) == 15
    assert load_task("towers", tmp_path / "a", 10, seed=5) != whole[:10]


@pytest.mark.parametrize("settings", [{"num_items": 0}, {"num_items": True}, {"num_items": 1.0}, {"seed": "0"}])
def test_wrong_settings(tmp_path: Path, settings: dict[str, Any]) -> None:
    write_lines(tmp_path / "towers.jsonl", [make_row(0)])
    with pytest.raises(BadInput, match=next(iter(settings))):
        load_task("towers", tmp_path, **settings)


def test_the_sample_is_small_and_every_row_of_it_loads() -> None:
    sample = load_sample()
    assert {name: len(items) for name, items in sample.items()} == {
        "code_stdlib_crossfile": 8,
        "code_stdlib_infile": 10,
        "kv_retrieval_75": 8,
        "longeval_lines_200": 8,
        "longeval_topics_5": 8,
        "longmemeval_sample": 4,
        "mtrag_12docs": 6,
    }
    assert sum(path.stat().st_size for path in SAMPLE.iterdir()) < 400_000
    items = [item for items in sample.values() for item in items]
    assert len({item.id for item in items}) == len(items)
    assert all(item.metric in METRICS for item in items)
    assert all(any(chunk.text in write_prompt(item) for chunk in item.chunks) for item in items)


def test_the_samples_rows_are_under_permissive_licences_that_the_notice_names() -> None:
    notice = (SAMPLE / "NOTICE").read_text("utf-8")
    rows = [line.row for path in SAMPLE.glob("*.jsonl.gz") for line in read_lines(path)]
    for row in rows:
        licence = row["source"]["licence"]
        assert any(name in licence for name in PERMISSIVE), licence
        assert not re.search(r"BY-SA|NC|GPL|no licence", licence)
        assert row["source"]["repo"] in notice
        assert row["source"]["commit"] in notice
        assert row["task"] in notice
        assert "wikipedia.org" not in json.dumps(row)
    sizes = {task: sum(row["task"] == task for row in rows) for task in list_tasks()}
    assert all(f"{task} ({size} rows)" in notice for task, size in sizes.items())
