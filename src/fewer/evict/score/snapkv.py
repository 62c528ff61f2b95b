"""SnapKV: what the newest tokens look at, and its neighbourhood."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from fewer.evict.score.attention import Group, aggregate_group, check_group, mean_attention
from fewer.evict.score.pooling import Pool, check_pooling, pool_neighbours
from fewer.types import CacheView, Needs
from fewer.types.number import check_number

__all__ = ["SnapKV"]


@dataclass(frozen=True, slots=True)
class SnapKV:
    """Attention of an observation window, pooled (Li et al. 2024, arXiv 2404.14469, section 4).

    The mean over the newest `window` queries, aggregated over the query heads of a key-value head (`group`), then
    pooled over `pooling` neighbouring positions (`pool`; see `pool_neighbours` for caches with gaps). The authors'
    code has windows of 32 and 64 and kernels of 5 and 7, and averages unless told otherwise. Unit: share of the
    attention (before pooling each head sums to 1).

    The rows of the window itself are not pooled and may lose; protect them with the policy's recent rows, as the paper
    does.
    """

    window: int = 32
    pooling: int = 5
    pool: Pool = "max"
    group: Group = "mean"

    def __post_init__(self) -> None:
        check_number("window", self.window, int, 1, None, "Look with at least the newest query.")
        check_pooling(self.pooling, self.pool)
        check_group(self.group)

    @property
    def name(self) -> str:
        """Its name on the command line and on receipts."""
        return "snapkv"

    @property
    def needs(self) -> Needs:
        """The newest `window` queries."""
        return Needs("window", self.window)

    @property
    def gathers(self) -> bool:
        """Each compression looks anew."""
        return False

    def __call__(self, view: CacheView) -> Tensor:
        """[kv_heads, n] float32. Raises BadInput where no query was observed."""
        return self.pooled(self.unpooled(view), view)

    def unpooled(self, view: CacheView) -> Tensor:
        """The same before pooling."""
        return aggregate_group(mean_attention(view, self.name), view.k.shape[0], self.group)

    def pooled(self, unpooled: Tensor, view: CacheView) -> Tensor:
        """The score, from what `unpooled` returned for the view."""
        return pool_neighbours(unpooled, view, (self.pooling // 2, self.pooling // 2), self.pool)

    def describe(self) -> Mapping[str, str | int | float | None]:
        """The settings, for the receipt."""
        return {"window": self.window, "pooling": self.pooling, "pool": self.pool, "group": self.group}
