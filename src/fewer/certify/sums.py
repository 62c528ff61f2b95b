"""Vhat and the range term of many layers and heads at once, from the weights and outputs that attention left behind.

Both are of c ||v - y||^2, c = (1 - pi) w^2, over (1 - w)^2 in the audited form, and only rows with pi < 1 count (see
`fewer.certify.tail`). With m = y - centre, ||v - y||^2 = ||v - centre||^2 - 2 (v - centre).m + ||m||^2: besides numbers
that do not change between steps it needs one product of m with the sampled rows. All else is in float32.

Where that is not precise enough a query row is computed again from differences: where rounding that product to the
model's type could move Vhat by more than a fiftieth, which takes rows with much weight near y; and where w is rounded
to the model's type and 1 - w is small (0, at worst). The weights are then first made to sum to 1: those of the *other*
rows are not near 1, and what they sum to is known as well as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fewer.certify.tail import BLOCK, Tail
from fewer.certify.variance import LEAST_REST

__all__ = ["Passing", "Scratch", "sum_terms"]

_OFF = 0.02  # the share of Vhat that rounding may move
_EPS = torch.finfo(torch.float32).eps
_REST = 0.08  # where a sampled row leaves less to the others, rounding w to bfloat16 may move Vhat by a twentieth
_HEAVY = 0.25  # of the sum of c: below it no sampled row to speak of has much weight


@dataclass(frozen=True, slots=True)
class Passing:
    """What a pass leaves behind, of S layers, R query rows to a key-value head and n rows of a layer."""

    weights: Sequence[Tensor]  # of each layer, [kv_heads, R, n]
    sampled: Sequence[Tensor]  # of each layer, [R, kv_heads * t], those of the tail's rows
    values: Sequence[Tensor]  # of each layer, [kv_heads, n, d]
    out: Tensor  # [S, kv_heads, R, d] float32


class Scratch:
    """Two buffers that steps use again: fresh ones of this size would have their pages mapped anew every time."""

    __slots__ = ("_buffers",)

    def __init__(self) -> None:
        self._buffers: Tensor | None = None

    def take(self, like: Tensor) -> tuple[Tensor, Tensor]:
        """Two of this shape, in float32."""
        if self._buffers is None or self._buffers.shape[1:] != like.shape:
            self._buffers = like.new_empty(2, *like.shape, dtype=torch.float32)
        first, second = self._buffers.unbind()
        return first, second

    @property
    def nbytes(self) -> int:
        """Bytes of both."""
        return 0 if self._buffers is None else self._buffers.nbytes


def sum_terms(tail: Tail, passing: Passing, leave_one_out: bool, scratch: Scratch) -> tuple[Tensor, Tensor]:
    """(Vhat, squared range term), both [S, kv_heads, R] float32. leave_one_out: which form."""
    num_layers, kv_heads, rows, dim = passing.out.shape
    shape = torch.Size((num_layers * kv_heads, rows))
    sampled = torch.cat(list(passing.sampled), 1)
    terms, room = scratch.take(sampled)
    terms.copy_(sampled)
    if leave_one_out:
        torch.sub(1.0, terms, out=room).clamp_min_(LEAST_REST)
        terms.div_(room)
    terms.square_().mul_(tail.evicts)
    total = _reduce(terms, tail.heads, shape, "sum")

    moved = (
        (passing.out - tail.centre).reshape(-1, rows, dim).to(tail.values.dtype)
    )  # m, rounded as the product needs it
    power = moved.float().square().sum(-1)
    products = torch.bmm(moved.mul_(-2.0).index_select(0, tail.heads), tail.values.transpose(1, 2))
    blocks = room.view(rows, -1, BLOCK)
    blocks.copy_(products.transpose(0, 1)).add_(power.index_select(0, tail.heads).t()[..., None])
    terms.mul_(room.add_(tail.squares))  # that is ||v - y||^2
    vhat, largest = _reduce(terms, tail.heads, shape, "sum").clamp_min_(0.0), _reduce(terms, tail.heads, shape, "amax")

    eps = torch.finfo(passing.values[0].dtype).eps
    size, mean = power.sqrt(), (vhat / total.clamp(min=_EPS**4)).sqrt()  # ||m||, and ||v - y|| on average
    off = 0.5 * eps * size * (size + mean) + 4 * _EPS * (size + mean).square()
    rounded = (0.25 * eps) ** 2 * passing.out.square().sum(-1).view(shape)  # what rounding the output may have moved
    doubtful = off * total > _OFF * torch.maximum(vhat, rounded)
    if leave_one_out and bool((total > _HEAVY).any()):
        doubtful |= (_reduce(sampled, tail.heads, shape, "amax") > 1 - _REST) & (total > _HEAVY)
    for cell, row in doubtful.nonzero().tolist():
        again = _sum_differences(tail, passing, (*divmod(cell, kv_heads), row), leave_one_out)
        vhat[cell, row], largest[cell, row] = again
    return vhat.view(num_layers, kv_heads, rows), largest.view(num_layers, kv_heads, rows)


def _reduce(terms: Tensor, heads: Tensor, shape: torch.Size, how: str) -> Tensor:
    """Over the rows of each head: [R, N * BLOCK] of at least 0 to [heads, R]."""
    blocks = terms.view(shape[1], -1, BLOCK)
    part = blocks.sum(-1) if how == "sum" else blocks.amax(-1)
    found = terms.new_zeros(shape[1], shape[0])
    return found.scatter_reduce_(1, heads.expand(shape[1], -1), part, how).t().contiguous()


def _sum_differences(
    tail: Tail, passing: Passing, cell: tuple[int, int, int], leave_one_out: bool
) -> tuple[Tensor, Tensor]:
    """(Vhat, squared range term) of one layer, head and query row, in float32 from ||v - y|| of every sampled row."""
    layer, head, row = cell
    rows = tail.index[layer][head]
    values, out = passing.values[layer][head], passing.out[layer, head, row]
    weights = passing.weights[layer][head, row].float()
    if leave_one_out:
        weights = weights / weights.sum()
        out = weights @ values.float()
        weights = weights / (1 - weights).clamp(min=LEAST_REST)
    evicts = tail.evicts.view(-1, BLOCK)[tail.heads == layer * passing.out.shape[1] + head].flatten()
    terms = (values[rows].float() - out).square().sum(-1) * weights[rows].square() * evicts
    return terms.sum(), terms.amax()
