"""Value spread: rows whose values are far from the mean are wanted more."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fewer.types import CacheView, Needs, RowScore

__all__ = ["SPREAD", "ValueSpread"]

SPREAD = "+spread"  # behind the name of the score that it goes with


@dataclass(frozen=True, slots=True)
class ValueSpread:
    """Another score times ||v - mean v||, the mean weighted by that score: Neyman's allocation (Neyman 1934).

    With score = attention weight a_i, an inclusion probability in proportion to a_i ||v_i - y|| makes the variance of
    the linearised Hájek error, sum (1/pi_i - 1) a_i^2 ||v_i - y||^2, smallest for a given expected size (before
    clipping at 1). Here y is estimated by the mean over the observed queries, so it is optimal for none of the queries
    to come, and for scores that are not attention (keynorm, streaming, uniform) it is a rule of thumb. Pooled scores
    are not the attention either.

    A row at the mean value has score 0, whatever its attention: evicting it costs nothing only while the mean stays
    where it is. A design's floor gives it a chance. Where the inner score gathers, what is gathered are the products,
    each with the mean of its time. Raises nothing of its own.
    """

    inner: RowScore

    @property
    def name(self) -> str:
        """Its name on the command line and on receipts: the inner one's with "+spread" behind it."""
        return self.inner.name + SPREAD

    @property
    def needs(self) -> Needs:
        """What the inner score needs."""
        return self.inner.needs

    @property
    def gathers(self) -> bool:
        """Where the inner score does."""
        return self.inner.gathers

    def __call__(self, view: CacheView) -> Tensor:
        """[kv_heads, n] float32."""
        return self.pooled(self.unpooled(view), view)

    def unpooled(self, view: CacheView) -> Tensor:
        """The inner score of this view alone, before it pools, or as it is: [kv_heads, n]."""
        unpooled: Callable[[CacheView], Tensor] = getattr(self.inner, "unpooled", self.inner)
        return unpooled(replace(view, gathered=None))

    def pooled(self, unpooled: Tensor, view: CacheView) -> Tensor:
        """The score, from what `unpooled` returned for the view."""
        pool: Callable[[Tensor, CacheView], Tensor] | None = getattr(self.inner, "pooled", None)
        score: Tensor = unpooled if pool is None else pool(unpooled, view)
        values = view.v.to(torch.float32)
        mean = (
            torch.bmm(score[:, None], values) / score.sum(1).clamp(min=torch.finfo(torch.float32).tiny)[:, None, None]
        )
        score = score * torch.linalg.vector_norm(values - mean, dim=-1)
        if view.gathered is not None:
            score = score + view.gathered
        return score.clamp(max=torch.finfo(torch.float32).max)  # infinity would be "certain"

    def describe(self) -> Mapping[str, str | int | float | None]:
        """The inner score's settings, for the receipt."""
        return self.inner.describe()
