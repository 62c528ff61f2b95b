"""Conditional Poisson sampling: the design of exact size with the largest entropy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from fewer.evict.design.rows import as_sample
from fewer.evict.design.target import FLOOR, check_floor, draw_seeds, find_target
from fewer.evict.design.working import find_working
from fewer.types import Sample

__all__ = ["ConditionalPoisson"]

_AT_ONCE = 64  # draws tried together


@dataclass(frozen=True, slots=True)
class ConditionalPoisson:
    """Exactly `keep` rows per head: Poisson samples are drawn until one has that many (rejective sampling).

    Of all designs of this size with these inclusion probabilities it has the largest entropy, which is what the
    fixed-size variance estimator assumes; rows are negatively associated, so pi_ij <= pi_i pi_j. Sources: Hájek (1964);
    Chen, Dempster and Liu (1994), "Weighted finite population sampling to maximize entropy"; Tillé, Sampling
    Algorithms (2006), chapter 5. The draws use working probabilities, solved for so that the *inclusion* probabilities
    are the wanted ones; what is stored is what was solved for, exact to about 1e-10.

    The reference among the designs, not the fast one: about sqrt(2 pi sum pi (1 - pi)) tries and some passes over
    (frequencies x rows) per head, in numpy. floor: see `fewer.evict.inclusion.inclusion`.
    """

    floor: float = FLOOR

    def __post_init__(self) -> None:
        check_floor(self.floor)

    @property
    def name(self) -> str:
        """Its name on the command line and on receipts."""
        return "conditional-poisson"

    @property
    def variance(self) -> Literal["poisson", "fixed_size"]:
        """As many rows as were asked for."""
        return "fixed_size"

    def draw(self, score: Tensor, keep: Tensor, generator: torch.Generator) -> Sample:
        """Draw. As in `fewer.types.KnownDesign`; raises BadInput also where keep leaves nothing for the tail."""
        pi = find_target(score, keep, self.floor)
        stays = pi >= 1.0
        for head, seed in enumerate(draw_seeds(pi.shape[0], generator)):
            tail = ((pi[head] > 0.0) & ~stays[head]).nonzero()[:, 0]
            if not tail.numel():
                continue
            target = pi[head, tail]
            m = round(float(target.sum()))
            working, found = find_working(target.numpy(), m)
            stays[head, tail] = _reject(torch.from_numpy(working), m, torch.Generator().manual_seed(seed))
            pi[head, tail] = torch.from_numpy(found)
        return as_sample(stays, pi, score.device)

    def describe(self) -> Mapping[str, str | int | float | None]:
        """The settings, for the receipt."""
        return {"floor": self.floor}


def _reject(p: Tensor, m: int, generator: torch.Generator) -> Tensor:
    """The first Poisson sample with m rows: [n] bool. m is the likeliest count, so one comes soon."""
    while True:
        tries = torch.rand(_AT_ONCE, p.numel(), generator=generator, dtype=torch.float64) < p
        right = (tries.sum(1) == m).nonzero()
        if right.numel():
            return tries[right[0, 0]]
