"""Standard output for results only: what libraries print there by themselves goes to standard error."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

__all__ = ["output_kept_clean"]

_OUT, _ERR = 1, 2


@contextmanager
def output_kept_clean() -> Iterator[None]:
    """Inside, the process's standard output is its standard error: solvers print to it from C. Not for threads.

    Where one of the two is closed, nothing is changed.
    """
    try:
        sys.stdout.flush()
        kept = os.dup(_OUT)
    except (AttributeError, OSError, ValueError):
        yield
        return
    try:
        with suppress(OSError):
            os.dup2(_ERR, _OUT)
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, _OUT)
        os.close(kept)
