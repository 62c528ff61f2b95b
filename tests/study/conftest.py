"""Fixtures of the studies' tests: the tiny model's folder, made once."""

from __future__ import annotations

from pathlib import Path

import pytest
from studying import save_model


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model that can be loaded by its path."""
    return save_model(tmp_path_factory.mktemp("studied"))
