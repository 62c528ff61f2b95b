"""Fixtures of the sessions' tests."""

from __future__ import annotations

import pytest
from speaker import make_engine

from fewer import Engine


@pytest.fixture(scope="session")
def engine() -> Engine:
    """A tiny Llama that speaks bytes."""
    return make_engine()
