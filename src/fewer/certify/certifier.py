"""The certificate of every layer, head and step, in the pass that attends: `fewer.types.Witness`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from fewer.certify.certificate import StepCertificate
from fewer.certify.known import KnownProbabilities
from fewer.certify.sums import Passing, Scratch, sum_terms
from fewer.certify.tail import Tail
from fewer.certify.variance import Form, check_delta, check_form, radius
from fewer.errors import bad

__all__ = ["Certifier"]

_MOST = 1 << 20  # weights that are kept before they are summed: 4 MiB in float32


class _Seen(NamedTuple):
    """What a layer leaves behind until its terms are summed. R: query rows of all heads of a group."""

    weights: Tensor  # [kv_heads, R, n]
    sampled: Tensor  # [R, kv_heads * t], of the rows that chance could have taken
    out: Tensor  # [query rows, heads, d]
    values: Tensor  # [kv_heads, n, d]


class Certifier:
    """Watches passes over one sequence's cache, from one compression to the next.

    known: of each layer, or None where it was not sampled. values: [kv_heads, n, d] of each layer at that time, as
    stored. delta: the level. form: see `fewer.certify.variance`. kappa: in the audited form, by what the radii are
    multiplied, of each layer [heads], from `fewer.certify.audit`; None, or None for a layer, is 1 and "not audited".
    Rows that are appended later are certain. Holds a copy of the values of the rows with pi < 1 (see `nbytes`).

    Query rows of a pass may be several; a pass that starts again forgets the unfinished one before it. Sums are in
    float32. Raises BadInput where `known`, `values` and `kappa` do not fit each other.
    """

    def __init__(
        self,
        known: Sequence[KnownProbabilities | None],
        values: Sequence[Tensor],
        delta: float = 0.1,
        form: Form = "audited",
        kappa: Sequence[Tensor | None] | None = None,
    ) -> None:
        if len(known) != len(values):
            raise bad("known", len(known), f"one for each of {len(values)} layers", "Pass None for unsampled layers.")
        self.delta, self.form = check_delta(delta), check_form(form)
        self._num_layers = len(known)
        sampled = [(layer, one, stored) for layer, (one, stored) in enumerate(zip(known, values, strict=True)) if one]
        for _, one, stored in sampled:
            if one.pi.shape != stored.shape[:2]:
                legal = f"{list(one.pi.shape)} rows, as many as have probabilities"
                raise bad("values", list(stored.shape), legal, "Pass what the layer holds right after the compression.")
        self._layers = [layer for layer, _, _ in sampled]
        self._place = {layer: place for place, layer in enumerate(self._layers)}
        self._sizes = [stored.shape[1] for _, _, stored in sampled]
        factors = _check_kappa(kappa, len(known), form)
        self.audited = bool(sampled) and all(factors[layer] is not None for layer in self._layers)
        if sampled:
            device = sampled[0][2].device
            self._factors = torch.stack([_factor(one) for _, one, _ in sampled]).to(device)[..., None]
            self._kappa = _stack_kappa([factors[layer] for layer in self._layers], device)
            self._tail = Tail.of((one.pi, stored) for _, one, stored in sampled)
        self._scratch = Scratch()
        self._forget()

    def see(self, index: int, weights: Tensor, out: Tensor, values: Tensor) -> None:
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
        if self._pending and next(reversed(self._pending)) != place - 1:
            self._sum()
        grouped = weights.reshape(values.shape[0], -1, weights.shape[-1])
        rows = self._tail.index[place].expand(grouped.shape[1], -1, -1)
        sampled = grouped.transpose(0, 1).gather(2, rows).flatten(1)  # now, while the weights are at hand
        self._pending[place] = _Seen(grouped, sampled, out, values)
        self._shape = weights.shape[:2]
        if len(self._pending) * weights.numel() > _MOST:
            self._sum()

    def finish(self) -> StepCertificate | None:
        """The certificate of the pass that has been seen, which is then forgotten; None where nothing was seen."""
        if self._pending:
            self._sum()
        if not self._done:
            return None
        places, shape = self._done, (len(self._done), *self._shape)
        vhat, term, norm = (torch.cat(parts) for parts in zip(*self._sums, strict=True))
        index = slice(None) if places == list(range(len(self._layers))) else places
        if self.form == "paper":
            vhat = vhat * self._factors[index]
        vhat, term, norm = vhat.view(shape), term.sqrt().view(shape), norm.view(shape)
        size = radius(vhat, term, norm, self.delta, self.form)
        found = [size if self._kappa is None else size * self._kappa[index], vhat, term, norm]
        self._forget()
        if len(places) < self._num_layers:
            at = torch.tensor([self._layers[place] for place in places], device=vhat.device)
            empty = vhat.new_zeros(self._num_layers, *shape[1:])
            found = [empty.index_copy(0, at, part) for part in found]
        size, vhat, term, norm = found
        return StepCertificate(size, vhat, term, norm, self.form, self.audited)

    @property
    def nbytes(self) -> int:
        """Bytes that it holds between passes, besides what belongs to the cache."""
        return self._scratch.nbytes + (self._tail.nbytes if self._layers else 0)

    def _forget(self) -> None:
        self._pending: dict[int, _Seen] = {}
        self._done: list[int] = []  # places, in the order of the sums
        self._sums: list[tuple[Tensor, ...]] = []  # Vhat, range term squared, the output's norm: [B, kv_heads, R]
        self._shape = torch.Size((0, 0))

    def _sum(self) -> None:
        """Sum over the rows of every pending layer at once."""
        places, seen = list(self._pending), list(self._pending.values())
        self._pending = {}
        kv_heads, _, dim = seen[0].values.shape
        out = torch.stack([one.out for one in seen]).float().transpose(1, 2).reshape(len(seen), kv_heads, -1, dim)
        parts = ([one.weights for one in seen], [one.sampled for one in seen], [one.values for one in seen])
        whole = len(places) == len(self._layers)
        tail = self._tail if whole else self._tail.at(places[0], places[-1])
        found = sum_terms(tail, Passing(*parts, out), self.form == "audited", self._scratch)
        self._done += places
        self._sums.append((*found, out.norm(dim=-1)))


def _factor(known: KnownProbabilities) -> Tensor:
    """m/(m - 1) for designs of fixed size with m > 1 sampled rows, 1 otherwise: [kv_heads] float32.

    With it Vhat is the Hájek-Deville estimate without its centring, which could only make it smaller. The audited form
    has no use for it: leaving one out does the same.
    """
    count = (known.pi < 1).sum(1).float()
    fits = (count > 1) & (known.variance == "fixed_size")
    return torch.where(fits, count / (count - 1).clamp(min=1), 1.0)


def _check_kappa(kappa: Sequence[Tensor | None] | None, num_layers: int, form: Form) -> Sequence[Tensor | None]:
    if kappa is None:
        return [None] * num_layers
    if form == "paper":
        raise bad("kappa", len(kappa), "None in the form 'paper'", "The published radius has no audit factor.")
    if len(kappa) != num_layers:
        raise bad("kappa", len(kappa), f"one for each of {num_layers} layers", "Pass None where there was no audit.")
    for one in kappa:
        if one is not None and not (one.dim() == 1 and bool(((one >= 1) & one.isfinite()).all())):
            raise bad("kappa", one.tolist(), "one finite number of at least 1 per head", "Pass what `audit` found.")
    return kappa


def _stack_kappa(factors: Sequence[Tensor | None], device: torch.device) -> Tensor | None:
    """[S, heads, 1] float32, 1 where there was no audit; None where there was none at all."""
    given = [one for one in factors if one is not None]
    if not given:
        return None
    even = torch.ones_like(given[0])
    return torch.stack([even if one is None else one for one in factors]).float().to(device)[..., None]
