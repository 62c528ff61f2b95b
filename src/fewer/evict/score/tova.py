"""TOVA: what the newest token looks at, with all heads of the layer together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from fewer.evict.score.attention import aggregate_group, mean_attention
from fewer.types import CacheView, Needs

__all__ = ["TOVA"]


@dataclass(frozen=True, slots=True)
class TOVA:
    """Attention of the last query, averaged over all heads of the layer (Oren et al. 2024, arXiv 2401.06104).

    As in the paper all heads of a layer want the same rows, so there is no choice of group aggregation. Where heads
    hold different rows (an earlier compression drew them per head) a token's score is the mean over the key-value heads
    that still hold it. Unit: share of the attention.

    The paper drops one row at every step; here rows go when the cache is compressed, by the newest query of then.
    """

    @property
    def name(self) -> str:
        """Its name on the command line and on receipts."""
        return "tova"

    @property
    def needs(self) -> Needs:
        """The newest query."""
        return Needs("last", 1)

    @property
    def gathers(self) -> bool:
        """Each compression looks anew."""
        return False

    def __call__(self, view: CacheView) -> Tensor:
        """[kv_heads, n] float32. Raises BadInput where no query was observed."""
        score = aggregate_group(mean_attention(view, self.name), view.k.shape[0], "mean")
        pos, held = view.pos, torch.ones_like(score)
        if view.padding is not None:
            pos = pos.masked_fill(view.padding, view.next_pos)  # a place of its own, that counts for nothing
            held = held.masked_fill(view.padding, 0)
        places = (pos.shape[0], view.next_pos + 1)
        by_position = score.new_zeros(places).scatter_(1, pos, score).sum(0)
        num_heads = score.new_zeros(places).scatter_(1, pos, held).sum(0)
        return (by_position / num_heads.clamp(min=1))[pos] * held

    def describe(self) -> Mapping[str, str | int | float | None]:
        """No settings."""
        return {}
