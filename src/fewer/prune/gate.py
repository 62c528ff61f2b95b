"""LazyLLM's gate: the highest scores up to a budget, and of what was left out earlier only so much at once.

A decode step asks it after every stop and has a few tens of milliseconds for everything. It takes few operations, and
takes them in numpy, on the CPU: over a few thousand numbers each costs a third of what it does in torch, and scores on
another device come over once. Not covered: choosing whole chunks, and budgets that depend on the scores.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Flags", "Scores", "choose_best", "highest", "hold_back"]

Scores = NDArray[np.floating[Any]]
Flags = NDArray[np.bool_]


def highest(score: Scores, count: int) -> Flags:
    """[n] bool: the `count` highest of the scores [n] that are above -inf; of equal ones the earlier."""
    size = score.size
    if count <= 0:
        return np.zeros(size, dtype=np.bool_)
    if count >= size:
        return score > -np.inf
    threshold = np.partition(score, size - count)[size - count]
    if threshold == -np.inf:
        return score > -np.inf
    reached: Flags = score >= threshold
    if np.count_nonzero(reached) == count:
        return reached
    above: Flags = score > threshold
    ties = np.flatnonzero(score == threshold)
    above[ties[: count - np.count_nonzero(above)]] = True
    return above


def choose_best(score: Scores, budget: int, protected: Flags, num_protected: int, lost: Flags | None) -> Flags:
    """[n] bool: the protected tokens and the best of the others, up to the budget; at least one token.

    protected: [n] bool, so many of them true; lost: [n] bool, those that may not go on whatever their score.
    """
    room = max(0, budget - num_protected, 0 if num_protected else 1)
    score = score.copy()
    score[protected if lost is None else protected | lost] = -np.inf
    return protected | highest(score, room)


def hold_back(kept: Flags, ready: Flags, score: Scores, floor: float, most: int | None) -> Flags:
    """`kept` without what may not come back now, all [n].

    Of what is not `ready` only scores of at least `floor` times the mean come back, and the best `most` of them.
    """
    wanted = np.flatnonzero(kept & ~ready)
    if wanted.size == 0:
        return kept
    found = score[wanted]
    mean = np.add.reduce(score) / score.size  # what score.mean() is, without its wrapper
    back = found >= floor * mean if floor > 0 else np.ones(wanted.size, dtype=np.bool_)
    if most is not None and np.count_nonzero(back) > most:
        back &= highest(np.where(back, found, -np.inf), most)
    kept = kept.copy()
    kept[wanted[~back]] = False
    return kept
