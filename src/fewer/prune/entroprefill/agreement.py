"""How far the observers of a head agree, and how far its mean row is from the pooled measure. Nothing is decided by it.

The entropy that weighs a head (3) is of its averaged row. Beside it stands the mean of the single rows' entropies: the
two are equal where all observers look alike, and W observers that look at different tokens make the first larger, by
ln W where they share none.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fewer.prune.entroprefill.collision import row_collision
from fewer.prune.entroprefill.envelope import chi_square

__all__ = ["Agreement", "compare_rows"]

_BLOCK = 4096  # tokens that are widened to float64 at once


@dataclass(frozen=True, slots=True, eq=False)
class Agreement:
    """Of each head of a layer, float64 [H]."""

    row_entropy: Tensor  # nats: the mean over the observers of their own rows' H2, off the sinks; NaN as with (3)
    chi_square: Tensor  # D(a || mu) of (11), a the head's mean over the observers


def compare_rows(rows: Tensor, sinks: Tensor, mu: Tensor) -> Agreement:
    """From attention rows [H, W, n], sinks [n] bool and the pooled measure [n], all finite."""
    places = torch.split((~sinks).nonzero().flatten(), _BLOCK)
    logs = (rows[..., some].to(torch.float64).log() for some in places)
    entropy = -row_collision(logs).log().clamp(max=0.0) + 0.0
    return Agreement(entropy.mean(-1), chi_square(rows.mean(1, dtype=torch.float64), mu))
