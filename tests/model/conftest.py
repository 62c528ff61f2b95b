"""Fixtures of the model tests."""

from __future__ import annotations

import pytest
import torch
from cases import CASES, MORE, Case, T, others
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
