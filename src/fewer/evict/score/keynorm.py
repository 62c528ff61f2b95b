"""Key norm: small keys stay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from fewer.evict.score.cleared import clear_padding
from fewer.types import CacheView, Needs

__all__ = ["KeyNorm"]


@dataclass(frozen=True, slots=True)
class KeyNorm:
    """Keys of small L2 norm stay (Devoto et al. 2024, arXiv 2406.11430): they tend to get much attention.

    The score is 1 / (1 + ||k||), in (0, 1]. The paper only orders by the norm; any decreasing function gives the same
    top-k, and this one is what sampled designs take as the measure of size here. Rotary angles do not change the norm.

    Not covered: the paper leaves the first layers whole. Whether the rule holds depends on the model (those that
    normalise their keys leave it little to see).
    """

    @property
    def name(self) -> str:
        """Its name on the command line and on receipts."""
        return "keynorm"

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
        return clear_padding(1 / (1 + torch.linalg.vector_norm(view.k, dim=-1, dtype=torch.float32)), view)

    def describe(self) -> Mapping[str, str | int | float | None]:
        """No settings."""
        return {}
