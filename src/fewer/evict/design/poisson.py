"""Poisson sampling: every row stays or leaves by a coin of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from fewer.evict.design.rows import as_sample
from fewer.evict.design.target import FLOOR, check_floor, draw_uniform, find_target
from fewer.types import Sample

__all__ = ["Poisson"]


@dataclass(frozen=True, slots=True)
class Poisson:
    """Independent draws with inclusion probabilities proportional to the score; `keep` rows are the expectation.

    Source: Hájek (1964), "Asymptotic theory of rejective sampling"; the design of "Error Certificates for KV-Cache
    Eviction via Randomized Design", whose equation (2) is meant with a floor near 0 and here spends all of the budget.
    Joint inclusion probabilities are products, pi_ij = pi_i pi_j.

    The count varies, with a standard deviation of sqrt(sum pi (1 - pi)) rows, so heads are ragged and padded to the
    longest one. A head without certain rows can come out empty, with probability prod(1 - pi); protect a row. floor:
    see `fewer.evict.inclusion.inclusion`.
    """

    floor: float = FLOOR

    def __post_init__(self) -> None:
        check_floor(self.floor)

    @property
    def name(self) -> str:
        """Its name on the command line and on receipts."""
        return "poisson"

    @property
    def variance(self) -> Literal["poisson", "fixed_size"]:
        """The single sum: rows are drawn independently of each other."""
        return "poisson"

    def draw(self, score: Tensor, keep: Tensor, generator: torch.Generator) -> Sample:
        """Draw. As in `fewer.types.KnownDesign`; raises BadInput also where keep leaves nothing for the tail."""
        pi = find_target(score, keep, self.floor)
        return as_sample(draw_uniform(pi.shape[0], pi.shape[1], generator) < pi, pi, score.device)

    def describe(self) -> Mapping[str, str | int | float | None]:
        """The settings, for the receipt."""
        return {"floor": self.floor}
