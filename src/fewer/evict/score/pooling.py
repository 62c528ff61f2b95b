"""Pooling a score over neighbours, so that what stands beside a wanted row is wanted too.

Neighbours are rows of the same head whose positions are at most half a window away. Where an earlier compression took
rows out, what is left closes up in storage but not in the text: two rows that lie side by side are no neighbours if
their positions are further apart. On a cache that nothing was taken from this is pooling over rows.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from fewer.errors import bad
from fewer.types import CacheView
from fewer.types.number import check_number

__all__ = ["Pool", "check_pool", "check_pooling", "pool_neighbours"]

Pool = Literal["max", "mean"]


def pool_neighbours(score: Tensor, view: CacheView, reach: tuple[int, int], pool: Pool) -> Tensor:
    """Each row's largest or mean score over itself and its neighbours: [kv_heads, n] to [kv_heads, n].

    reach: how many positions before it and behind it a row gives its score to; (0, 0) changes nothing. Only rows
    before the first observed query are pooled, among themselves, as in SnapKV (Li et al. 2024, section 4): the
    observers give each other and themselves much attention, which says nothing about what stands before them. They
    keep their own score. "mean" is over the rows that are there: fewer at the ends and beside gaps. Padding gets 0
    and gives nothing.
    """
    joins = view.pos < view.q_pos[0]
    padding = view.padding
    if padding is not None:
        joins = joins & ~padding
    rows = score.shape[1]
    pooled, count = score.clone(), torch.ones_like(score)
    before, behind = reach
    for step in range(1, min(max(reach), rows - 1) + 1):
        apart = view.pos[:, step:] - view.pos[:, :-step]
        both = joins[:, step:] & joins[:, :-step]
        for into, given, limit in (
            (slice(None, -step), score[:, step:], before),
            (slice(step, None), score[:, :-step], behind),
        ):
            if step > limit:
                continue
            near = both & (apart <= limit)
            if pool == "max":
                torch.maximum(pooled[:, into], given * near, out=pooled[:, into])
            else:
                pooled[:, into] += given * near
                count[:, into] += near
    return pooled / count if pool == "mean" else pooled


def check_pooling(pooling: object, pool: str) -> None:
    """Raise BadInput unless `pooling` is an odd width and `pool` is "max" or "mean"."""
    check_number("pooling", pooling, int, 1, None, "Use 1 to switch it off.")
    assert isinstance(pooling, int)
    if pooling % 2 == 0:
        raise bad("pooling", pooling, "odd, so that it reaches as far to both sides", f"Use {pooling + 1}.")
    check_pool(pool)


def check_pool(pool: str) -> None:
    """Raise BadInput for another way than "max" and "mean"."""
    if pool not in ("max", "mean"):
        raise bad("pool", pool, "'max' or 'mean'", "Use max, so that one strong row carries its neighbours.")
