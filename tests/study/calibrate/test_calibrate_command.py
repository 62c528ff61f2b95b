"""`fewer calibrate` from end to end: on a tiny model, and on the embedded one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from studying import make_rows, write_rows
from typer.testing import CliRunner, Result

import fewer
from fewer.cli.app import app
from fewer.engine import Engine
from fewer.errors import BadInput
from fewer.prune import LazyLLM
from fewer.prune.profile import load_profile
from fewer.study.calibrate import FIT_TASKS, PAPER, calibrate, fitting
from fewer.study.calibrate.check import check
from fewer.study.calibrate.items import lay_out_all
from fewer.study.tasks import load_task


@pytest.fixture(scope="module")
def engine(model_folder: Path) -> Engine:
    return Engine.load(str(model_folder), dtype="float32")


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    write_rows(tmp_path / "rows", make_rows(6))
    return tmp_path / "rows"


def run(model: Path, rows: Path, *more: str) -> Result:
    options = ["--data", str(rows), "--num-prompts", "6", "--check", "0", "--dtype", "float32"]
    return CliRunner().invoke(app, ["calibrate", str(model), *options, *more], prog_name="fewer")


def test_a_profile_is_written_and_used(
    model_folder: Path, engine: Engine, rows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fitting, "SIGNAL", -1.0)  # a random model has none
    file = tmp_path / "profile.json"
    done = run(model_folder, rows, "--out", str(file))
    assert (done.exit_code, done.exception) == (0, None) or done.exit_code == 0, done.output
    assert "after layer" in done.output
    assert f"The profile is in {file}" in done.output
    profile = load_profile(file)
    facts = engine.adapter.facts
    assert (profile.model, profile.fingerprint) == (model_folder.name, facts.fingerprint)
    record = profile.fitted_on
    assert (record["tasks"], record["num_prompts"], record["seed"]) == ({"tower_qa": 6}, 6, 101)
    assert record["fewer"] == fewer.__version__
    assert [gate["layer"] for gate in record["gates"]] == [score.layer for score in profile.scores]
    assert set(profile.presets) == {"mild", "balanced", "aggressive"}
    planner = LazyLLM("balanced", profile=str(file), shortest=0)
    answer = engine.ask("What colour is the lamp?", ["The lamp is red. " * 9], prune=planner, max_tokens=3)
    left = answer.receipt.computed.prefill_rows_per_layer
    assert left[-1] < left[0]
    assert list(tmp_path.glob(".*")) == []
    text = file.read_text()
    assert run(model_folder, rows, "--out", str(file)).exit_code == 2
    assert file.read_text() == text
    assert run(model_folder, rows, "--out", str(file), "--force", "--quiet").output == ""
    assert file.read_text() == text  # the same input, the same profile


def test_without_signal_nothing_is_written(model_folder: Path, rows: Path, tmp_path: Path) -> None:
    done = run(model_folder, rows, "--out", str(tmp_path / "profile.json"))
    assert done.exit_code == 2
    assert "points at the answers" in done.output
    assert not (tmp_path / "profile.json").exists()


def test_the_file_is_named_after_the_model(
    model_folder: Path, rows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fitting, "SIGNAL", -1.0)
    monkeypatch.chdir(tmp_path)
    assert run(model_folder, rows).exit_code == 0
    (file,) = tmp_path.glob("*.profile.json")
    written = json.loads(file.read_text())
    assert written["format"] == "fewer-profile"
    assert written["model"] == model_folder.name  # and not where it lies
    assert file.name == f"{model_folder.name}.profile.json"


def test_arms_are_checked_by_generation(engine: Engine, rows: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fitting, "SIGNAL", -1.0)
    profile = calibrate(engine, data=rows, num_prompts=4, check_items=0)
    done: list[int] = []
    write_rows(rows, make_rows(3, "long", "The lamp of tower {i} is red. It is tall, and it is as old as they are. "))
    items = lay_out_all(engine, load_task("long", rows))
    assert min(len(prompt) for _, prompt in items) >= 256  # shorter ones are left whole
    arms = check(engine, profile, items, lambda: done.append(1))
    assert len(done) == 3
    assert list(arms) == ["full", "mild", "balanced", "aggressive", PAPER]
    assert arms["full"] == {"score": 0, "left_out": 0}  # a random model answers nothing
    assert arms["mild"]["ratio"] is arms["mild"]["interval"] is None
    assert 0 < arms["mild"]["left_out"] < arms["balanced"]["left_out"] < arms["aggressive"]["left_out"] < 1
    assert arms[PAPER]["left_out"] == pytest.approx(arms["balanced"]["left_out"], abs=1e-3)


def test_the_ratio_is_of_the_sums_with_an_interval() -> None:
    from fewer.study.calibrate.check import _compare

    found = _compare([1, 0, 1, 0], [1, 1, 1, 0], ["a", "a", "b", "c"])
    assert found["ratio"] == pytest.approx(2 / 3, abs=1e-4)
    low, high = found["interval"]
    assert low < 2 / 3 < high


def test_progress_is_told(engine: Engine, rows: Path) -> None:
    told: list[tuple[str, int, int]] = []
    with pytest.raises(BadInput):
        calibrate(engine, data=rows, num_prompts=4, check_items=0, progress=lambda *where: told.append(where))
    assert told == [("Reading prompts", done, 4) for done in range(4)] + [("Choosing heads", 4, 4)]


@pytest.mark.real
def test_the_embedded_model_has_a_head_at_layer_8() -> None:
    engine = Engine.load()
    profile = calibrate(engine, num_prompts=12, check_items=0)
    record = profile.fitted_on
    assert record["gates"][0]["heads"][0] == [8, 7]
    assert list(record["tasks"]) == list(FIT_TASKS)
    assert all(gate["recall"] > gate["recall_paper"] + 0.3 for gate in record["gates"])
