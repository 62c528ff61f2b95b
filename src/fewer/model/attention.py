"""Attention of packed rows over what each sequence has stored.

`attend_rows` walks the segments of a pass: it stores the segment's new keys and values and lets its queries look at
everything the sequence holds. A key is visible if and only if its position is at most the query's position (and, in
a sliding-window layer, less than the window away); its log-weight is added to the logit.

`attend` is the same thing in the shape that transformers calls, registered under the name "fewer".

Which kernel runs: one query row is two small products; many rows in bf16 on a CPU are blocked products, since PyTorch's
fused CPU attention does bf16 at fp32 speed; many rows otherwise use `scaled_dot_product_attention`. Not covered:
attention sinks as parameters, soft-capping, bidirectional spans; models that need them are refused when loaded.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import AttentionInterface

from fewer.kv import LayerKV
from fewer.model.looking import look_at, show_rows
from fewer.model.visible import Visible, bias_by_position

if TYPE_CHECKING:
    from fewer.model.segment import Segment

__all__ = ["NAME", "attend", "attend_rows"]

NAME = "fewer"
_LONG = 768  # keys from which two bfloat16 products beat the fused kernel for one row on a CPU
_SHORT = 16  # keys below which the fused kernel on a CPU gives zeros where it should give NaN
_BLOCK = 128  # query rows per block: scores of a block stay in the cache
_FEW = 16  # query rows for which it is dearer to copy the keys than to turn the scores


def attend_rows(
    index: int, q: Tensor, kv: Tensor, segments: list[Segment], scaling: float, window: int | None
) -> Tensor:
    """Store the new keys and values of layer `index`, and attend.

    q: [heads, rows, d]; kv: [2, kv_heads, rows, d]; both over the packed rows of all segments. `window`: a sliding
    window in positions, or None. Returns [rows, heads, d].
    """
    outs = []
    for segment in segments:
        layer = segment.state.layers[index]
        rows = segment.rows
        alone = len(segments) == 1
        queries = q if alone else q[:, rows]
        if segment.stores:
            layer.append(kv if alone else kv[:, :, rows], segment.pos, segment.first)
        for log in segment.logs:
            start = segment.state.num_seen
            log.record(index, queries, segment.pos, start, start + segment.ids.numel(), scaling, window)
        visible, looks = segment.visible, segment.looks.get(index + 1, ())
        witness = segment.witness if layer.sampled else None
        weights: list[Tensor] | None = [] if looks or witness is not None else None
        if visible is None or visible.everything:
            outs.append(_attend(queries, layer, segment.pos, scaling, window, weights))
        else:
            outs.append(_attend_visible(queries, layer, visible, scaling, window, weights))
        if witness is not None:  # now, while the values are in the processor's cache
            assert weights
            witness.see(index, weights[0] if len(weights) == 1 else torch.cat(weights, 1), outs[-1], layer.v)
        for look in looks:
            known = weights[0] if weights and weights[0].shape[1] == 1 else None
            segment.looked[look] = look_at(look, queries, layer, segment, scaling, window, known)
        if segment.meter is not None:
            show_rows(segment.meter, index, queries, layer, segment, scaling, window)
    return outs[0] if len(outs) == 1 else torch.cat(outs)


def attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float,
    dropout: float = 0.0,
    sliding_window: int | None = None,
    fewer: list[Segment] | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """`attend_rows` as transformers calls it: [1, heads, rows, d] in, [1, rows, heads, d] out."""
    if fewer is None:
        raise RuntimeError("This model is driven by fewer.model.forward; call that instead of the model itself.")
    kv = torch.stack((key[0], value[0]))
    return attend_rows(module.layer_idx, query[0], kv, fewer, scaling, sliding_window)[None], None  # type: ignore[arg-type]


def _attend(
    q: Tensor,
    layer: LayerKV,
    pos: Tensor,
    scaling: float,
    window: int | None,
    weights: list[Tensor] | None = None,
) -> Tensor:
    """q: [heads, r, d] at positions `pos`, the newest r rows of `layer`. Returns [r, heads, d].

    weights: where the softmax of all rows of the layer at hand can be had for nothing, and wherever keys have
    log-weights, it is put there: [heads, m, n] for some rows at a time.
    """
    rows = q.shape[1]
    if (layer.weighted and (rows > 1 or window is not None)) or (window is not None and not layer.contiguous):
        return _by_position(q, layer, pos, scaling, window, weights)
    if window is not None and window >= layer.num_rows:
        window = None
    if rows == 1:
        k, v = layer.k, layer.v
        if window is not None:
            k, v, weights = k[:, -window:], v[:, -window:], None
        return _one_row(q, k, v, scaling, layer.log_w_column(q.dtype, _group(q, layer)), weights)
    blocked = q.dtype == torch.bfloat16 or window is not None or rows != layer.num_rows or layer.num_rows < _SHORT
    if q.device.type == "cpu" and blocked:
        return _blocked(q, layer.k, layer.v, scaling, window)
    return _fused(q, layer.k, layer.v, scaling, window)


def _attend_visible(
    q: Tensor, layer: LayerKV, visible: Visible, scaling: float, window: int | None, weights: list[Tensor] | None
) -> Tensor:
    """q: [heads, r, d] over what they see of `layer`. Returns [r, heads, d]. weights: as in `_attend`."""
    if q.shape[1] == 1 and not layer.weighted:
        return _one_row(q, layer.k, layer.v, scaling, visible.column(window, q.dtype, _group(q, layer)), weights)
    log_w = None if layer.log_w is None else layer.log_w[:, None].to(q.dtype)

    def added(start: int, stop: int) -> Tensor:
        part = visible.bias(window, q.dtype, start, stop)[None]
        return part if log_w is None else part + log_w

    return _with_bias(q, layer, added, scaling, weights)


def _group(q: Tensor, layer: LayerKV) -> int:
    return q.shape[0] // layer.k.shape[0]


def _one_row(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    scaling: float,
    bias: Tensor | None = None,
    weights: list[Tensor] | None = None,
) -> Tensor:
    """One query over all keys: [heads, 1, d] to [1, heads, d]. The heads of a group are the rows of one product.

    bias: [kv_heads or none, s, heads of a group], added to the logits of the first s keys. weights: as in `_attend`.
    """
    heads, _, dim = q.shape
    grouped = q.view(k.shape[0], heads // k.shape[0], dim)
    size = k.shape[1]
    fused = q.device.type != "cpu" or (size >= _SHORT and (q.dtype != torch.bfloat16 or size < _LONG))
    if fused and weights is None:
        mask = None if bias is None else F.pad(bias, (0, 0, 0, size - bias.shape[-2])).transpose(-1, -2)
        out = F.scaled_dot_product_attention(grouped[None], k[None], v[None], attn_mask=mask, scale=scaling)
        return out.view(1, heads, dim)
    logits = torch.bmm(k, (grouped * scaling).transpose(1, 2))  # [kv_heads, n, group]
    if bias is not None:
        logits[:, : bias.shape[-2]] += bias
    shares = torch.softmax(logits.transpose(1, 2), -1)
    if weights is not None:
        weights.append(shares.reshape(heads, 1, size))
    return torch.bmm(shares, v).view(1, heads, dim)


def _blocked(q: Tensor, k: Tensor, v: Tensor, scaling: float, window: int | None) -> Tensor:
    """Causal attention of the newest rows, block by block of queries, never a full rows x keys map.

    The scores of a block live in two buffers that every block uses again, so that they stay in the processor's cache.
    """
    heads, rows, dim = q.shape
    kv_heads, num_keys, _ = k.shape
    past, group = num_keys - rows, heads // kv_heads
    grouped = q.view(kv_heads, group, rows, dim)
    out = q.new_empty(rows, heads, dim)
    most = num_keys if window is None else min(num_keys, window + _BLOCK)
    scores, weights = q.new_empty(2, group * min(rows, _BLOCK) * most)
    for head in range(kv_heads):
        keys, values = k[head].t(), v[head]
        mixed = out[:, head * group : (head + 1) * group]
        for start in range(0, rows, _BLOCK):
            stop = min(rows, start + _BLOCK)
            size, high = stop - start, past + stop
            low = 0 if window is None else max(0, past + start - window + 1)
            block = (grouped[head, :, start:stop] * scaling).reshape(group * size, dim)
            count = group * size * (high - low)
            logits = torch.mm(block, keys[:, low:high], out=scores[:count].view(group * size, high - low))
            _hide(logits.view(group, size, high - low), window)
            share = torch.softmax(logits, -1, out=weights[:count].view(group * size, high - low))
            mixed[start:stop] = torch.mm(share, values[low:high]).view(group, size, dim).transpose(0, 1)
    return out


def _hide(logits: Tensor, window: int | None) -> None:
    """Hide what the newest rows may not see: [group, rows, keys], in place; the last key is the last row's own."""
    size, num_keys = logits.shape[1:]
    logits[..., num_keys - size :] += _triangle(size, logits.dtype, logits.device)
    if window is not None and num_keys > window:
        rows = torch.arange(num_keys - size, num_keys, device=logits.device).unsqueeze(1)
        logits.masked_fill_(torch.arange(num_keys, device=logits.device) <= rows - window, float("-inf"))


