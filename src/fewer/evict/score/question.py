"""Question-aware: what the question looks at, and a neighbourhood wide enough for a number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from fewer.evict.score.attention import Group, aggregate_group, check_group, mean_attention
from fewer.evict.score.pooling import Pool, check_pool, pool_neighbours
from fewer.types import CacheView, Needs
from fewer.types.number import check_number

__all__ = ["QuestionAware"]


@dataclass(frozen=True, slots=True)
class QuestionAware:
    """Attention of the question's last rows, pooled: the "aware" condition of Xie (2026, section 5).

    The mean over the newest `count` rows, the end of the question and what follows it, aggregated over the query heads
    of a key-value head (`group`), then the largest within reach: a row gives its score to `before` positions before it
    and `behind` positions behind it. The last rows, because it is there that the model looks for the answer: with all
    rows of the question needles were lost that the last eight find. The mean over them and not the largest: it is the
    share of their attention, and it compares across heads. Further behind than before, because what a row points at
    (a name, a key) comes before what is wanted (a number, digit by digit). Unit: share of the attention.

    Knows the question before anything is evicted. Where that cannot be, its scores say nothing about later questions.
    """

    count: int = 8
    before: int = 6
    behind: int = 16
    pool: Pool = "max"
    group: Group = "mean"

    def __post_init__(self) -> None:
        check_number("count", self.count, int, 1, None, "Look with at least the newest query.")
        check_number("before", self.before, int, 0, None, "0 does not reach back.")
        check_number("behind", self.behind, int, 0, None, "0 does not reach on.")
        check_pool(self.pool)
        check_group(self.group)

    @property
    def name(self) -> str:
        """Its name on the command line and on receipts."""
        return "question"

    @property
    def needs(self) -> Needs:
        """The newest `count` queries."""
        return Needs("window", self.count)

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
        return pool_neighbours(unpooled, view, (self.before, self.behind), self.pool)

    def describe(self) -> Mapping[str, str | int | float | None]:
        """The settings, for the receipt."""
        return {
            "count": self.count,
            "before": self.before,
            "behind": self.behind,
            "pool": self.pool,
            "group": self.group,
        }
