"""`fewer study replay`, with a tiny study and a tiny model in place of the packaged study and the embedded one."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from replaying import make_study
from typer.testing import CliRunner, Result

from fewer.cli.app import app
from fewer.engine import Engine
from fewer.study.registration import load_registration
from fewer.study.replay import spec


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch, model_folder: Path, tmp_path: Path) -> None:
    engine = Engine.load(str(model_folder), dtype="float32")
    monkeypatch.setattr(Engine, "load", lambda *_, **__: engine)
    monkeypatch.setattr(spec, "load_replay", make_study)
    monkeypatch.chdir(tmp_path)


def run(arguments: str) -> Result:
    return CliRunner().invoke(app, shlex.split(arguments), prog_name="fewer")


@pytest.mark.usefixtures("tiny")
def test_a_part_then_the_rest_and_the_report() -> None:
    first = run("study replay --out run --most 1")
    assert first.exit_code == 0, first.stderr
    assert "1 prompts are left; the same command goes on." in first.stderr
    second = run("study replay --out run --report report")
    assert second.exit_code == 0, second.stderr
    assert "The report is in report." in second.stderr
    assert "left" not in second.stderr
    assert "covers: " in Path("report/report.md").read_text()


@pytest.mark.usefixtures("tiny")
def test_registering_runs_nothing() -> None:
    found = run("study replay --register r.json")
    assert found.exit_code == 0, found.stderr
    assert found.stdout.strip() == load_registration("r.json").sha256
    assert sorted(path.name for path in Path().iterdir()) == ["r.json"]


@pytest.mark.parametrize("options", ["", "--out run --register r.json"])
@pytest.mark.usefixtures("tiny")
def test_a_run_or_a_registration(options: str) -> None:
    found = run(f"study replay {options}")
    assert found.exit_code == 2
    assert "given, unless --register is" in " ".join(found.stderr.split())
