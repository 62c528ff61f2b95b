"""Halves of the prompts, one to choose on and one to report from, and what heads get on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fewer.study.calibrate.capture import Seen
from fewer.study.calibrate.recall import balanced_recall, recall, spread, weigh

__all__ = ["Half", "Where", "halve"]

Where = tuple[int, int]
"""A head: its layer, from 1, and its number, from 0."""


@dataclass(frozen=True)
class Half:
    """One half of the prompts, and a window to look through."""

    prompts: tuple[Seen, ...]
    before: int = 0
    after: int = 0

    def singles(self, layers: Sequence[int]) -> Tensor:
        """Recall of every head of these layers by itself: [layers, heads]."""
        index = torch.tensor(layers) - 1
        return self._measure(lambda seen: seen.shares[index]).mean(-1)

    def together(self, heads: Sequence[Where], more: Sequence[Where]) -> Tensor:
        """Recall of the heads with each one of `more`: [more, fractions]."""
        return self._measure(lambda seen: _of(seen, heads).sum(0) + _of(seen, more))

    def of(self, heads: Sequence[Where]) -> Tensor:
        """Recall of the heads together: [fractions]."""
        return self._measure(lambda seen: _of(seen, heads).sum(0))

    def gain(self, heads: Sequence[Where], others: Sequence[Where]) -> tuple[float, float]:
        """What `others` together have above `heads` together, with its standard error over prompts."""
        with_heads, with_others = (
            torch.stack([self._look(seen, _of(seen, each).sum(0)).mean() for seen in self.prompts])
            for each in (heads, others)
        )
        gains, weights = with_others - with_heads, weigh(self.prompts)
        mean = gains @ weights
        return float(mean), float(((gains - mean) * weights).square().sum().sqrt())

    def by_place(self, head: Where, others: Half) -> float:
        """Recall of the head's rankings of the same task's prompts among `others`, stretched to each prompt here."""

        def measure(seen: Seen) -> Tensor:
            places = torch.arange(seen.free.numel())
            found = []
            for other in others.prompts:
                if other.task == seen.task:
                    score = spread(_of(other, [head])[0], other, self.before, self.after)
                    found.append(recall(score[places * score.numel() // places.numel()], seen.answer))
            return torch.stack(found).mean(0)

        return float(balanced_recall(self.prompts, measure).mean())

    def paper(self, layer: int) -> Tensor:
        """Recall of the paper's score after this layer, without a window: [fractions]."""
        return balanced_recall(self.prompts, lambda seen: recall(seen.newest[layer - 1], seen.answer))

    def _measure(self, score: Callable[[Seen], Tensor]) -> Tensor:
        return balanced_recall(self.prompts, lambda seen: self._look(seen, score(seen)))

    def _look(self, seen: Seen, score: Tensor) -> Tensor:
        return recall(spread(score, seen, self.before, self.after), seen.answer)


def halve(prompts: Sequence[Seen]) -> tuple[tuple[Seen, ...], tuple[Seen, ...]]:
    """Each task's prompts, dealt alternately."""
    dealt: tuple[list[Seen], list[Seen]] = ([], [])
    turn: dict[str, int] = {}
    for seen in prompts:
        dealt[turn.setdefault(seen.task, 0) % 2].append(seen)
        turn[seen.task] += 1
    return tuple(dealt[0]), tuple(dealt[1])


def _of(seen: Seen, heads: Sequence[Where]) -> Tensor:
    """[heads, n]."""
    return seen.shares[[layer - 1 for layer, _ in heads], [head for _, head in heads]]
