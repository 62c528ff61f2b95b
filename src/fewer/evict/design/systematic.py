"""Systematic sampling: one random start, then every row in which the cumulated probability passes a whole step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from fewer.evict.design.rows import as_sample
from fewer.evict.design.target import FLOOR, Order, check_floor, check_order, draw_uniform, find_target
from fewer.types import Sample

__all__ = ["Systematic", "take_steps"]


@dataclass(frozen=True, slots=True)
class Systematic:
    """Exactly `keep` rows per head, by systematic sampling with unequal probabilities (Madow 1949).

    order: "position" walks along the text, so that any stretch of it keeps the sum of its probabilities, give or take
    less than one row at either end. There are then at most n different samples and most pairs of rows never stay
    together, so *no* variance estimator is unbiased: those there are come out too wide where neighbouring rows are
    alike, and too narrow where rows alternate with the step. "random" shuffles first (Hartley and Rao 1962), which
    brings it near the high-entropy designs that the fixed-size variance estimator assumes.

    Measured on 1,350 cells of a 135M model (5 prompts, 12.5 to 50% kept, same pi): the mean squared error of the
    attention output, at the median cell, was .82 to .94 of Poisson's in position order and .98 in random order, while
    the single-sum variance estimate came to 1.02 to 1.22 and .98 to 1.02 of it. floor: see
    `fewer.evict.inclusion.inclusion`.
    """

    floor: float = FLOOR
    order: Order = "position"

    def __post_init__(self) -> None:
        check_floor(self.floor)
        check_order(self.order)

    @property
    def name(self) -> str:
        """Its name on the command line and on receipts."""
        return "systematic"

    @property
    def variance(self) -> Literal["poisson", "fixed_size"]:
        """As many rows as were asked for."""
        return "fixed_size"

    def draw(self, score: Tensor, keep: Tensor, generator: torch.Generator) -> Sample:
        """Draw. As in `fewer.types.KnownDesign`; raises BadInput also where keep leaves nothing for the tail."""
        pi = find_target(score, keep, self.floor)
        kv_heads, n = pi.shape
        luck = draw_uniform(kv_heads, 1 + (n if self.order == "random" else 0), generator)
        tail = torch.where(pi < 1.0, pi, 0.0)
        if self.order == "random":
            order = luck[:, 1:].argsort(dim=1)
            taken = torch.zeros_like(pi, dtype=torch.bool).scatter(
                1, order, take_steps(tail.gather(1, order), luck[:, 0])
            )
        else:
            taken = take_steps(tail, luck[:, 0])
        return as_sample(taken | (pi >= 1.0), pi, score.device)

    def describe(self) -> Mapping[str, str | int | float | None]:
        """The settings, for the receipt."""
        return {"floor": self.floor, "order": self.order}


def take_steps(pi: Tensor, start: Tensor) -> Tensor:
    """The rows in which the cumulated pi passes start, start + 1, start + 2, ...: [kv_heads, n] bool.

    pi: [kv_heads, n] in [0, 1) with a whole sum, up to rounding; start: [kv_heads] in [0, 1).
    """
    ends = pi.cumsum(1)
    total = ends[:, -1:]
    ends = torch.where(ends == total, total.round(), torch.minimum(ends, total.round()))  # so that no step is lost
    passed = (ends - start[:, None]).ceil()
    return passed.diff(dim=1, prepend=torch.zeros_like(passed[:, :1])) > 0
