"""Fixtures that several test folders share: the device, its tolerance, and the tiny models.

FEWER_TEST_DEVICE chooses the device (cpu, or cuda with the gpu tolerance in place of the fp32 one). Models are built
once a session, when a test first asks for them. One thread: on models this small a second one only gets in the way.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
import torch

from tolerances import FP32, GPU

if TYPE_CHECKING:
    from tiny import Tiny

torch.set_num_threads(1)


@pytest.fixture(scope="session")
def device() -> torch.device:
    """Where the models run."""
    return torch.device(os.environ.get("FEWER_TEST_DEVICE", "cpu"))


@pytest.fixture(scope="session")
def fp32(device: torch.device) -> float:
    """The tolerance of float32 arithmetic on this device."""
    return FP32 if device.type == "cpu" else GPU


@pytest.fixture(scope="session")
def llama(device: torch.device) -> Tiny:
    """The plainest tiny model: Llama with two query heads to a key head."""
    from tiny import TINY

    return TINY["llama-r2"].on(device)
