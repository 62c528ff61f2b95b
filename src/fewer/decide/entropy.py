"""How evenly attention lies over the rows that are left, in the pass that attends: `fewer.types.Meter`."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = ["EntropyMeter", "measure_entropy"]

_MOST = 1 << 20  # weights that are kept before they are summed: 4 MiB


def measure_entropy(weights: Tensor) -> Tensor:
    """Entropy over the log of the number of rows, [..., n] to [...]: 1 is even, 0 is all on one row.

    weights: of at least 0, each row sums to 1. Rows with a weight of exactly 0 are none of the number: padding, keys
    that the query may not see, and those so unlikely that the softmax gave them nothing. Over a single row it is 0. Xie
    (2026, appendix B).
    """
    logs = weights.clamp(min=torch.finfo(weights.dtype).tiny).log_()
    entropy = -logs.mul_(weights).sum(-1)
    count = weights.count_nonzero(-1).to(weights.dtype)
    return torch.where(count > 1, entropy / count.clamp(min=2).log(), 0.0).clamp(min=0.0, max=1.0)


class EntropyMeter:
    """Measures passes over one sequence's cache; a pass that starts again forgets the unfinished one before it."""

    def __init__(self) -> None:
        self._found: dict[int, list[Tensor]] = {}
        self._pending: dict[int, Tensor] = {}  # of layers whose pass is one row: summed together, in one go

    def see(self, index: int, first: int, weights: Tensor) -> None:
        """As in `fewer.types.Meter`."""
        if first == 0 and (index in self._found or index in self._pending):
            self._found, self._pending = {}, {}
        if weights.shape[1] > 1 or first:
            self._found.setdefault(index, []).append(measure_entropy(weights))
            return
        self._pending[index] = weights
        if len(self._pending) * weights.numel() > _MOST:
            self._sum()

    def finish(self) -> Tensor | None:
        """Of the pass that has been seen, which is then forgotten: [L, heads, rows] float32, or None if there was none.

        A layer that was not seen is not among the L.
        """
        self._sum()
        if not self._found:
            return None
        layers = [torch.cat(self._found[index], dim=1) for index in sorted(self._found)]
        self._found = {}
        return torch.stack(layers).float()

    def _sum(self) -> None:
        """Of all pending layers; shorter ones are filled up with weights of 0, which count for nothing."""
        if not self._pending:
            return
        width = max(weights.shape[2] for weights in self._pending.values())
        joined = torch.stack([F.pad(weights, (0, width - weights.shape[2])) for weights in self._pending.values()])
        for index, entropy in zip(self._pending, measure_entropy(joined), strict=True):
            self._found[index] = [entropy]
        self._pending = {}
