"""From tasks to units: what the log could not hold, or no metric could score, is named before anything runs."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from studying import make_rows, write_rows
from transformers import AutoTokenizer

from fewer.errors import BadInput
from fewer.study import prepare as preparing
from fewer.study.prepare import Prepared, prepare
from fewer.study.spec import Study
from fewer.study.tasks.rows import read_rows

Prepare = Callable[..., Prepared]


@pytest.fixture
def run(model_folder: Path, tmp_path: Path) -> Prepare:
    tokenizer = AutoTokenizer.from_pretrained(model_folder)

    def call(**task: Any) -> Prepared:
        tasks = [{"name": "tower_qa", "data": "rows"} | task]
        study = Study.model_validate({"name": "s", "tasks": tasks, "arms": [{"name": "full"}]})
        return prepare(study, tokenizer, tmp_path)

    return call


def change(folder: Path, **changes: Any) -> Path:
    """Three rows, the second with other fields."""
    rows = make_rows(3)
    rows[1] |= changes
    write_rows(folder / "rows", rows)
    return folder / "rows" / "tower_qa.jsonl"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"meta": {"length": "long"}}, "meta.length is 'long'; it must be a whole number"),
        ({"meta": {"length": True}}, "meta.length is True"),
        ({"meta": {"length": 10**30}}, "meta.length is 1000"),
        ({"meta": {"length": 2**63}}, "meta.length is 9223372036854775808"),
        ({"meta": {"length": 1.0}}, "meta.length is 1.0"),
        ({"meta": {"depth": "deep"}}, "meta.depth is 'deep'; it must be a number from 0 to 1"),
        ({"meta": {"depth": 1.01}}, "meta.depth is 1.01"),
        ({"meta": {"depth": False}}, "meta.depth is False"),
        ({"id": 3}, "id is 3; it must be a text"),
        ({"group": None}, "group is None; it must be a text"),
        ({"answers": 3}, "answers is 3; it must be a list"),
        ({"answers": ["maybe"], "metric": "yes_no"}, "answer"),
        ({"metric": "multiple_choice", "meta": {"options": 3, "gold_index": "a"}}, "options"),
    ],
)
def test_a_row_that_breaks_the_log_or_the_metric_is_named_once(
    run: Prepare, tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    path = change(tmp_path, **changes)
    with pytest.raises(BadInput, match=said) as caught:
        run()
    assert str(caught.value).startswith(f"{path}, line 2: ")
    assert str(caught.value).count(str(path)) == 1


def test_a_number_that_is_endless_in_json_is_no_depth(run: Prepare, tmp_path: Path) -> None:
    path = change(tmp_path, meta={"depth": 0.25})
    path.write_text(path.read_text().replace("0.25", "1e999"))
    with pytest.raises(BadInput, match=r"line 2: meta.depth is inf"):
        run()


@pytest.mark.parametrize(("name", "value"), [("depth", math.nan), ("length", -1), ("length", "long")])
def test_items_of_any_other_origin_are_checked_too(
    run: Prepare, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: object
) -> None:
    (first, *_) = read_rows(change(tmp_path), "tower_qa")
    monkeypatch.setattr(preparing, "load_task", lambda *_, **__: (replace(first, meta={name: value}),))
    with pytest.raises(BadInput, match=f"meta.{name} of the item tower_qa-0 is"):
        run()


def test_what_fits_is_taken(run: Prepare, tmp_path: Path) -> None:
    change(tmp_path, meta={"length": 2**63 - 1, "depth": 1})
    metas = {unit.item.id: unit.item.meta for unit in run().units}
    assert (metas["tower_qa-1"]["length"], metas["tower_qa-1"]["depth"]) == (2**63 - 1, 1)
    assert "length" not in metas["tower_qa-0"]


def test_an_empty_file_is_named(run: Prepare, tmp_path: Path) -> None:
    path = change(tmp_path)
    path.write_text("\n")
    with pytest.raises(BadInput) as caught:
        run()
    assert str(caught.value).startswith(f"{path} has no rows.")
    (tmp_path / "rows" / "data.json").write_text(json.dumps([]))
    with pytest.raises(BadInput, match="no rows") as caught:
        run(name="longbench_v2")
    assert str(tmp_path / "rows") in str(caught.value)


def test_a_generator_that_takes_no_data_says_so(run: Prepare) -> None:
    with pytest.raises(BadInput, match=r"data of ruler_niah_single_1 is 'nope'.* This generator takes no data"):
        run(name="ruler_niah_single_1", data="nope", lengths=[400], num_items=1)
