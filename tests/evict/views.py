"""Views of a layer to be scored, and what a score should say of them: slow, in float64, row by row."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from fewer.types import CacheView

INF = float("inf")


def make_view(
    rows: int = 20,
    queries: int = 6,
    kv_heads: int = 2,
    group: int = 3,
    dim: int = 8,
    seed: int = 0,
    dtype: torch.dtype = torch.float32,
    window: int | None = None,
) -> CacheView:
    """A layer that nothing was taken from, seen by its newest queries."""
    generator = torch.Generator().manual_seed(seed)
    k, v = torch.randn(2, kv_heads, rows, dim, generator=generator).to(dtype)
    return CacheView(
        layer=1,
        num_layers=4,
        k=k,
        v=v,
        pos=torch.arange(rows).expand(kv_heads, -1),
        q=3 * torch.randn(kv_heads * group, queries, dim, generator=generator).to(dtype),
        q_pos=torch.arange(rows - queries, rows),
        scaling=dim**-0.5,
        next_pos=rows,
        window=window,
        repeated=torch.rand(kv_heads * group, rows, generator=generator) + 0.01,
    )


def evict_some(view: CacheView, kept: list[list[int]], log_w: Tensor | None = None) -> CacheView:
    """The view with these rows of each head left: padding behind, that repeats the first. log_w: [kv_heads, n]."""
    size = max(map(len, kept))
    index = torch.tensor([rows + rows[:1] * (size - len(rows)) for rows in kept])
    weights = torch.zeros(index.shape) if log_w is None else log_w.gather(1, index)
    for head, rows in enumerate(kept):
        weights[head, len(rows) :] = -INF
    wide = index[..., None].expand(-1, -1, view.k.shape[2])
    repeated = None
    if view.repeated is not None:  # padding is never looked at
        of = view.repeated.shape[0] // len(kept)
        repeated = view.repeated.gather(1, index.repeat_interleave(of, 0))
        repeated = repeated.masked_fill(torch.isneginf(weights).repeat_interleave(of, 0), 0.0)
    k, v, pos = view.k.gather(1, wide), view.v.gather(1, wide), view.pos.gather(1, index)
    return replace(view, k=k, v=v, pos=pos, log_w=weights, repeated=repeated)


def attend_slowly(view: CacheView) -> Tensor:
    """What each query gives to each row: [heads, m, n] float64."""
    heads, num_queries, _ = view.q.shape
    kv_heads, rows, _ = view.k.shape
    weights = torch.zeros(heads, num_queries, rows, dtype=torch.float64)
    for head in range(heads):
        of = head // (heads // kv_heads)
        for query in range(num_queries):
            at, logits = int(view.q_pos[query]), {}
            for row in range(rows):
                pos = int(view.pos[of, row])
                added = 0.0 if view.log_w is None else float(view.log_w[of, row])
                if added == -INF or pos > at or (view.window is not None and at - pos >= view.window):
                    continue
                logits[row] = float(view.q[head, query].double() @ view.k[of, row].double()) * view.scaling + added
            if logits:
                given = torch.softmax(torch.tensor(list(logits.values()), dtype=torch.float64), 0)
                weights[head, query, list(logits)] = given
    return weights
