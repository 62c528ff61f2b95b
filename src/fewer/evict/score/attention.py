"""What the observed queries of a view give to the cached rows: the material of every score that looks at attention.

The weights are those of the layer itself, over the rows that are still there: `softmax(q . k * scaling + log_w)` over
the rows at or before the query (in a sliding-window layer also less than the window away). Rows after a query and
padding get exactly 0. Because log_w is added, a row that stands for 1/pi rows of an earlier draw counts 1/pi times.

Products are in the model's type, as in the layer's own attention, and the softmax in at least float32. At most
[heads, 32, n] weights exist at once. Not covered: attention sinks as parameters, soft-capping.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from fewer.errors import bad
from fewer.types import CacheView

__all__ = ["Group", "aggregate_group", "check_group", "mean_attention", "sum_attention"]

Group = Literal["mean", "max"]

_BLOCK = 32  # queries at a time: their weights stay in a processor's cache up to some 10,000 rows


def sum_attention(view: CacheView, name: str, weights: Tensor | None = None) -> Tensor:
    """The attention that each row gets, summed over the view's queries: [heads, n] float32.

    weights: [m] of at least 0, how much each query counts; None is 1 each. name: of the score that asks. A query that
    sees no row at all (all of them were evicted or come later) adds nothing. Raises BadInput where the view has no
    queries.
    """
    heads, num_queries, dim = view.q.shape
    kv_heads, num_rows, _ = view.k.shape
    if num_queries == 0:
        way_out = (
            f"Observe the queries that {name} needs (RowScore.needs), or score with keynorm, streaming or uniform."
        )
        raise bad(f"the number of observed queries for the score {name}", 0, "at least 1", way_out)
    group = heads // kv_heads
    wide = torch.promote_types(view.q.dtype, torch.float32)
    total = torch.zeros(heads, 1, num_rows, dtype=wide, device=view.q.device)
    for start in range(0, num_queries, _BLOCK):
        stop = min(start + _BLOCK, num_queries)
        reach = int((view.pos <= view.q_pos[stop - 1]).sum(1).max())  # rows behind these come after all the queries
        if reach == 0:
            continue
        q = (view.q[:, start:stop] * view.scaling).reshape(kv_heads, group * (stop - start), dim)
        logits = torch.bmm(q, view.k[:, :reach].transpose(1, 2)).view(kv_heads, group, stop - start, reach).to(wide)
        logits += _bias(view, view.q_pos[start:stop], reach, wide)[:, None]
        highest = logits.amax(-1, keepdim=True).clamp_(min=torch.finfo(wide).min)  # -inf where nothing is seen
        scores = logits.sub_(highest).exp_().view(heads, stop - start, reach)
        sums = scores.sum(-1)
        share = torch.where(sums > 0, 1 / sums, 0)  # [heads, b]
        if weights is not None:
            share *= weights[start:stop].to(wide)
        total[..., :reach] += torch.bmm(share[:, None], scores)
    return total[:, 0].to(torch.float32)


def mean_attention(view: CacheView, name: str) -> Tensor:
    """As `sum_attention`, the mean over the queries: each head's rows sum to 1 where every query sees a row."""
    return sum_attention(view, name) / view.q.shape[1]


def aggregate_group(score: Tensor, kv_heads: int, group: Group) -> Tensor:
    """One score for each stored row from those of the query heads that share it: [heads, n] to [kv_heads, n].

    "mean": the share of the attention of the heads together. "max": wanted by one head is wanted.
    """
    grouped = score.view(kv_heads, -1, score.shape[1])
    return grouped.mean(1) if group == "mean" else grouped.amax(1)


def check_group(group: str) -> None:
    """Raise BadInput for another aggregation than "mean" and "max"."""
    if group not in ("mean", "max"):
        raise bad("group", group, "'mean' or 'max'", "Use mean, the share of all heads of the group together.")


def _bias(view: CacheView, q_pos: Tensor, reach: int, dtype: torch.dtype) -> Tensor:
    """What is added to the logits of the first `reach` rows: log_w, and -inf where a query does not see a row.

    [kv_heads, b, reach].
    """
    pos, queries = view.pos[:, None, :reach], q_pos[:, None]
    hidden = pos > queries
    if view.window is not None:
        hidden |= queries - pos >= view.window
    bias = torch.zeros(hidden.shape, dtype=dtype, device=hidden.device)
    if view.log_w is not None:
        bias += view.log_w[:, None, :reach].to(dtype)
    return bias.masked_fill_(hidden, float("-inf"))
