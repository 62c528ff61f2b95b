"""`fewer doctor`: every finding is there, and what is wrong decides the exit code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

import fewer
from fewer.cli import doctor
from fewer.model.adapter import SUPPORTED
from fewer.model.store import ModelEntry


@pytest.fixture
def embedded(monkeypatch, model):
    """Let something else be the embedded model: by default the tiny one, converted."""

    def put(path: Path | None = model, ready: bool = True) -> None:
        entry = ModelEntry("Tiny", "embedded", path, 1000, ready, "" if ready else "fewer models fetch")
        monkeypatch.setattr("fewer.model.store.list_models", lambda: [entry])

    put()
    return put


def test_all_is_well(run, embedded, model):
    result = run("doctor --json")
    assert result.exit_code == 0
    assert result.stderr == ""
    found = json.loads(result.stdout)
    assert found["versions"] == {**found["versions"], "fewer": fewer.__version__, "torch": torch.__version__}
    assert found["threads"] == torch.get_num_threads()
    assert found["dtype"]["chosen"] in ("float32", "bfloat16")
    assert found["dtype"]["reason"].startswith("auto")
    assert found["kernels"]["instructions"] == torch.backends.cpu.get_cpu_capability()
    assert found["cache"]["writable"] is True
    assert found["cache"]["free_bytes"] > 0
    assert found["embedded_model"] == {"name": "Tiny", "ready": True, "path": str(model), "command": None}
    assert found["supported"] == list(SUPPORTED)
    assert found["self_check"]["ok"] is True
    assert 0 < found["self_check"]["seconds"] < 3
    assert found["problems"] == []


def test_the_table_says_the_same(run, embedded):
    result = run("doctor")
    assert result.exit_code == 0
    for word in ("torch", "thread", "kernels", "ready in", "one token", "supported", "problem", *SUPPORTED):
        assert (word in result.stdout) is (word != "problem")
    assert len([line for line in result.stdout.splitlines() if line.startswith("refused")]) == 6
    assert max(map(len, result.stdout.splitlines())) > 80  # nothing is folded where no terminal is


def test_refusals_are_the_adapters_own():
    found = doctor._list_refused()
    assert list(found) == list(doctor.REFUSED)
    assert "encoder-decoder" in found["t5"]
    assert "MLA" in found["deepseek_v3"]
    assert "state-space" in found["mamba2"]
    assert all(reason and not reason.endswith(".") for reason in found.values())


def test_a_missing_model_is_a_problem_with_a_way_out(run, embedded):
    embedded(path=None, ready=False)
    result = run("doctor")
    assert result.exit_code == 1
    assert "The embedded model is missing. Run `fewer models fetch`." in result.stdout
    assert result.stderr == ""


def test_an_unconverted_model_is_not_converted_for_a_look(run, embedded, tmp_path):
    (tmp_path / "model.gguf").touch()
    embedded(path=tmp_path / "model.gguf")
    found = json.loads(run("doctor --json").stdout)
    assert found["self_check"] == {
        "ran": False,
        "ok": None,
        "seconds": None,
        "detail": "the embedded model is converted at its first use",
    }
    assert found["problems"] == []


def test_a_broken_model_is_reported_and_not_raised(run, embedded, tmp_path):
    (tmp_path / "broken").mkdir()
    embedded(path=tmp_path / "broken")
    result = run("doctor --json")
    assert result.exit_code == 1
    found = json.loads(result.stdout)
    assert found["self_check"]["ok"] is False
    assert found["problems"] == [f"The self-check failed. {found['self_check']['detail']}"]


def test_a_cache_that_cannot_be_written(run, embedded, monkeypatch):
    Path("file").touch()
    monkeypatch.setenv("FEWER_CACHE", "file/cache")
    result = run("doctor")
    assert result.exit_code == 1
    assert "file/cache cannot be written. Set FEWER_CACHE" in result.stdout
