"""Question-aware: what the question looks at, and a neighbourhood wide enough for a number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from fewer.evict.score.attention import Group, aggregate_group, check_group, mean_attention
from fewer.evict.score.pooling import Pool, check_pooling, pool_neighbours
from fewer.types import CacheView, Needs
from fewer.types.number import check_number

__all__ = ["QuestionAware"]


@dataclass(frozen=True, slots=True)
class QuestionAware:
    """Attention of the question's own rows, pooled: the "aware" condition of Xie (2026, section 5).

    The mean over the rows of the question and what follows it (the newest `count` where no question is known),
    aggregated over the query heads of a key-value head (`group`), then pooled over `pooling` neighbouring positions.
    The mean over rows and not the largest: it is the share of the question's attention, which is what a sampled design
    wants in proportion, it compares across heads, and a single row's own habits (delimiters, itself) do not fill the
    budget. The largest is taken where it is wanted, over neighbours: numbers are tokenised digit by digit and a row
    that finds the first digit has to carry the rest, so the window is three times SnapKV's. Unit: share of the
    attention.

    Knows the question before anything is evicted. Where that cannot be, its scores say nothing about later questions.
    """

    pooling: int = 15
    pool: Pool = "max"
    count: int = 64
    group: Group = "mean"

    def __post_init__(self) -> None:
        check_pooling(self.pooling, self.pool)
        check_number("count", self.count, int, 1, None, "Look with at least the newest query.")
        check_group(self.group)

    @property
    def name(self) -> str:
        """Its name on the command line and on receipts."""
        return "question"

    @property
    def needs(self) -> Needs:
        """The queries of the question, or the newest `count`."""
        return Needs("question", self.count)

    @property
    def gathers(self) -> bool:
        """Each compression looks anew."""
        return False

    def __call__(self, view: CacheView) -> Tensor:
        """[kv_heads, n] float32. Raises BadInput where no query was observed."""
        score = aggregate_group(mean_attention(view, self.name), view.k.shape[0], self.group)
        return pool_neighbours(score, view, self.pooling, self.pool)

    def describe(self) -> Mapping[str, str | int | float | None]:
        """The settings, for the receipt."""
        return {"pooling": self.pooling, "pool": self.pool, "count": self.count, "group": self.group}
