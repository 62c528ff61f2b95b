"""Uniform: no row is wanted more than another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from fewer.evict.score.cleared import clear_padding
from fewer.types import CacheView, Needs

__all__ = ["Uniform"]


@dataclass(frozen=True, slots=True)
class Uniform:
    """1 for every row: the baseline. With a sampled design, simple random sampling of what is not protected.

    With top-k it is a question of ties, and nobody's method.
    """

    @property
    def name(self) -> str:
        """Its name on the command line and on receipts."""
        return "uniform"

    @property
    def needs(self) -> Needs:
        """No queries."""
        return Needs()

    @property
    def gathers(self) -> bool:
        """Nothing."""
        return False

    def __call__(self, view: CacheView) -> Tensor:
        """[kv_heads, n] float32."""
        return clear_padding(torch.ones(view.pos.shape, dtype=torch.float32, device=view.pos.device), view)

    def describe(self) -> Mapping[str, str | int | float | None]:
        """No settings."""
        return {}
