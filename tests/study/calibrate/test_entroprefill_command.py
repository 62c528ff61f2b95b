"""`fewer calibrate --method entroprefill` from end to end on a tiny model, against the planner, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from studying import make_rows, write_rows
from typer.testing import CliRunner, Result

from fewer.cli.app import app
from fewer.engine import Engine
from fewer.errors import BadInput
from fewer.kv import State
from fewer.model.forward import forward
from fewer.model.segment import Segment
from fewer.prune.entroprefill import EntroPrefill, load_calibrated
from fewer.study.calibrate.entroprefill import calibrate_entroprefill, prompts, search
from fewer.study.calibrate.entroprefill.prompts import (
    ALSO_FIT_TASKS,
    FIT_TASKS,
    HELD_OUT_TASKS,
    NEEDLES,
    gather,
    name_tasks,
)
from fewer.study.calibrate.entroprefill.rule import Rule, judge
from fewer.study.calibrate.entroprefill.tables import find_deepest, tabulate
from fewer.study.tasks.generate import GENERATORS


@pytest.fixture(scope="module")
def engine(model_folder: Path) -> Engine:
    return Engine.load(str(model_folder), dtype="float32")


@pytest.fixture
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two tasks to fit on, and one that is held out; no question is in two."""
    for number, task in enumerate(("lamps", "towers", "held")):
        made = make_rows(5, task, "The lamp of tower {i} is red and tall. ")
        for row in made:
            row["question"] = f"{number}: {row['question']}"
            row["context_chunks"] = [
                {"title": f"T{place}", "text": f"Lamp {place} is red. " + "So old. " * (place % 3 + 1)}
                for place in range(10)
            ]
        write_rows(tmp_path / "rows", made)
    monkeypatch.setattr(prompts, "FIT_TASKS", ("lamps", "towers"))
    monkeypatch.setattr(prompts, "ALSO_FIT_TASKS", ())
    monkeypatch.setattr(prompts, "HELD_OUT_TASKS", ("held",))
    monkeypatch.setattr(search, "POOL", 2)
    return tmp_path / "rows"


def run(model: Path, rows: Path, *more: str) -> Result:
    options = ["--method", "entroprefill", "--data", str(rows), "--num-prompts", "8", "--dtype", "float32"]
    return CliRunner().invoke(app, ["calibrate", str(model), *options, *more], prog_name="fewer")


def test_the_tasks_are_disjoint_and_of_both_kinds() -> None:
    assert not {*FIT_TASKS, *ALSO_FIT_TASKS} & set(HELD_OUT_TASKS)
    assert {*FIT_TASKS, *ALSO_FIT_TASKS, *HELD_OUT_TASKS} > NEEDLES
    for tasks in (FIT_TASKS, ALSO_FIT_TASKS):
        assert len(NEEDLES & set(tasks)) >= 5
        assert len(set(tasks) - NEEDLES) >= 5
    fit, also, held = name_tasks(None, None)
    assert set(fit) == set(FIT_TASKS) & set(GENERATORS)
    assert set(also) == set(ALSO_FIT_TASKS) & set(GENERATORS)
    assert held == ()
    assert name_tasks(["passcode", "reordered"], None) == (("passcode", "reordered"), (), ())


def test_a_file_is_written_and_used(model_folder: Path, engine: Engine, rows: Path, tmp_path: Path) -> None:
    file = tmp_path / "settings.json"
    goal = ("--saving", "0.01", "--rate", "0.01")
    done = run(model_folder, rows, "--out", str(file), *goal)
    assert done.exit_code == 0, done.output
    assert "of those that save 1% of the prefill on all tasks" in " ".join(done.output.split())
    assert "held-out tasks" in done.output
    assert f"The settings are in {file}" in done.output
    calibrated = load_calibrated(file)
    record = calibrated.fitted_on
    assert (calibrated.model, calibrated.fingerprint) == (model_folder.name, engine.adapter.facts.fingerprint)
    assert record["tasks"] == {
        "fit": {"lamps": 4, "towers": 4},
        "other_items": {"lamps": 1, "towers": 1},
        "held_out": {"held": 4},
    }
    assert record["seeds"] == {"fit": [301], "other_items": [60_301], "held_out": [70_301]}
    assert record["goal"] == {"saving": 0.01, "rate": 0.01}
    assert record["fit"]["all"]["saving"] >= 0.01
    assert (record["held_out"]["all"]["n"], record["other_items"]["all"]["n"]) == (4, 2)
    assert str(tmp_path) not in file.read_text()
    planner = EntroPrefill(profile=str(file)).fitted(engine.adapter.facts)
    assert planner.settings.tolerance == calibrated.settings["tolerance"]
    assert planner.settings.rows == "mean"
    text = file.read_text()
    assert run(model_folder, rows, "--out", str(file), *goal).exit_code == 2
    assert run(model_folder, rows, "--out", str(file), *goal, "--force", "--quiet").output == ""
    again = json.loads(file.read_text()) | {"fitted_on": {**record, "date": ""}}
    assert again == json.loads(text) | {"fitted_on": {**record, "date": ""}}


def test_a_goal_that_no_rule_reaches_writes_nothing(model_folder: Path, rows: Path, tmp_path: Path) -> None:
    done = run(model_folder, rows, "--out", str(tmp_path / "settings.json"), "--saving", "1")
    assert done.exit_code == 2
    assert "No heads save 100% of the prefill and keep the evidence of 95%" in " ".join(done.output.split())
    assert not (tmp_path / "settings.json").exists()


