"""Vhat and the range term of many layers and heads at once, from the weights and outputs that attention left behind.

Both are of c ||v - y||^2, c = (1 - pi) w^2, over (1 - w)^2 in the audited form. With m = y - centre,
||v - y||^2 = ||v - centre||^2 - 2 v.m + 2 centre.m + ||m||^2: besides numbers that do not change between steps it needs
v.m of every row, one product with the values for each layer. All else is done for several layers at once, in float32.

Where that is not precise enough a query row is computed again from differences: where rounding v.m to the model's type
could move Vhat by more than a twentieth, which takes a row with nearly all of the weight; and where w is rounded to the
model's type and 1 - w is small (0, at worst). The weights are then first made to sum to 1: those of the *other* rows
are not near 1, and what they sum to is known as well as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from fewer.certify.variance import LEAST_REST

__all__ = ["Passing", "Scratch", "Standing", "sum_terms"]

_OFF = 0.05  # the share of Vhat that rounding may move
_EPS = torch.finfo(torch.float32).eps
_REST = 0.08  # where a sampled row leaves less to the others, rounding w to bfloat16 may move Vhat by a twentieth
_HEAVY = 0.25  # of the sum of c: below it no sampled row to speak of has much weight


@dataclass(frozen=True, slots=True)
class Standing:
    """What does not change between steps, of B layers; float32. Later rows have zeros."""

    centre: Tensor  # [B, kv_heads, 1, d], a mean of the values
    squares: Tensor  # [B, kv_heads, 1, w], squared distances of the values from it
    evicts: Tensor  # [B, kv_heads, 1, w], 1 - pi

    def at(self, places: Sequence[int], width: int) -> Standing:
        """Of these layers, which follow each other, and so many rows."""
        part = slice(places[0], places[-1] + 1)
        return Standing(self.centre[part], self.squares[part, ..., :width], self.evicts[part, ..., :width])

    def widen(self, width: int) -> Standing:
        """With room for so many rows."""
        more = (0, width - self.squares.shape[-1])
        return Standing(self.centre, F.pad(self.squares, more), F.pad(self.evicts, more))


@dataclass(frozen=True, slots=True)
class Passing:
    """What a pass leaves behind, of B layers, R query rows to a key-value head and n rows of a layer."""

    weights: Sequence[Tensor]  # of each layer, [kv_heads, R, n]
    products: Sequence[Tensor]  # of each layer, [kv_heads, n, R], v.m
    values: Sequence[Tensor]  # of each layer, [kv_heads, n, d]
    out: Tensor  # [B, kv_heads, R, d] float32


class Scratch:
    """Two buffers that steps use again: fresh ones of this size would have their pages mapped anew every time."""

    __slots__ = ("_buffers",)

    def __init__(self) -> None:
        self._buffers: Tensor | None = None

    def take(self, passing: Passing, width: int) -> tuple[Tensor, Tensor]:
        """[B, kv_heads, R, width] float32 each: the weights with zeros behind a layer's rows, and room."""
        layers, kv_heads, rows, _ = passing.out.shape
        shape = torch.Size((kv_heads, rows, width))
        if self._buffers is None or self._buffers.shape[2:] != shape or self._buffers.shape[1] < layers:
            self._buffers = passing.out.new_zeros(2, layers, *shape)
        weights, room = self._buffers[:, :layers].unbind()
        for part, into in zip(passing.weights, weights.unbind(), strict=True):
            into[..., : part.shape[-1]].copy_(part)
            into[..., part.shape[-1] :].zero_()
        return weights, room


def sum_terms(standing: Standing, passing: Passing, leave_one_out: bool, scratch: Scratch) -> tuple[Tensor, Tensor]:
    """(Vhat, squared range term), both [B, kv_heads, R] float32. leave_one_out: which form."""
    terms, shares = scratch.take(passing, standing.squares.shape[-1])
    if leave_one_out:
        torch.sub(1.0, terms, out=shares)  # 1 - w, for a moment
        terms.div_(shares.clamp_min_(LEAST_REST))
    terms.square_().mul_(standing.evicts)
    total = terms.sum(-1)
    moved = passing.out - standing.centre
    power, middle = moved.square().sum(-1), (moved * standing.centre).sum(-1)

    for products, into in zip(passing.products, shares.unbind(), strict=True):
        into[..., : products.shape[1]].copy_(products.transpose(1, 2))
    shares.mul_(-2.0).add_(standing.squares).add_((power + 2 * middle)[..., None])  # ||v - y||^2
    shares.clamp_min_(0.0).mul_(terms)
    vhat, largest = shares.sum(-1), shares.view(torch.int32).amax(-1).view(torch.float32)  # of numbers of at least 0

    eps = torch.finfo(passing.values[0].dtype).eps
    size, mean = power.sqrt(), (vhat / total.clamp(min=_EPS**4)).sqrt()  # ||m||, and ||v - y|| on average
    off = 0.5 * eps * (middle.abs() + size * (size + mean)) + 4 * _EPS * (size + mean).square()
    rounded = (0.25 * eps) ** 2 * passing.out.square().sum(-1)  # what rounding the output itself may have moved
    doubtful = off * total > _OFF * torch.maximum(vhat, rounded)
    if leave_one_out and len(heavy := (total > _HEAVY).nonzero()):
        layers, heads, rows = heavy.unbind(1)
        most = (1 / _REST - 1) ** 2 * standing.evicts[layers, heads, 0]
        doubtful[layers, heads, rows] |= (terms[layers, heads, rows] > most).any(-1)
    for layer, head, row in doubtful.nonzero().tolist():
        again = _sum_differences(standing, passing, (layer, head, row), leave_one_out)
        vhat[layer, head, row], largest[layer, head, row] = again
    return vhat, largest


def _sum_differences(
    standing: Standing, passing: Passing, cell: tuple[int, int, int], leave_one_out: bool
) -> tuple[Tensor, Tensor]:
    """(Vhat, squared range term) of one layer, head and query row, in float32 from ||v - y|| of every row."""
    layer, head, row = cell
    values, out = passing.values[layer][head].float(), passing.out[layer, head, row]
    weights = passing.weights[layer][head, row].float()
    if leave_one_out:
        weights = weights / weights.sum()
        out = weights @ values
        weights = weights / (1 - weights).clamp(min=LEAST_REST)
    terms = (values - out).square().sum(-1) * weights.square() * standing.evicts[layer, head, 0, : len(weights)]
    return terms.sum(), terms.amax()
