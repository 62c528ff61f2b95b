"""What a choice did to the score it was made by: how much of it left, and how near the boundary the rows lie.

Two of the signals of Xie (2026, appendix B), at the moment of eviction. Neither says anything about the error: a
deterministic choice leaves nothing behind by which that could be seen (the paper's Theorem 1).
"""

from __future__ import annotations

import torch
from torch import Tensor

from fewer.types import Selection

__all__ = ["measure_boundary"]


def measure_boundary(score: Tensor, selection: Selection) -> tuple[Tensor, Tensor]:
    """The evicted mass and the keep-boundary margin of every key-value head: two [kv_heads] float32.

    score: [kv_heads, n] of at least 0; inf was certain to stay and -inf certain to go, and both are left out of it.
    Mass: of the other rows' score, the share on those that left, 0 to 1; 0 where all of them score 0. Margin: the least
    score that stayed minus the largest that left, in (population) standard deviations of the score; NaN where none
    stayed or none left, 0 where all are equal. A choice by chance has mostly negative margins.
    """
    index = selection.idx.to(score.device)  # padding repeats a row that stayed
    least = score.gather(1, index).amin(1).double()  # inf where none of them could have left
    rest = score.scatter(1, index, -torch.inf)
    largest = rest.amax(1).double()  # -inf where none left
    certain = torch.isinf(score)
    numbers = score.masked_fill(certain, 0.0).double()
    total, count = numbers.sum(1), score.shape[1] - certain.sum(1)
    gone = rest.clamp(min=0.0).sum(1, dtype=torch.float64)
    mass = torch.where(total > 0, gone / total, 0.0)
    count = count.clamp(min=1)
    away = (numbers - (total / count)[:, None]).masked_fill_(certain, 0.0)
    deviation = (away.square().sum(1) / count).sqrt()
    difference = least - largest
    margin = torch.where(difference == 0, 0.0, difference / deviation)
    return mass.float(), margin.masked_fill(~difference.isfinite(), torch.nan).float()
