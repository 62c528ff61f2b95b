"""Fixtures of the engine's tests: engines over the tiny model, and over the embedded one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from tinytext import SPEAKER, make_engine
from transformers import AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from fewer import Engine
from fewer.model.store import load_model, resolve


@pytest.fixture(scope="session")
def engine(device: torch.device) -> Engine:
    """An engine over the tiny model."""
    return make_engine(device)


@pytest.fixture(scope="session")
def reference(device: torch.device) -> PreTrainedModel:
    """The tiny model, untouched."""
    return SPEAKER.on(device).model


@pytest.fixture(scope="session")
def real(device: torch.device) -> Engine:
    """An engine over the embedded model, in float32."""
    return Engine.load(device=str(device), dtype="float32")


@pytest.fixture(scope="session")
def real_tokenizer() -> PreTrainedTokenizerBase:
    """The embedded model's tokenizer."""
    return AutoTokenizer.from_pretrained(resolve().path)


@pytest.fixture(scope="session")
def real_reference(real: Engine, device: torch.device) -> PreTrainedModel:
    """The embedded model as transformers loads it, without an end token: an engine takes its model over."""
    model = load_model(real.setting.source, torch.float32)[0].to(device)
    model.generation_config.eos_token_id = None
    return model


@pytest.fixture(scope="session")
def data() -> Path | None:
    """The folder with evaluation data, where there is one."""
    folder = Path(os.environ.get("FEWER_DATA") or Path(__file__).parents[2] / ".." / "shared" / "data")
    return folder if (folder / "dev").is_dir() else None