def _fused(q: Tensor, k: Tensor, v: Tensor, scaling: float, window: int | None) -> Tensor:
    """The newest rows through PyTorch's fused attention."""
    rows, num_keys = q.shape[1], k.shape[1]
    causal = rows == num_keys and window is None
    mask = None
    if not causal:
        queries = torch.arange(num_keys - rows, num_keys, device=q.device).unsqueeze(1)
        keys = torch.arange(num_keys, device=q.device)
        mask = keys <= queries
        if window is not None:
            mask &= keys > queries - window
    out = F.scaled_dot_product_attention(
        q[None], k[None], v[None], attn_mask=mask, is_causal=causal, scale=scaling, enable_gqa=True
    )
    return out[0].transpose(0, 1)


def _by_position(
    q: Tensor, layer: LayerKV, pos: Tensor, scaling: float, window: int | None, weights: list[Tensor] | None = None
) -> Tensor:
    """The general case: visibility from the stored positions, and log-weights."""

    def bias(start: int, stop: int) -> Tensor:
        return bias_by_position(layer, pos[start:stop], window, q.dtype)

    return _with_bias(q, layer, bias, scaling, weights)


def _with_bias(
    q: Tensor, layer: LayerKV, bias: Callable[[int, int], Tensor], scaling: float, weights: list[Tensor] | None
) -> Tensor:
    """Some queries at a time; `bias(start, stop)` is added to their logits: [1 | kv_heads, stop - start, n].

    weights: as in `_attend`.
    """
    heads, rows, dim = q.shape
    kv_heads, group = layer.k.shape[0], heads // layer.k.shape[0]
    grouped = (q * scaling).view(kv_heads, group, rows, dim)
    out = q.new_empty(rows, heads, dim)
    for start in range(0, rows, _BLOCK):
        stop = min(rows, start + _BLOCK)
        block = grouped[:, :, start:stop].reshape(kv_heads, -1, dim)
        if stop - start <= _FEW:  # the other way round, keys that lie in a larger buffer would be copied first
            logits = torch.bmm(layer.k, block.transpose(1, 2)).transpose(1, 2).contiguous()
        else:
            logits = torch.bmm(block, layer.k.transpose(1, 2))
        logits = logits.view(kv_heads, group, stop - start, -1)
        logits += bias(start, stop)[:, None]
        shares = torch.softmax(logits, -1).view(kv_heads, -1, layer.num_rows)
        if weights is not None:
            weights.append(shares.view(heads, stop - start, -1))
        mixed = torch.bmm(shares, layer.v)
        out[start:stop] = mixed.view(heads, stop - start, dim).transpose(0, 1)
    return out


@lru_cache(maxsize=64)
def _triangle(size: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """0 on and below the diagonal, -inf above: [size, size]."""
    with torch.inference_mode(False):
        return torch.full((size, size), float("-inf"), dtype=dtype, device=device).triu_(1)


AttentionInterface.register(NAME, attend)
