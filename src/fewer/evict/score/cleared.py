"""Scores that do not look at attention have to give padding its 0 themselves."""

from __future__ import annotations

from torch import Tensor

from fewer.types import CacheView

__all__ = ["clear_padding"]


def clear_padding(score: Tensor, view: CacheView) -> Tensor:
    """The score [kv_heads, n] with 0 for padding."""
    return score if view.padding is None else score.masked_fill(view.padding, 0)
