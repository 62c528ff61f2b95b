"""Decoder blocks of the Llama kind with joined projections: the same numbers in fewer and larger products.

`FusedBlock` takes over a transformers decoder layer: query, key and value projections become one product, gate and up
another, the rotation is applied to queries and keys together, and keys and values reach the cache in one copy. The
layer's own parameters become views of the joined ones, or are gone where a product keeps its weight in another form:
packed for bfloat16 on a CPU (a plain weight would be packed anew at every call), or with `int8` as 8-bit integers with
one scale per output row (weight-only, rounded to nearest).

Covers the families in `FUSED`; the others run through their transformers layers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fewer.model.attention import attend_rows
from fewer.model.mapped import forget_pages

if TYPE_CHECKING:
    from fewer.model.segment import Segment

__all__ = ["FUSED", "FusedBlock", "Product", "signed_angles"]

FUSED = frozenset({"llama", "mistral", "qwen2", "qwen3"})

_INT8_ROWS = 8  # up to here the 8-bit product beats widening the weights first
_ROWS = 1024  # rows that are normed and projected at a time: bounds the memory, and stays in the cache
_PACKED_FOR = 1024  # rows that the packed layout is chosen for; few rows do well with it too


class Product:
    """`x @ weight.T + bias`, with the weight as it is, packed, or as 8-bit integers with a scale per output row.

    x: [..., in]; returns [..., out] in the type of x. `own_bytes`: what it holds besides the weight it was given.
    """

    __slots__ = ("bias", "own_bytes", "packed", "scale", "weight")

    def __init__(self, weight: Tensor, bias: Tensor | None = None, int8: bool = False) -> None:
        self.weight, self.bias = weight, bias
        self.scale: Tensor | None = None
        self.packed = not int8 and _can_pack(weight)
        self.own_bytes = 0
        if self.packed:
            self.weight = torch.ops.mkldnn._reorder_linear_weight(weight, _PACKED_FOR)
            self.own_bytes = weight.nbytes
        if int8:
            parts = [_round_to_int8(part) for part in torch.split(weight, _ROWS)]
            self.weight, self.scale = torch.cat([part for part, _ in parts]), torch.cat([part for _, part in parts])
            self.own_bytes = self.weight.nbytes + self.scale.nbytes

    def __call__(self, x: Tensor) -> Tensor:
        """The product."""
        if self.packed:
            out: Tensor = torch.ops.mkldnn._linear_pointwise(x, self.weight, self.bias, "none", [], "")
            return out
        if self.scale is None:
            return F.linear(x, self.weight, self.bias)
        rows = x.reshape(-1, x.shape[-1])
        if rows.shape[0] <= _INT8_ROWS and rows.device.type == "cpu":
            out = torch._weight_int8pack_mm(rows, self.weight, self.scale)
        else:
            out = F.linear(rows, self.weight.to(x.dtype)) * self.scale
        if self.bias is not None:
            out = out + self.bias
        return out.view(*x.shape[:-1], -1)


class FusedBlock:
    """One decoder layer. Called with hidden states [1, rows, width], rotary angles and the pass's segments."""

    def __init__(self, layer: Any, index: int, window: int | None, int8: bool = False) -> None:
        attn, mlp = layer.self_attn, layer.mlp
        self.index, self.window, self.scaling = index, window, float(attn.scaling)
        self.dim = int(attn.head_dim)
        self.heads = int(attn.q_proj.out_features) // self.dim
        self.kv_heads = int(attn.k_proj.out_features) // self.dim
        self.norms = (layer.input_layernorm.weight, layer.post_attention_layernorm.weight)
        self.eps = float(layer.input_layernorm.variance_epsilon)
        self.width = tuple(self.norms[0].shape)
        self.head_norms = (attn.q_norm.weight, attn.k_norm.weight) if hasattr(attn, "q_norm") else None
        self.qkv = _join([attn.q_proj, attn.k_proj, attn.v_proj], int8)
        self.out = _join([attn.o_proj], int8)
        self.gate_up = _join([mlp.gate_proj, mlp.up_proj], int8)
        self.down = _join([mlp.down_proj], int8)

    @property
    def products(self) -> tuple[Product, ...]:
        """All matrix products of the block."""
        return self.qkv, self.out, self.gate_up, self.down

    def __call__(self, hidden: Tensor, angles: dict[str, tuple[Tensor, Tensor]], segments: list[Segment]) -> Tensor:
        """The layer's output, written over `hidden`; keys and values are stored on the way."""
        rows = hidden[0]
        qkv = self._project_parts(rows, *angles[""])
        queries = qkv[:, : self.heads].transpose(0, 1)
        kv = qkv[:, self.heads :].view(-1, 2, self.kv_heads, self.dim).permute(1, 2, 0, 3)
        mixed = attend_rows(self.index, queries, kv, segments, self.scaling, self.window)
        rows += self.out(mixed.reshape(-1, self.heads * self.dim))
        for part in torch.split(rows, _ROWS):
            gate, up = self.gate_up(F.rms_norm(part, self.width, self.norms[1], self.eps)).chunk(2, dim=-1)
            part += self.down(F.silu(gate).mul_(up))
        return hidden

    def _project_parts(self, rows: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """`_project`, so many rows at a time that what lies between stays small."""
        if rows.shape[0] <= _ROWS:
            return self._project(rows, cos[0], sin[0])
        whole = rows.new_empty(rows.shape[0], self.heads + 2 * self.kv_heads, self.dim)
        for start in range(0, rows.shape[0], _ROWS):
            span = slice(start, start + _ROWS)
            whole[span] = self._project(rows[span], cos[0, span], sin[0, span])
        return whole

    def _project(self, rows: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Queries, keys and values, the first two rotated: [rows, heads + 2 kv_heads, d]."""
        qkv = self.qkv(F.rms_norm(rows, self.width, self.norms[0], self.eps)).view(rows.shape[0], -1, self.dim)
        turned = qkv[:, : self.heads + self.kv_heads]
        if self.head_norms is not None:
            for norm, part in zip(self.head_norms, torch.split(turned, [self.heads, self.kv_heads], 1), strict=True):
                part.copy_(F.rms_norm(part, (self.dim,), norm, self.eps))
        other = turned.roll(self.dim // 2, -1)
        turned.mul_(cos.unsqueeze(1)).addcmul_(other, sin.unsqueeze(1))
        return qkv


def signed_angles(cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    """Sines with the sign of the half-rotation folded in, so that rotating is `x * cos + roll(x, d/2) * sin`."""
    half = sin.shape[-1] // 2
    return cos, torch.cat([-sin[..., :half], sin[..., half:]], dim=-1)


def _join(linears: list[nn.Linear], int8: bool) -> Product:
    """One product for several linear layers; their parameters become views of the joined ones."""
    weights = [linear.weight.detach() for linear in linears]
    converted = int8 or _can_pack(weights[0])
    weight = weights[0] if converted and len(weights) == 1 else torch.cat(weights)
    bias = torch.cat([linear.bias.detach() for linear in linears]) if linears[0].bias is not None else None
    product, start = Product(weight, bias, int8), 0
    forget_pages(weights)
    for linear in linears:
        stop = start + int(linear.out_features)
        linear.weight = nn.Parameter(weight.new_empty(0) if converted else weight[start:stop], requires_grad=False)
        if bias is not None:
            linear.bias = nn.Parameter(bias[start:stop], requires_grad=False)
        start = stop
    return product


def _round_to_int8(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Rows as integers in -127..127 and what they are multiplied by, in the weight's own type."""
    wide = weight.float()
    scale = (wide.abs().amax(dim=1) / 127.0).clamp_min(1e-12).to(weight.dtype)
    return (wide / scale.float()[:, None]).round_().clamp_(-127, 127).to(torch.int8), scale


def _can_pack(weight: Tensor) -> bool:
    """Whether oneDNN can keep this weight in the order in which it multiplies."""
    wanted = weight.device.type == "cpu" and weight.dtype == torch.bfloat16
    return (
        wanted and hasattr(torch.ops.mkldnn, "_linear_pointwise") and bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    )
