"""`fewer odds`: a run's folder becomes a table that `fewer why` reads; what is refused writes nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fewer.decide import load_odds
from fewer.decide.odds import Setting
from fewer.decide.tabulate import build_odds
from fewer.errors import bad
from fewer.study.sessions import measured


def make_table():
    size = 120
    broken = [int(at % 3 == 0 and at >= 60) for at in range(size)]
    policy = {"name": "pivotal:snapkv", "budget.keep": "50%"}
    return build_odds(
        [at / size for at in range(size)],
        [-(at % 40) / 40 for at in range(size)],
        broken,
        [0] * size,
        [at // 4 for at in range(size)],
        study="MADE UP",
        command="none",
        model="tiny",
        setting=Setting("0123456789", policy, "stream"),
        signal="certificate_clipped",
    )


@pytest.fixture
def measuring(monkeypatch):
    """A run that can be measured without one; returns what was asked for."""
    asked = []

    def measure(run, arm, signal, told):
        asked.append((run, arm, signal, told))
        if arm == "none":
            raise bad("arm", arm, "one of those that there are", "Name one.")
        return measured.Measured(make_table(), {"no certificate": 3})

    monkeypatch.setattr(measured, "measure_odds", measure)
    monkeypatch.setattr("fewer.study.folder.read_run", lambda folder: folder)
    return asked


def test_the_table_is_written_shown_and_can_be_read(run, measuring) -> None:
    result = run("odds runs/a --arm 'pivotal:snapkv budget=50%' --out odds.json")
    assert result.exit_code == 0, result.stderr
    assert measuring == [
        (
            Path("runs/a"),
            "pivotal:snapkv budget=50%",
            "certificate_clipped",
            "fewer odds runs/a --arm 'pivotal:snapkv budget=50%'",
        )
    ]
    assert load_odds("odds.json") == make_table()
    shown = [line.split() for line in result.stdout.splitlines()]
    assert ["all", "all", "120", "17%"] in [line[:4] for line in shown]
    assert sum(line[:1] == ["high"] for line in shown) == 3
    assert "Left out, no certificate: 3." in result.stderr


def test_as_json_it_is_what_is_in_the_file(run, measuring) -> None:
    result = run("odds runs/a --arm x --out odds.json --json")
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout) == json.loads(Path("odds.json").read_text())
    assert "Left out, no certificate: 3." in result.stderr


def test_another_signal_is_in_the_command(run, measuring, tmp_path) -> None:
    result = run(f"odds runs/a --arm x --signal certificate --out {tmp_path / 'o.json'}")
    assert result.exit_code == 0
    assert measuring[0][2:] == ("certificate", "fewer odds runs/a --arm x --signal certificate")


@pytest.mark.parametrize(("arm", "out"), [("none", "o.json"), ("x", "."), ("x", "nowhere/o.json")])
def test_what_is_refused_writes_nothing(run, measuring, arm, out) -> None:
    before = sorted(Path().rglob("*"))
    result = run(f"odds runs/a --arm {arm} --out {out}")
    assert result.exit_code == 2
    assert sorted(Path().rglob("*")) == before
