"""What evicting keys and values is made of: what a score sees, what a design draws, and what a policy puts together.

`n` is the number of rows a layer holds for each key-value head, `m` the number of observed queries, `d` the head
dimension. A `Selection` says which rows stay; a `Sample` also how likely that was, and only that can have a
certificate.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

import torch
from torch import Tensor

__all__ = [
    "FIRST_STEPS",
    "LARGEST_RADIUS",
    "CacheView",
    "Design",
    "KnownDesign",
    "Meter",
    "Needs",
    "Observers",
    "RowScore",
    "Sample",
    "Selection",
    "Witness",
]

Observers = Literal["none", "last", "window", "strided", "repeat"]

FIRST_STEPS = 6  # decode steps over which an answer's certificate is a maximum (Xie 2026, section 3.4)
LARGEST_RADIUS = 1.0  # what a radius counts at most in clipped averages: an output that may be all error


@dataclass(frozen=True, slots=True)
class Needs:
    """Whose queries a score looks with, of the tokens that are there when the cache is compressed.

    "none"; "last", the newest token; "window", the newest `count`; "strided", at most `count` tokens spread evenly over
    each pass since the last compression and thinned together as they become too many, the newest among them; "repeat",
    none of them, but of the text since the last compression as it is read a second time, `count` tokens at once.
    """

    observers: Observers = "none"
    count: int = 0


@dataclass(frozen=True, slots=True)
class CacheView:
    """One layer at the moment it is compressed: everything a score may look at, and nothing from later."""

    layer: int  # 1..L
    num_layers: int
    k: Tensor  # [kv_heads, n, d]
    v: Tensor  # [kv_heads, n, d]
    pos: Tensor  # [kv_heads, n] int64, ascending
    q: Tensor  # [heads, m, d], rotated, not yet scaled; m is 0 where nothing was observed
    q_pos: Tensor  # [m] int64, ascending
    scaling: float  # logits are q . k * scaling
    next_pos: int  # the position of the token to come
    log_w: Tensor | None = None  # [kv_heads, n], what earlier compressions added to the logits; -inf is padding
    pi: Tensor | None = None  # [kv_heads, n] float32, inclusion probabilities of earlier compressions
    window: int | None = None  # of a sliding-window layer, in positions
    gathered: Tensor | None = (
        None  # [kv_heads, n] float32: what `RowScore.gathers` handed on last time; 0 for newer rows
    )

    repeated: Tensor | None = None  # [heads, n] float32: the largest attention of a row while its text was repeated

    @property
    def padding(self) -> Tensor | None:
        """Which rows hold nothing: [kv_heads, n] bool, or None where all of them do."""
        return None if self.log_w is None else torch.isneginf(self.log_w)


@dataclass(frozen=True)
class Selection:
    """Which rows stay, per key-value head. Nothing is known about how likely that was."""

    idx: Tensor  # [kv_heads, m] int64, ascending over the rows that count; padding is behind them and repeats one
    count: Tensor  # [kv_heads] int64: the rows of each head that count

    @property
    def valid(self) -> Tensor:
        """Which entries are rows and not padding: [kv_heads, m] bool."""
        return torch.arange(self.idx.shape[1], device=self.idx.device) < self.count[:, None]


@dataclass(frozen=True)
class Sample(Selection):
    """A selection by chance whose every row had a known probability above 0 to stay."""

    pi: Tensor  # [kv_heads, m] float32, in (0, 1]; 1 where the row was certain to stay, and for padding


class RowScore(Protocol):
    """How much a row is wanted."""

    @property
    def name(self) -> str:
        """Its name on the command line and on receipts."""
        ...

    @property
    def needs(self) -> Needs:
        """Whose queries it wants to see."""
        ...

    @property
    def gathers(self) -> bool:
        """Whether what it returns is handed back at the next compression, as `CacheView.gathered`."""
        ...

    def __call__(self, view: CacheView) -> Tensor:
        """[kv_heads, n] float32 of at least 0, larger = keep; designs that sample take it as the measure of size."""
        ...

    def describe(self) -> Mapping[str, str | int | float | None]:
        """The settings, for the receipt."""
        ...


class Design(Protocol):
    """How rows are chosen by their scores."""

    @property
    def name(self) -> str:
        """Its name on the command line and on receipts."""
        ...

    def draw(self, score: Tensor, keep: Tensor, generator: torch.Generator) -> Selection:
        """Choose. score: [kv_heads, n], inf is kept for certain, -inf is padding and never kept; keep: [kv_heads].

        Never more rows than there are; where `keep` covers all rows, all stay, in order. Raises BadInput where `keep`
        is below the rows that are certain.
        """
        ...

    def describe(self) -> Mapping[str, str | int | float | None]:
        """The settings, for the receipt."""
        ...


class KnownDesign(Design, Protocol):
    """A design that draws with known probabilities. Only what such a one drew can have a certificate."""

    @property
    def variance(self) -> Literal["poisson", "fixed_size"]:
        """Which variance estimator fits: rows drawn independently of each other, or as many as were asked for."""
        ...

    def draw(self, score: Tensor, keep: Tensor, generator: torch.Generator) -> Sample:
        """As in `Design`, with the probabilities."""
        ...


class Witness(Protocol):
    """Something that is shown the attention weights of a pass, layer by layer, where rows had been sampled."""

    def see(self, index: int, weights: Tensor, out: Tensor, values: Tensor) -> None:
        """One layer, from 0. weights: [heads, r, n], softmax over all stored rows; out: [r, heads, d], what they gave;
        values: [kv_heads, n, d], the stored ones.
        """
        ...


class Meter(Protocol):
    """Something that is shown the attention weights of a pass at every layer, sampled or not."""

    def see(self, index: int, first: int, weights: Tensor) -> None:
        """Some rows of one layer, from 0. first: the first of them in the pass; weights: [heads, m, n], softmax over
        all stored rows, in at least float32.
        """
        ...
