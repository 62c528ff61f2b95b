"""Attention rows, for planners and meters: some queries at a time. Never a rows x keys map of the prompt."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from fewer.errors import bad
from fewer.kv import LayerKV
from fewer.model.visible import bias_by_position
from fewer.types import Look, Looked, Meter

if TYPE_CHECKING:
    from fewer.model.segment import Segment

__all__ = ["look_at", "show_rows"]

_BLOCK = 128  # rows at a time where a look reduces them, or a meter does


def look_at(
    look: Look,
    q: Tensor,
    layer: LayerKV,
    segment: Segment,
    scaling: float,
    window: int | None,
    known: Tensor | None = None,
) -> Looked:
    """What `look` asks for, where the layer holds the segment's rows. q: [heads, rows, d], of the segment's rows.

    known: [heads, 1, n], the newest row's weights over all rows of the layer, if the attention had them anyway.
    """
    later = segment.planner is None and segment.state.aux is not None
    wide = torch.promote_types(q.dtype, torch.float32)
    rows = _rows_of(look, segment) if look.rows is not None and not later else slice(-1, None)
    if look.reduce is not None:
        return Looked(segment.pos, _reduce(look, q, layer, segment, rows, scaling, window))
    if known is not None and isinstance(rows, slice):
        seen = known if look.heads is None else known[list(look.heads)]
    else:
        newest = isinstance(rows, slice)
        seen = _attention_rows(q[:, rows], layer, segment, segment.pos[rows], look.heads, scaling, window, newest)
    if not later:
        return Looked(segment.pos, seen.to(wide))
    aux = segment.state.aux
    assert aux is not None
    if segment.visible is None:  # all rows are there, in order
        size = len(aux.prompt)
        return Looked(torch.arange(size, device=segment.pos.device), seen[..., :size].to(wide))
    pos = segment.active[-1][1]
    columns = seen.flatten(0, 1).index_select(1, segment.visible.find(pos))  # far faster than seen[..., index] on a CPU
    return Looked(pos, columns.view(*seen.shape[:2], -1).to(wide))


def show_rows(
    meter: Meter, index: int, q: Tensor, layer: LayerKV, segment: Segment, scaling: float, window: int | None
) -> None:
    """Show a meter every row of the pass. q: [heads, rows, d], of the segment's rows, which are the newest.

    The weights are looked at apart from the layer's own attention, so that whether somebody measures changes no bit.
    """
    rows = q.shape[1]
    for first in range(0, rows, _BLOCK):
        pos = segment.pos[first : first + _BLOCK]
        some = q[:, first : first + _BLOCK]
        meter.see(index, first, _attention_rows(some, layer, segment, pos, None, scaling, window, rows == 1))


def _reduce(
    look: Look, q: Tensor, layer: LayerKV, segment: Segment, rows: Tensor | slice, scaling: float, window: int | None
) -> Tensor:
    """What the look keeps of its rows, some of them at a time: [heads, m, c]."""
    assert look.reduce is not None
    index = torch.arange(segment.pos.numel(), device=q.device)[rows]
    parts = []
    for some in torch.split(index, _BLOCK):
        pos = segment.pos[some]
        seen = _attention_rows(q[:, some], layer, segment, pos, look.heads, scaling, window)
        parts.append(look.reduce(seen, pos))
    return torch.cat(parts, dim=1)


def _rows_of(look: Look, segment: Segment) -> Tensor:
    wanted = torch.tensor(look.rows, dtype=torch.int64, device=segment.pos.device)
    index = torch.searchsorted(segment.pos, wanted).clamp_(max=segment.pos.numel() - 1)
    if not bool((segment.pos[index] == wanted).all()):
        raise bad("the rows of a look", list(look.rows or ()), "positions that are active there", "Look at others.")
    return index


def _attention_rows(
    q: Tensor,
    layer: LayerKV,
    segment: Segment,
    pos: Tensor,
    heads: tuple[int, ...] | None,
    scaling: float,
    window: int | None,
    newest: bool = False,
) -> Tensor:
    """Softmax over all stored rows: [chosen heads, m, n] in at least float32. q: [heads, m, d] at positions `pos`.

    newest: it is one row, and no stored key lies behind it. Products are in the model's type, as in its own attention;
    the softmax is wider.
    """
    wide = torch.promote_types(q.dtype, torch.float32)
    num_heads, rows, dim = q.shape
    kv_heads = layer.k.shape[0]
    group = num_heads // kv_heads
    of_head = torch.arange(num_heads, device=q.device) // group
    if heads is None:
        grouped = (q * scaling).reshape(kv_heads, group * rows, dim)
        logits = torch.bmm(layer.k, grouped.transpose(1, 2)).transpose(1, 2).reshape(num_heads, rows, -1)
    else:
        index = torch.tensor(heads, device=q.device)
        of_head = of_head[index]
        logits = torch.bmm(layer.k[of_head], (q[index] * scaling).transpose(1, 2)).transpose(1, 2)
    logits = logits.to(wide)
    log_w = layer.log_w
    if newest and window is None:
        bias = None if log_w is None else log_w[:, None].to(wide)
    else:
        bias = bias_by_position(layer, pos, window, wide)
    if bias is not None:
        logits = logits + (bias if bias.shape[0] == 1 else bias[of_head])
    if segment.visible is not None and not segment.visible.everything:
        logits = logits + segment.visible.bias(window, wide, segment.pos.numel() - rows)
    return torch.softmax(logits, -1)
