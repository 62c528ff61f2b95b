"""Keep third-party chatter off standard error while a model is read, and put everything back afterwards."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from huggingface_hub.utils import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars
from huggingface_hub.utils import logging as hub_logging
from transformers.utils import logging as transformers_logging

__all__ = ["quiet", "summarise"]


@contextmanager
def quiet() -> Iterator[None]:
    """No warnings, log lines or progress bars from transformers and huggingface_hub inside the block.

    The settings are the process's own, so other threads are quiet meanwhile too. Exceptions pass through.
    """
    levels = transformers_logging.get_verbosity(), hub_logging.get_verbosity()
    bars, hub_bars = transformers_logging.is_progress_bar_enabled(), not are_progress_bars_disabled()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        transformers_logging.set_verbosity(logging.CRITICAL)
        hub_logging.set_verbosity(logging.CRITICAL)
        transformers_logging.disable_progress_bar()
        try:
            yield
        finally:
            transformers_logging.set_verbosity(levels[0])
            hub_logging.set_verbosity(levels[1])
            if bars:
                transformers_logging.enable_progress_bar()
            (enable_progress_bars if hub_bars else disable_progress_bars)()


def summarise(error: BaseException) -> str:
    """An exception as part of one sentence: its type and the first line of its message, without the full stop."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0].rstrip('. ')}" if lines else type(error).__name__
