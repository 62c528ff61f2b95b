"""Where and in which type to run: what is asked for, what is measured, and how the measurement is kept."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from fewer import BadInput, Engine
from fewer.engine import device as module
from fewer.engine.device import choose_device, choose_dtype, measure_peak

CPU = torch.device("cpu")


@pytest.fixture
def timed(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], list[torch.dtype]]:
    """Pretends that a bfloat16 product takes so much of the time of a float32 one; returns what was measured."""

    def pretend(ratio: float) -> list[torch.dtype]:
        calls: list[torch.dtype] = []

        def measure(dtype: torch.dtype, device: torch.device) -> float:
            calls.append(dtype)
            return ratio if dtype == torch.bfloat16 else 1.0

        monkeypatch.setattr(module, "_time_products", measure)
        return calls

    return pretend


@pytest.mark.parametrize("dtype", ["float32", torch.float32, "bfloat16", torch.bfloat16])
def test_what_is_asked_for(tmp_path: Path, dtype: str | torch.dtype) -> None:
    chosen, reason = choose_dtype(dtype, CPU, tmp_path)
    assert str(chosen).endswith(str(dtype).removeprefix("torch."))
    assert reason == "asked for"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("dtype", ["float16", "fp32", "", None, 32, torch.float16, torch.float64, torch.int8])
def test_a_type_that_is_not_run(tmp_path: Path, dtype: object) -> None:
    with pytest.raises(BadInput, match=r"dtype is '.*'; it must be 'auto', 'float32' or 'bfloat16'\. Use 'auto'"):
        choose_dtype(dtype, CPU, tmp_path)


@pytest.mark.parametrize(("ratio", "expected"), [(0.5, torch.bfloat16), (0.95, torch.float32), (1.8, torch.float32)])
def test_the_faster_one_is_measured_once(
    tmp_path: Path, timed: Callable[[float], list[torch.dtype]], ratio: float, expected: torch.dtype
) -> None:
    calls = timed(ratio)
    chosen = choose_dtype("auto", CPU, tmp_path / "new")
    assert chosen == (expected, f"auto: a bfloat16 product takes {ratio:.2f} of the time of a float32 one here")
    assert calls == [torch.bfloat16, torch.float32]
    assert choose_dtype("auto", CPU, tmp_path / "new") == chosen
    assert len(calls) == 2
    assert [file.name for file in (tmp_path / "new").iterdir()] == ["dtype.json"]


@pytest.mark.parametrize("content", ["", "{", "[]", "null", '{"another machine": 0.1}', '{"x": "y"}', "\x00\xff"])
def test_a_broken_note_only_means_measuring_again(
    tmp_path: Path, timed: Callable[[float], list[torch.dtype]], content: str
) -> None:
    (tmp_path / "dtype.json").write_text(content, encoding="latin-1")
    timed(0.5)
    assert choose_dtype("auto", CPU, tmp_path)[0] == torch.bfloat16
    kept = json.loads((tmp_path / "dtype.json").read_text())
    assert 0.5 in kept.values()
    assert ("another machine" in kept) == ("another" in content)


def test_a_note_that_cannot_be_written(
    tmp_path: Path, timed: Callable[[float], list[torch.dtype]], monkeypatch: pytest.MonkeyPatch
) -> None:
    timed(0.5)
    (tmp_path / "file").touch()
    assert choose_dtype("auto", CPU, tmp_path / "file")[0] == torch.bfloat16

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    assert choose_dtype("auto", CPU, tmp_path)[0] == torch.bfloat16
    assert [file.name for file in tmp_path.iterdir()] == ["file"]  # nothing half-written


def test_a_note_of_another_machine_is_not_ours(
    tmp_path: Path, timed: Callable[[float], list[torch.dtype]], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = timed(0.5)
    choose_dtype("auto", CPU, tmp_path)
    monkeypatch.setattr(module, "_machine", lambda device: "another one")
    choose_dtype("auto", CPU, tmp_path)
    assert len(calls) == 4
    assert len(json.loads((tmp_path / "dtype.json").read_text())) == 2


def test_measuring_takes_no_global_random_numbers(tmp_path: Path) -> None:
    before = torch.get_rng_state()
    _, reason = choose_dtype("auto", CPU, tmp_path)
    assert reason.startswith("auto: a bfloat16 product takes ")
    assert torch.equal(torch.get_rng_state(), before)


def test_devices() -> None:
    assert choose_device("cpu") == CPU
    assert choose_device("auto").type in ("cpu", "cuda", "mps")


@pytest.mark.parametrize("name", ["gpu", "", "cuda:99", "cpu:x", "meta", None, 1.5])
def test_a_device_that_is_not_there(name: object) -> None:
    with pytest.raises(BadInput) as caught:
        choose_device(name)
    assert str(caught.value).startswith(f"device is {name!r}; it must be one that PyTorch can use here (")
    assert str(caught.value).endswith("Use 'auto' or 'cpu'.")


def test_load_refuses_before_it_reads() -> None:
    for wrong in ({"device": "gpu"}, {"dtype": "float16"}, {"weights": "int4"}):
        (name,) = wrong
        with pytest.raises(BadInput, match=f"{name} is "):
            Engine.load("a/model-that-is-never-looked-for", **{"device": "cpu", "dtype": "float32", **wrong})
    with pytest.raises(TypeError, match="precision"):
        Engine.load(precision="half")


def test_the_peak_is_at_least_what_is_held() -> None:
    block = torch.zeros(2**24)
    peak, scope = measure_peak(CPU)
    assert peak > block.untyped_storage().nbytes()
    assert "since it started" in scope
