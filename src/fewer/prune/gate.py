"""LazyLLM's gate: the highest scores up to a budget, and of what was left out earlier only so much at once.

A decode step asks it after every stop and has a few tens of milliseconds for everything, so it takes few operations.
Not covered: choosing whole chunks, and budgets that depend on the scores.
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["choose_best", "highest", "hold_back"]

_NEVER = float("-inf")


def highest(score: Tensor, count: int) -> Tensor:
    """[n] bool: the `count` highest of the scores [n] that are above -inf; of equal ones the earlier."""
    size = score.numel()
    if count <= 0:
        return torch.zeros(size, dtype=torch.bool, device=score.device)
    if count >= size:
        return score > _NEVER
    threshold = score.kthvalue(size - count + 1).values
    if float(threshold) == _NEVER:
        return score > _NEVER
    reached = score >= threshold
    if int(reached.count_nonzero()) == count:
        return reached
    above = score > threshold
    ties = (score == threshold).nonzero().flatten()
    above[ties[: count - int(above.count_nonzero())]] = True
    return above


def choose_best(score: Tensor, budget: int, protected: Tensor, num_protected: int, lost: Tensor | None) -> Tensor:
    """[n] bool: the protected tokens and the best of the others, up to the budget; at least one token.

    protected: [n] bool, so many of them true; lost: [n] bool, those that may not go on whatever their score.
    """
    room = max(0, budget - num_protected, 0 if num_protected else 1)
    score = score.masked_fill(protected if lost is None else protected | lost, _NEVER)
    return protected | highest(score, room)


def hold_back(kept: Tensor, ready: Tensor, score: Tensor, floor: float, most: int | None) -> Tensor:
    """`kept` without what may not come back now, all [n].

    Of what is not `ready` only scores of at least `floor` times the mean come back, and the best `most` of them.
    """
    back = kept & ~ready
    if floor > 0:
        back &= score >= floor * score.mean()
    if most is not None and int(back.count_nonzero()) > most:
        back = highest(score.masked_fill(~back, _NEVER), most)
    return (kept & ready) | back
