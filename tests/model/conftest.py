"""Fixtures of the model tests."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from cases import CASES, MORE, Case, T, others
from huggingface_hub import constants
from torch import Tensor

from tiny import TINY, Tiny


@pytest.fixture(scope="session", params=TINY)
def tiny(request: pytest.FixtureRequest, device: torch.device) -> Tiny:
    """Every tiny model."""
    return TINY[request.param].on(device)


@pytest.fixture(scope="session", params=CASES)
def case(request: pytest.FixtureRequest, device: torch.device) -> Case:
    """Every tiny model under every way of running it."""
    CASES[request.param].tiny.on(device)
    return CASES[request.param]


@pytest.fixture(scope="session", params=["llama-r2", "llama-r2-unfused"])
def plain(request: pytest.FixtureRequest, device: torch.device) -> Case:
    """Llama both ways, for what does not depend on the family."""
    CASES[request.param].tiny.on(device)
    return CASES[request.param]


@pytest.fixture(scope="session")
def ids() -> Tensor:
    """The prompt of T tokens and MORE tokens after it; more than any window."""
    return others(7, T + MORE)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where conversions go: a cache of the test's own, with no hub's cache beside it and no hub to reach."""
    monkeypatch.setenv("FEWER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    return tmp_path / "cache" / "models"