def test_tables_are_kept_and_read_again(engine: Engine, rows: Path, tmp_path: Path) -> None:
    (asked, *_) = gather(engine, ["lamps"], rows, lengths=(1,), num_prompts=2, seed=0)
    folder = tmp_path / "tables"
    made = tabulate(engine, asked, folder)
    (path,) = folder.iterdir()
    again = tabulate(engine, asked, folder)
    assert all(np.array_equal(getattr(made, name), getattr(again, name)) for name in made.__slots__)
    before = path.stat().st_mtime_ns
    path.write_bytes(path.read_bytes()[:200])  # cut short
    assert np.array_equal(tabulate(engine, asked, folder).shares, made.shares)
    assert [each.name for each in folder.iterdir()] == [path.name]
    assert path.stat().st_mtime_ns > before


@pytest.mark.parametrize(
    ("tolerance", "lift", "shortest"), [(0.1, 1e6, 0), (0.5, 1e6, 0), (0.7, 1.05, 0), (0.7, 1e6, 99)]
)
def test_a_rule_does_what_the_planner_does(
    engine: Engine, rows: Path, tolerance: float, lift: float, shortest: int
) -> None:
    layers = engine.adapter.num_layers
    outcomes = []
    for asked in gather(engine, ["lamps", "towers"], rows, lengths=(1,), num_prompts=8, seed=0):
        table = tabulate(engine, asked)
        assert table.shares.shape == (find_deepest(layers), engine.adapter.num_heads, len(table.sizes))
        rule = Rule(((1, 1), (2, 0)), tolerance, lift, 2, 0.4, 0.85, shortest)
        planner = EntroPrefill(
            preset="general",
            monitor=rule.monitor,
            rows="mean",
            observers=32,
            tolerance=tolerance,
            audit_tolerance=tolerance + 0.05,
            min_chunks=2,
            lift_at_most=lift,
            keep="40%",
            keep_at_most="85%",
            document_min=0.05,
            shortest=shortest,
        ).fitted(engine.adapter.facts)
        segment = Segment(State.new(layers), asked.prompt.ids, planner, asked.prompt)
        forward(engine.adapter, [segment])
        outcome = judge(table, rule, layers)
        assert outcome.pruned == bool(segment.plans)
        left = 0 if not segment.plans else len(asked.prompt) - segment.plans[0].keep.numel()
        assert outcome.saving == pytest.approx((1 - 2 / layers) * left / len(asked.prompt))
        outcomes.append(outcome)
    assert any(each.pruned for each in outcomes) == (tolerance > 0.1)


def test_questions_that_were_fitted_on_are_not_held_out(engine: Engine, rows: Path) -> None:
    fit = gather(engine, ["lamps"], rows, lengths=(1,), num_prompts=2, seed=0)
    asked = frozenset(each.question for each in fit)
    others = gather(engine, ["lamps"], rows, lengths=(1,), num_prompts=4, seed=0, without=asked)
    assert len(others) == 3
    assert not asked & {each.question for each in others}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"tasks": ["nothing", "passcode"]}, "task is 'nothing'; it must be one of ruler_niah_single_1"),
        ({"tasks": ["passcode", "passcode"]}, "named once"),
        ({"tasks": ["passcode"]}, "at least two tasks"),
        ({"num_prompts": 31}, "num_prompts is 31; it must be a whole number of at least 32"),
        ({"seed": -1}, "seed is -1"),
        ({"rate": 0.0}, "rate is 0"),
        ({"rate": 1.5}, "rate is 1.5"),
        ({"saving": 0.0}, "saving is 0"),
        ({"saving": 1.5}, "saving is 1.5"),
        ({"length": 0}, "length is 0"),
    ],
)
def test_bad_settings(engine: Engine, settings: dict, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        calibrate_entroprefill(engine, **settings)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--method", "other"], "--method is 'other'; it must be lazyllm or entroprefill"),
        (["--method", "entroprefill", "--check", "3"], "--check is '3'; it must be left out with method entroprefill"),
        (["--rate", "0.9"], "--rate is '0.9'; it must be left out with method lazyllm"),
        (["--saving", "0.3"], "--saving is '0.3'; it must be left out with method lazyllm"),
        (["--tables", "x"], "--tables is 'x'; it must be left out with method lazyllm"),
    ],
)
def test_options_of_the_other_method_are_refused(options: list[str], message: str) -> None:
    done = CliRunner().invoke(app, ["calibrate", *options], prog_name="fewer")
    assert done.exit_code == 2
    assert message in " ".join(done.output.split())


def test_a_folder_without_any_of_the_tasks(engine: Engine, tmp_path: Path) -> None:
    write_rows(tmp_path, make_rows(4))
    with pytest.raises(BadInput, match="a folder with nq_multidoc_20 or"):
        calibrate_entroprefill(engine, data=tmp_path)


def test_labels_are_of_chunks_that_may_leave(engine: Engine, rows: Path) -> None:
    for asked in gather(engine, ["lamps"], rows, lengths=(1,), num_prompts=4, seed=0):
        table = tabulate(engine, asked)
        assert table.supporting.sum() == len(asked.supporting) > 0
        np.testing.assert_allclose(table.shares.sum(axis=-1), 1.0)
        np.testing.assert_allclose(table.audited.sum(axis=-1), 1.0)
        assert np.all((table.document_mass >= 0) & (table.document_mass <= 1.001))
