"""H2O: the attention that a row has got so far."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from fewer.evict.score.attention import Group, aggregate_group, check_group, sum_attention
from fewer.types import CacheView, Needs
from fewer.types.number import check_number

__all__ = ["H2O"]


@dataclass(frozen=True, slots=True)
class H2O:
    """Accumulated attention (Zhang et al. 2023, arXiv 2306.14048): heavy hitters stay.

    The sum over all queries since the beginning, estimated from at most `queries` of them, evenly spread over the
    tokens since the last compression: each stands for as many as lie between two. What was summed before comes back
    as `CacheView.gathered`. group: how the query heads of a key-value head are aggregated. Unit: attention weights.

    A sum, as published: early rows had more queries to gather from. Not covered: the paper's even split of the budget
    between heavy hitters and recent rows, which is the policy's number of protected recent rows.
    """

    queries: int = 512
    group: Group = "mean"

    def __post_init__(self) -> None:
        check_number("queries", self.queries, int, 1, None, "Look with at least one query.")
        check_group(self.group)

    @property
    def name(self) -> str:
        """Its name on the command line and on receipts."""
        return "h2o"

    @property
    def needs(self) -> Needs:
        """Queries spread evenly over everything since the last compression."""
        return Needs("strided", self.queries)

    @property
    def gathers(self) -> bool:
        """Its sums go on from one compression to the next."""
        return True

    def __call__(self, view: CacheView) -> Tensor:
        """[kv_heads, n] float32. Raises BadInput where no query was observed."""
        score = aggregate_group(sum_attention(view, self.name), view.k.shape[0], self.group)
        if view.q_pos.numel() > 1:
            score *= (view.q_pos[-1] - view.q_pos[0]) / (view.q_pos.numel() - 1)
        return score if view.gathered is None else score + view.gathered

    def describe(self) -> Mapping[str, str | int | float | None]:
        """The settings, for the receipt."""
        return {"queries": self.queries, "group": self.group}
