"""StreamingLLM: the newest rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from fewer.evict.score.cleared import clear_padding
from fewer.types import CacheView, Needs

__all__ = ["StreamingLLM"]


@dataclass(frozen=True, slots=True)
class StreamingLLM:
    """Recency (Xiao et al. 2024, arXiv 2309.17453): with protected sinks and top-k, the newest rows stay.

    The score is 1 + the position, exact up to 16 million tokens. A sampled design thus draws in proportion to the
    position, which nobody has published and nothing recommends. The sinks are the policy's.

    Not covered: the paper renumbers positions inside the cache. Here rows keep theirs.
    """

    @property
    def name(self) -> str:
        """Its name on the command line and on receipts."""
        return "streaming"

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
        return clear_padding((view.pos + 1).to(torch.float32), view)

    def describe(self) -> Mapping[str, str | int | float | None]:
        """No settings."""
        return {}
