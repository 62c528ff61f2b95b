"""Vhat and the largest term of many layers and heads at once, from sums that attention has taken.

With c = (1 - pi) w^2, sum of c ||v - y||^2 = sum of c ||v||^2 - 2 y.(sum of c v) + ||y||^2 sum of c: besides numbers
that do not change between steps it needs sum of c v alone, which is one more row of weights in attention's own product.
Two things this form does not give by itself:

- Precision. It cancels where the rows with weight lie near y, and sum of c v is rounded to the model's type. So values
  and outputs are taken from a centre of each head, and where rounding could still move Vhat by more than a twentieth,
  which takes a row with nearly all of the weight, that query row is computed again from differences.
- The largest term, which needs ||v - y|| row by row. No row exceeds c (||v - centre|| + ||y - centre||)^2, and none
  exceeds Vhat. The few rows with the largest such bounds are measured, and then all others whose bound is above the
  largest that was measured. Or none: then the bound itself stands for the term.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = ["Passing", "Standing", "sum_terms"]

_FIRST = 4  # rows of each query row that are measured at once
_OFF = 0.05  # the share of Vhat that rounding may move
_EPS = torch.finfo(torch.float32).eps


@dataclass(frozen=True, slots=True)
class Standing:
    """What does not change between steps, of B layers; all float32. Values are relative to the centre."""

    centre: Tensor  # [B, kv_heads, 1, d]
    squares: Tensor  # [B, kv_heads, 1, n or more], squared norms; 0 for rows that came later
    norms: Tensor  # [B, kv_heads, 1, n or more]

    def at(self, places: Sequence[int], width: int) -> Standing:
        """Of these layers, and so many rows."""
        index = list(places)
        whole = index == list(range(len(self.centre)))
        centre, squares, norms = (part if whole else part[index] for part in (self.centre, self.squares, self.norms))
        return Standing(centre, squares[..., :width], norms[..., :width])

    def widen(self, width: int) -> Standing:
        """With room for so many rows."""
        more = (0, width - self.squares.shape[-1])
        return Standing(self.centre, F.pad(self.squares, more), F.pad(self.norms, more))


@dataclass(frozen=True, slots=True)
class Passing:
    """What a pass leaves behind, of B layers, R query rows to a key-value head; float32 but for the values."""

    terms: Tensor  # [B, kv_heads, R, n], c; 0 for rows that were certain
    sums: Tensor  # [B, kv_heads, R, d], sum of c v, as rounded
    out: Tensor  # [B, kv_heads, R, d]
    values: Sequence[Tensor]  # of each layer, [kv_heads, n, d]
    eps: float  # of the type in which `sums` were rounded


def sum_terms(standing: Standing, passing: Passing, exact: bool) -> tuple[Tensor, Tensor]:
    """(Vhat, largest term), the largest c ||v - y||^2, both [B, kv_heads, R] float32.

    exact: whether the largest term is measured; otherwise it is bounded from above.
    """
    terms, out = passing.terms, passing.out
    moved = out - standing.centre
    power = moved.square().sum(-1)
    total = terms.sum(-1)
    products = moved * passing.sums
    cross = products.sum(-1) - total * (moved * standing.centre).sum(-1)
    held = (terms * standing.squares).sum(-1)
    vhat = (held - 2.0 * cross + total * power).clamp_(min=0)
    doubtful = passing.eps * products.norm(dim=-1) + 4 * _EPS * held > _OFF * vhat
    reach = torch.add(standing.norms, power.sqrt()[..., None]).square_().mul_(terms)
    if exact:
        largest = _measure_first(passing, reach)
        undecided = (largest < torch.minimum(reach.amax(-1), vhat - largest)) & ~doubtful
        _measure_rest(passing, reach, largest, undecided)
    else:
        largest = torch.minimum(reach.amax(-1), vhat)
    for layer, head, row in doubtful.nonzero().tolist():
        differences = passing.values[layer][head].float() - out[layer, head, row]
        exactly = differences.square().sum(-1) * terms[layer, head, row, : differences.shape[0]]
        vhat[layer, head, row], largest[layer, head, row] = exactly.sum(), exactly.amax()
    return vhat, largest


def _measure_first(passing: Passing, reach: Tensor) -> Tensor:
    """The largest term among the rows with the largest bounds, whose bounds are set to 0: [B, kv_heads, R]."""
    layers, kv_heads, rows, width = reach.shape
    at = _find_largest(reach, min(_FIRST, width))
    index = at.view(layers, kv_heads, -1, 1).expand(-1, -1, -1, passing.out.shape[-1])
    pairs = zip(passing.values, index, strict=True)  # behind a layer's own rows every term is 0, whatever is measured
    found = torch.stack([values.gather(1, part.clamp(max=values.shape[1] - 1)) for values, part in pairs])
    differences = found.view(layers, kv_heads, rows, -1, found.shape[-1]) - passing.out[..., None, :]
    terms = differences.square().sum(-1).mul_(passing.terms.gather(-1, at))
    reach.scatter_(-1, at, 0.0)
    return terms.amax(-1)


def _find_largest(numbers: Tensor, count: int) -> Tensor:
    """Where the largest are along the last axis, or such as equal them in their leading bits: [..., count] int64.

    The numbers are at least 0, so that their bits are ordered as they are. Their last bits give way to the index, and
    one maximum finds both; argmax takes ten times as long.
    """
    width = numbers.shape[-1]
    last = (1 << (width - 1).bit_length()) - 1
    index = torch.arange(width, dtype=torch.int32, device=numbers.device)
    marked = numbers.view(torch.int32).bitwise_and(~last).bitwise_or_(index)
    found = []
    for _ in range(count):
        found.append(marked.amax(-1, keepdim=True).bitwise_and_(last).long())
        marked.scatter_(-1, found[-1], -1)
    return torch.cat(found, -1)


def _measure_rest(passing: Passing, reach: Tensor, largest: Tensor, undecided: Tensor) -> None:
    """Measure every row whose bound is above the largest term so far, of the undecided query rows; in place."""
    cells = undecided.nonzero(as_tuple=True)
    if not len(cells[0]):
        return
    best = largest[cells]
    cell, at = (reach[cells] > best[:, None]).nonzero(as_tuple=True)
    layers, heads, rows = (part[cell] for part in cells)
    counts = torch.bincount(layers, minlength=len(passing.values)).tolist()
    pieces = zip(passing.values, torch.split(heads, counts), torch.split(at, counts), strict=True)
    found = torch.cat([values[head, row] for values, head, row in pieces if len(row)]).float()
    terms = (found - passing.out[layers, heads, rows]).square().sum(-1) * passing.terms[layers, heads, rows, at]
    largest[cells] = best.scatter_reduce(0, cell, terms, "amax")
