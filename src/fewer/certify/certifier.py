"""The certificate of every layer, head and step, in the pass that attends: `fewer.types.Witness`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from fewer.certify.certificate import StepCertificate
from fewer.certify.known import KnownProbabilities
from fewer.certify.sums import Passing, Standing, sum_terms
from fewer.certify.variance import check_delta, radius
from fewer.errors import bad

__all__ = ["Certifier"]

_MOST = 1 << 22  # weights that are kept before they are summed: 16 MiB in float32
_SPARE = 256  # rows by which the coefficients are made longer when the layer has grown


@dataclass(frozen=True, slots=True)
class _Seen:
    """What a layer leaves behind until its terms are summed. R: query rows of all heads of a group."""

    terms: Tensor  # [kv_heads, R, n], (1 - pi) w^2
    sums: Tensor  # [kv_heads, R, d], terms @ values
    out: Tensor  # [query rows, heads, d]
    values: Tensor  # [kv_heads, n, d]


class Certifier:
    """Watches passes over one sequence's cache, from one compression to the next.

    known: of each layer, or None where it was not sampled. values: [kv_heads, n, d] of each layer at that time, as
    stored. delta: the level. exact: measure the range term; otherwise an upper bound stands for it, which is cheaper
    and makes the radius larger: by a tenth on the median head of a small model, by 107% at the most (delta 0.1). Rows
    that are appended later are certain. Holds 10 bytes per row and head, 12 in float32.

    Query rows of a pass may be several; a pass that starts again forgets the unfinished one before it. Terms and their
    products are in the type of the weights, in float32 where that is float16 (where they underflow); sums over them are
    float32. Raises BadInput where `known` and `values` do not fit each other.
    """

    def __init__(
        self,
        known: Sequence[KnownProbabilities | None],
        values: Sequence[Tensor],
        delta: float = 0.1,
        exact: bool = True,
    ) -> None:
        if len(known) != len(values):
            raise bad("known", len(known), f"one for each of {len(values)} layers", "Pass None for unsampled layers.")
        self.delta, self.exact = check_delta(delta), exact
        self._num_layers = len(known)
        sampled = [(layer, one, stored) for layer, (one, stored) in enumerate(zip(known, values, strict=True)) if one]
        for _, one, stored in sampled:
            if one.pi.shape != stored.shape[:2]:
                legal = f"{list(one.pi.shape)} rows, as many as have probabilities"
                raise bad("values", list(stored.shape), legal, "Pass what the layer holds right after the compression.")
        self._layers = [layer for layer, _, _ in sampled]
        self._place = {layer: place for place, layer in enumerate(self._layers)}
        self._sizes = [stored.shape[1] for _, _, stored in sampled]
        self._gone = [_spare(_working(1 - one.pi.to(stored.device).float(), stored)) for _, one, stored in sampled]
        if sampled:
            self._factors = torch.stack([_factor(one).to(stored.device) for _, one, stored in sampled])[..., None]
            self._standing = _stand([stored for _, _, stored in sampled], max(self._sizes) + _SPARE)
        self._rows: dict[int, Tensor] = {}
        self._forget()

    def rows(self, index: int, weights: Tensor) -> Tensor:
        """As in `fewer.types.Witness`: (1 - pi) w^2, or no rows where none are wanted."""
        place = self._place.get(index)
        if place is None or weights.dtype == torch.float16:
            return weights[:, :0]
        self._rows[place] = terms = self._take_terms(place, weights)
        return terms

    def see(self, index: int, weights: Tensor, out: Tensor, values: Tensor, sums: Tensor | None = None) -> None:
        """As in `fewer.types.Witness`. A layer that was not sampled is passed over.

        Raises BadInput where the layer holds fewer rows than when it was compressed.
        """
        place = self._place.get(index)
        if place is None:
            return
        if place in self._pending or place in self._done:
            self._forget()
        if values.shape[1] < self._sizes[place]:
            legal = f"at least the {self._sizes[place]} rows that were there"
            raise bad("values", values.shape[1], legal, "Make a new certifier when rows have been taken away.")
        kv_heads, heads, num_rows = values.shape[0], *weights.shape[:2]
        terms = self._rows.pop(place, None)
        if terms is None or sums is None or not sums.shape[1]:
            terms = self._take_terms(place, weights.reshape(kv_heads, -1, weights.shape[-1]))
            sums = torch.bmm(terms, values.to(terms.dtype))
        self._pending[place] = _Seen(terms, sums, out, values)
        self._shape = (heads, num_rows)
        if len(self._pending) * weights.numel() > _MOST:
            self._sum()

    def finish(self) -> StepCertificate | None:
        """The certificate of the pass that has been seen, which is then forgotten; None where nothing was seen."""
        if self._pending:
            self._sum()
        if not self._done:
            return None
        places = list(self._done)
        shape = (len(places), *self._shape)
        vhat, largest, norm = torch.stack(list(self._done.values()), 1)  # [S, kv_heads, R] each
        vhat, term, norm = (vhat * self._factors[places]).view(shape), largest.sqrt().view(shape), norm.view(shape)
        found = [radius(vhat, term, norm, self.delta), vhat, term, norm]
        self._forget()
        if len(places) < self._num_layers:
            at = torch.tensor([self._layers[place] for place in places], device=vhat.device)
            empty = vhat.new_zeros(self._num_layers, *shape[1:])
            found = [empty.index_copy(0, at, part) for part in found]
        return StepCertificate(*found)

    def _forget(self) -> None:
        self._pending: dict[int, _Seen] = {}
        self._done: dict[int, Tensor] = {}  # Vhat, the largest term, the output's norm: [3, kv_heads, R]
        self._shape = (0, 0)

    def _take_terms(self, place: int, weights: Tensor) -> Tensor:
        """weights: [kv_heads, R, n]; (1 - pi) w^2 of the same shape."""
        size = weights.shape[-1]
        if size > self._gone[place].shape[-1]:
            self._gone[place] = _spare(self._gone[place], size)
        weights = _working(weights, weights)
        return (weights * weights).mul_(self._gone[place][:, :, :size])

    def _sum(self) -> None:
        """Sum over the rows of every pending layer at once."""
        places, seen = list(self._pending), list(self._pending.values())
        self._pending = {}
        width = max(one.terms.shape[-1] for one in seen)
        if width > self._standing.squares.shape[-1]:
            self._standing = self._standing.widen(width + _SPARE)
        kv_heads, dim = seen[0].sums.shape[0], seen[0].sums.shape[2]
        out = torch.stack([one.out for one in seen]).float().transpose(1, 2).reshape(len(seen), kv_heads, -1, dim)
        passing = Passing(
            terms=_stack([one.terms for one in seen], width),
            sums=torch.stack([one.sums for one in seen]).float(),
            out=out,
            values=[one.values for one in seen],
            eps=torch.finfo(seen[0].sums.dtype).eps,
        )
        vhat, largest = sum_terms(self._standing.at(places, width), passing, self.exact)
        for place, found in zip(places, torch.stack((vhat, largest, out.norm(dim=-1)), 1), strict=True):
            self._done[place] = found


def _working(numbers: Tensor, like: Tensor) -> Tensor:
    """In the type in which terms are made for values or weights like these."""
    return numbers.to(torch.float32 if like.dtype == torch.float16 else like.dtype)


def _spare(gone: Tensor, size: int = 0) -> Tensor:
    """[kv_heads, s] or [kv_heads, 1, s] with zeros behind, for rows that come later: [kv_heads, 1, more]."""
    gone = gone if gone.dim() == 3 else gone[:, None]
    return F.pad(gone, (0, max(size, gone.shape[-1]) + _SPARE - gone.shape[-1]))


def _stand(values: Sequence[Tensor], width: int) -> Standing:
    """The constants of all layers, one layer's values in float32 at a time."""
    centres, squares = [], []
    for stored in values:
        exact = stored.float()
        centres.append(exact.mean(1, keepdim=True))
        squares.append((exact - centres[-1]).square().sum(-1)[:, None])
    joined = _stack(squares, width)
    return Standing(torch.stack(centres), joined, joined.sqrt())


def _factor(known: KnownProbabilities) -> Tensor:
    """m/(m - 1) for designs of fixed size with m > 1 sampled rows, 1 otherwise: [kv_heads] float32.

    With it Vhat is the Hájek-Deville estimate without its centring, which could only make it smaller.
    """
    count = (known.pi < 1).sum(1).float()
    fits = (count > 1) & (known.variance == "fixed_size")
    return torch.where(fits, count / (count - 1).clamp(min=1), 1.0)


def _stack(parts: Sequence[Tensor], width: int) -> Tensor:
    """Along a new first axis in float32, the last axis filled up with zeros to `width`."""
    wide = [part if part.shape[-1] == width else F.pad(part, (0, width - part.shape[-1])) for part in parts]
    return torch.stack(wide).float()
