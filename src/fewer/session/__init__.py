"""Sessions: a context that is read once, compressed once, and asked many times."""

from __future__ import annotations

from fewer.session.session import Session

__all__ = ["Session"]
