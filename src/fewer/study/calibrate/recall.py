"""How well a score points at what an answer needs: recall of the answer's tokens among the top few unprotected ones.

Balanced: the mean over the prompts of a task, then over tasks. A random ranking gets each fraction's own size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from fewer.study.calibrate.capture import Seen

__all__ = ["FRACTIONS", "balance", "balanced_recall", "random_recall", "recall", "spread", "weigh"]

FRACTIONS = (0.05, 0.1, 0.2, 0.3)
"""Of the unprotected tokens; recall is the mean over these."""


def spread(score: Tensor, seen: Seen, before: int, after: int) -> Tensor:
    """Sums over the window of `Profile.spread`, at the unprotected tokens: [..., n] to [..., n] float64."""
    total = torch.zeros(*score.shape[:-1], seen.size + 1, dtype=torch.float64)
    total[..., seen.free + 1] = score.double()
    total = total.cumsum(-1)
    stop = (seen.free + before + 1).clamp_max(seen.size)
    return total[..., stop] - total[..., (seen.free - after).clamp_min(0)]


def recall(score: Tensor, answer: Tensor) -> Tensor:
    """[..., n] to [..., fractions] float64: the share of `answer` among the highest; of equal scores the earlier."""
    hits = answer[torch.sort(score, dim=-1, descending=True, stable=True).indices].double().cumsum(-1)
    return hits[..., [count - 1 for count in _counts(answer.numel())]] / answer.sum()


def random_recall(prompts: Sequence[Seen]) -> float:
    """What a random ranking gets, on average."""
    return balanced_recall(prompts, lambda seen: _expected(seen.free.numel())[None]).mean().item()


def balanced_recall(prompts: Sequence[Seen], measure: Callable[[Seen], Tensor]) -> Tensor:
    """The balanced mean of what `measure` finds on each prompt, of the same shape throughout."""
    return balance(torch.stack([measure(seen) for seen in prompts]), prompts)


def balance(values: Tensor, prompts: Sequence[Seen]) -> Tensor:
    """[prompts, ...] to [...]: the mean over tasks of the mean over a task's prompts."""
    mean: Tensor = torch.tensordot(weigh(prompts), values.double(), dims=1)
    return mean


def weigh(prompts: Sequence[Seen]) -> Tensor:
    """[prompts] float64, with the sum 1: the same for every task, and within a task for every prompt."""
    tasks = [seen.task for seen in prompts]
    return torch.tensor([1 / (len(set(tasks)) * tasks.count(task)) for task in tasks], dtype=torch.float64)


def _counts(size: int) -> list[int]:
    return [max(1, round(fraction * size)) for fraction in FRACTIONS]


def _expected(size: int) -> Tensor:
    return torch.tensor(_counts(size), dtype=torch.float64) / size
