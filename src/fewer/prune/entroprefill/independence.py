"""One layer's attention rows, divided at once into what a proposal may see and what only the audit may (section 5).

`split_rows` copies the proposal observers' rows into `ProposalRows` and reduces the audit's rows to chunk masses inside
`SealedRows`, whose values come out in `audit` alone. A `Candidate` is made from `ProposalRows` and is bound to the
draw, its protocol and the layer. None of the three can be made by hand, edited with dataclasses.replace, or copied; an
AuditDraw gives each layer one split, one candidate and one audit.

No type can stop: drawing the same positions again with a blank record (see protocol.py); reading the tensor that went
into `split_rows`; a chosen set that did not come from the proposal rows; private names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import InitVar, dataclass
from typing import NoReturn

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fewer.errors import NonFiniteError, bad
from fewer.prune.entroprefill.protocol import AuditDraw, AuditRefused

__all__ = ["Candidate", "ProposalRows", "SealedRows", "split_rows", "unseal"]

_OURS = object()
_SUM_SLACK = 1e-3  # how far a row of float32 attention may be from summing to one
_ZERO_SLACK = 1e-9  # how far below zero a chunk's mass may be, as a difference of float64 sums


class _Bound:
    """Made in this file only, and never copied."""

    __slots__ = ()

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise AuditRefused(f"A {type(self).__name__} cannot be copied. Pass it on itself.")

    def _check(self, token: object) -> None:
        if token is not _OURS:
            name = type(self).__name__
            way = "ProposalRows.propose" if name == "Candidate" else "split_rows"
            raise AuditRefused(f"A {name} is made by hand or edited; it must come from {way}.")


@dataclass(frozen=True, slots=True, eq=False)
class Candidate(_Bound):
    """A removal set E_l that was chosen from proposal rows. Made by `ProposalRows.propose` only."""

    draw: AuditDraw
    layer: int
    removed: tuple[bool, ...]  # [k], one for each candidate chunk
    token: InitVar[object] = None

    def __post_init__(self, token: object) -> None:
        self._check(token)


@dataclass(frozen=True, slots=True, eq=False)
class ProposalRows(_Bound):
    """What a proposal may see of a layer: the rows of the proposal observers. Made by `split_rows` only."""

    draw: AuditDraw
    layer: int
    heads: tuple[int, ...]
    num_chunks: int  # k
    values: Tensor  # [heads, W_p, T], rows in the order of the protocol's `proposal`; a copy
    token: InitVar[object] = None

    def __post_init__(self, token: object) -> None:
        self._check(token)

    def propose(self, removed: NDArray[np.bool_], settings_digest: str) -> Candidate:
        """Bind a removal set to this layer and protocol, once.

        removed: [k] booleans over the candidate chunks, a function of the protocol and of proposal rows alone.
        settings_digest: of the settings that it was chosen by. Raises AuditRefused where they are not the protocol's,
        or where this layer has its candidate already; BadInput for another shape.
        """
        if settings_digest != self.draw.protocol.settings_digest:
            raise AuditRefused(
                f"settings_digest is {settings_digest!r}; it must be the protocol's "
                f"({self.draw.protocol.settings_digest!r}). Other settings are another protocol and need a fresh draw."
            )
        mask = np.asarray(removed)
        if mask.dtype != np.bool_ or mask.shape != (self.num_chunks,):
            shown = f"an array of {mask.dtype} {mask.shape}"
            raise bad("removed", shown, f"{self.num_chunks} booleans", "Say of each candidate chunk whether it leaves.")
        self.draw.advance(self.layer, "proposed")
        return Candidate(self.draw, self.layer, tuple(mask.tolist()), _OURS)


class SealedRows(_Bound):
    """A layer's audit rows, unreadable until `audit` opens them. Made by `split_rows` only, and never changed.

    It has a `draw`, a `layer` and `heads`; no public name, representation or conversion has values.
    """

    __slots__ = ("_mass", "draw", "heads", "layer")

    draw: AuditDraw
    layer: int
    heads: tuple[int, ...]
    _mass: bytes

    def __init__(self, draw: AuditDraw, layer: int, heads: tuple[int, ...], mass: bytes, token: object = None) -> None:
        self._check(token)
        for name, value in (("draw", draw), ("layer", layer), ("heads", heads), ("_mass", mass)):
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AuditRefused(f"{name} of sealed rows cannot be changed. Split the rows of another layer instead.")

    def __repr__(self) -> str:
        return f"SealedRows(layer={self.layer}, heads={self.heads}, {len(self.draw.distinct)} rows)"


def split_rows(
    draw: AuditDraw,
    layer: int,
    rows: Tensor,
    positions: Sequence[int],
    mass: Callable[[Tensor], Tensor],
    heads: Sequence[int] | None = None,
) -> tuple[ProposalRows, SealedRows]:
    """Divide a layer's rows between the proposal and the audit, once a draw and layer. Both are copies.

    rows: [heads, m, T] attention, float32 or wider, of m `positions`, each once, among them all of `draw.rows`. Where a
    row's last bits depend on which rows are computed beside it, ask for the same rows (the whole query) at every draw.
    mass: the sum over each of the k candidate chunks, [..., T] to [..., k]; it should be nothing more.
    heads: which heads `rows` has; None is 0, 1, ... The proposal gets all of them, the audit the monitored ones.
    Raises AuditRefused for a layer that is not monitored or was split before; BadInput where parts do not fit together
    or rows are not attention; NonFiniteError.
    """
    monitored = draw.protocol.heads(layer)
    if rows.dtype not in (torch.float32, torch.float64) or rows.dim() != 3:
        shown = f"{rows.dtype} {tuple(rows.shape)}"
        raise bad("rows", shown, "attention rows [heads, m, T] in float32 or float64", "Pass one layer's rows.")
    names = tuple(range(rows.shape[0])) if heads is None else tuple(heads)
    places = {position: index for index, position in enumerate(positions)}
    if not rows.shape[1] == len(positions) == len(places) or not places.keys() >= set(draw.rows):
        legal = f"{rows.shape[1]} positions, each once, with all of draw.rows ({len(draw.rows)})"
        raise bad("positions", tuple(positions), legal, "Ask the model for the rows that the draw names.")
    if not rows.shape[0] == len(names) == len(set(names)) or not set(names) >= set(monitored):
        legal = f"{rows.shape[0]} heads, each once, with the monitored ones {monitored}"
        raise bad("heads", names, legal, "Ask the model for all heads.")
    if not bool(torch.isfinite(rows).all()):
        raise NonFiniteError(f"Attention of layer {layer} has NaN or infinite numbers; nothing can be left out by it.")

    def pick(wanted: Sequence[int]) -> Tensor:
        return torch.tensor([places[position] for position in wanted], device=rows.device)

    chosen = torch.tensor([names.index(head) for head in monitored], device=rows.device)
    table = mass(rows.index_select(0, chosen).index_select(1, pick(draw.distinct)))
    sealed = table.detach().to("cpu", torch.float64).numpy()
    low, high = sealed.min(initial=0.0), sealed.sum(axis=-1).max(initial=0.0)
    if sealed.ndim != 3 or low < -_ZERO_SLACK or high > 1 + _SUM_SLACK:
        shown = f"masses {sealed.shape} from {low:g}, rows with up to {high:g}"
        raise bad("rows", shown, "attention: nothing negative, no row above 1", "Pass rows after the softmax.")
    draw.advance(layer, "split")
    seen = rows.detach().index_select(1, pick(draw.protocol.proposal))
    proposal = ProposalRows(draw, layer, names, sealed.shape[-1], seen, _OURS)
    return proposal, SealedRows(draw, layer, monitored, np.maximum(sealed, 0.0).tobytes(), _OURS)


def unseal(sealed: SealedRows, candidate: Candidate) -> NDArray[np.float64]:
    """The chunk masses [heads, rows of draw.distinct, k] of sealed rows, for `audit`. It marks the layer as opened.

    Raises AuditRefused unless the candidate was made from the proposal rows of the same split.
    """
    draw = sealed.draw
    if candidate.draw.protocol.digest != draw.protocol.digest:
        raise AuditRefused(
            "The candidate was made under another protocol than these rows were sealed under: a threshold, an "
            "observer, a monitored layer or a limit of the audit differs. It needs a fresh draw of its own protocol."
        )
    if candidate.draw is not draw:
        raise AuditRefused(
            "The candidate was made from another draw's rows. Propose from the rows that were split here."
        )
    if candidate.layer != sealed.layer:
        legal = f"layer {candidate.layer}, the candidate's"
        raise AuditRefused(f"The sealed rows are of layer {sealed.layer}; they must be of {legal}.")
    draw.advance(sealed.layer, "opened")
    size = (len(sealed.heads), len(draw.distinct), len(candidate.removed))
    return np.frombuffer(sealed._mass, dtype=np.float64).reshape(size)
