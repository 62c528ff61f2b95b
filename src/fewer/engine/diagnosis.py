"""What a comparison of a pruned run with the full model found, as numbers. Diagnostics, never guarantees."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["GAMMAS", "Diagnosis", "Loss", "Ran"]

GAMMAS = (1, 2, 4)

Numbers = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Loss:
    """The full model's attention to what was left out, in one layer above. Arrays are [heads], shares of a row.

    Rows are the retained ones: `eta` is the largest of them all (eta_ref of (23)), not only of the query's.
    """

    layer: int
    num_rows: int
    num_removed: int
    eta: Numbers
    eta_position: NDArray[np.int64]  # whose row that is
    mean: Numbers  # over the retained rows
    last: Numbers  # the newest position's
    query_max: Numbers  # over the query's rows; where the prompt names none, the newest
    query_mean: Numbers
    gamma: Numbers | None  # the smallest Gamma of (26) with sigma 0 over the query's rows; inf where mu misses a token
    excess: Mapping[int, Numbers] | None  # sigma at Gamma = 1, 2, 4: the largest positive excess of the query's rows


@dataclass(frozen=True, slots=True)
class Ran:
    """One greedy answer. Margins are the best logit minus the second."""

    text: str
    ids: tuple[int, ...]
    finish_reason: str
    first_margin: float
    smallest_margin: float  # over the tokens of the answer


@dataclass(frozen=True, slots=True, eq=False)
class Diagnosis:
    """The pruned run and the full one on one prompt. What is called a diagnostic bounds nothing.

    outcomes: what the planner said, by layer. removed_chunks: those of which nothing went to the end, numbers among the
    prompt's from 0. probe_mass: q = mu(E) at the accepted layer, for EntroPrefill. logit_shift: the largest change of a
    logit of the first token.
    """

    planner: str
    num_tokens: int
    num_removed: int
    removed_chunks: tuple[int, ...]
    outcomes: tuple[tuple[int, str], ...]
    probe_mass: float | None
    layers: tuple[Loss, ...]
    full: Ran
    pruned: Ran
    logit_shift: float

    @property
    def same_first_token(self) -> bool:
        """Whether both answers begin alike."""
        return self.full.ids[0] == self.pruned.ids[0]

    @property
    def same_text(self) -> bool:
        """Whether both answers, as far as they went, are the same text."""
        return self.full.text == self.pruned.text

    def to_object(self) -> dict[str, Any]:
        """For JSON: the fields by name, and `same_first_token` and `same_text`; an infinite Gamma is null."""
        names = ("planner", "num_tokens", "num_removed", "probe_mass", "logit_shift", "same_first_token", "same_text")
        found: dict[str, Any] = {name: getattr(self, name) for name in names}
        found["removed_chunks"] = list(self.removed_chunks)
        found["outcomes"] = [{"layer": layer, "outcome": outcome} for layer, outcome in self.outcomes]
        for name, ran in (("full", self.full), ("pruned", self.pruned)):
            found[name] = {key: getattr(ran, key) for key in Ran.__dataclass_fields__} | {"ids": list(ran.ids)}
        found["layers"] = [
            {key: _plain(getattr(each, key)) for key in Loss.__dataclass_fields__} for each in self.layers
        ]
        return found


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, np.ndarray):
        return [each if np.isfinite(each) else None for each in value.tolist()]
    return value
