"""Queries that a sequence sets aside, so that a score can look with them when its cache is compressed.

Kept are the rotated queries of a few rows for each layer, as the layer computed them, never attention itself. Not
covered: queries of rows that a planner left out before that layer; they did not exist there.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from fewer.types import Needs

__all__ = ["QueryLog"]


@dataclass(slots=True)
class _Kept:
    """Of one layer: blocks of queries [heads, r, d] and their positions [r], and how the layer attends."""

    q: list[Tensor] = field(default_factory=list)
    pos: list[Tensor] = field(default_factory=list)
    num_rows: int = 0
    stop: int = 0  # one past the newest position of the passes so far
    scaling: float = 1.0
    window: int | None = None


class QueryLog:
    """What `needs` asks for, of every layer."""

    def __init__(self, needs: Needs, num_layers: int) -> None:
        self.needs = needs
        self.open = True  # whether passes still add to it
        self._layers = [_Kept() for _ in range(num_layers)]

    def record(
        self, index: int, q: Tensor, pos: Tensor, start: int, stop: int, scaling: float, window: int | None
    ) -> None:
        """Take what is needed of a pass over the positions from `start` up to `stop`.

        index: the layer, from 0; q: [heads, r, d] of the rows that came that far, at positions pos [r], ascending. What
        was recorded from `start` on belongs to a pass that failed, and is forgotten.
        """
        kept = self._layers[index]
        kept.scaling, kept.window = scaling, window
        if not self.open or self.needs.observers in ("none", "repeat"):
            return
        if kept.stop > start:
            self._cut(kept, start)
        kept.stop = stop
        rows = self._choose(pos)
        kept.q.append(q[:, rows])
        kept.pos.append(pos[rows])
        kept.num_rows += kept.pos[-1].numel()
        if kept.num_rows > 2 * self._most:
            self._thin(kept)

    def at(self, index: int) -> tuple[Tensor, Tensor]:
        """Queries [heads, m, d] and positions [m] of a layer, at most as many as are needed. Without any, m is 0."""
        kept = self._layers[index]
        if not kept.q:
            return torch.empty(1, 0, 1), torch.empty(0, dtype=torch.int64)
        self._thin(kept)
        return kept.q[0], kept.pos[0]

    def attends(self, index: int) -> tuple[float, int | None]:
        """By what the layer scales its logits, and its sliding window."""
        return self._layers[index].scaling, self._layers[index].window

    def compressed(self) -> None:
        """The cache was compressed: what is spread over everything since then starts anew."""
        if self.needs.observers == "strided":
            for kept in self._layers:
                kept.q, kept.pos, kept.num_rows = [], [], 0

    def truncate(self, num_seen: int) -> None:
        """Forget the queries of tokens from this position on."""
        for kept in self._layers:
            self._cut(kept, num_seen)

    def fork(self) -> QueryLog:
        """An independent copy; the queries themselves are shared, they are never written to."""
        copy = QueryLog(self.needs, len(self._layers))
        copy.open = self.open
        copy._layers = [replace(k, q=[*k.q], pos=[*k.pos]) for k in self._layers]
        return copy

    @property
    def nbytes(self) -> int:
        """Bytes of the queries."""
        return sum(block.nbytes for kept in self._layers for block in kept.q)

    @property
    def _most(self) -> int:
        return 1 if self.needs.observers == "last" else max(1, self.needs.count)

    def _choose(self, pos: Tensor) -> Tensor | slice:
        """Which rows of a pass to take, before the whole is cut to size."""
        size = pos.numel()
        if self.needs.observers == "strided" and size > self._most:
            return _spread(size, self._most, pos.device)
        return slice(max(0, size - self._most), None)

    def _thin(self, kept: _Kept) -> None:
        """Join the blocks and keep as many rows as are needed."""
        q, pos = (kept.q[0], kept.pos[0]) if len(kept.q) == 1 else (torch.cat(kept.q, 1), torch.cat(kept.pos))
        size = pos.numel()
        if size > self._most:
            rows: Tensor | slice = slice(size - self._most, None)
            if self.needs.observers == "strided":
                rows = _spread(size, self._most, pos.device)
            q, pos = q[:, rows], pos[rows]
        kept.q, kept.pos, kept.num_rows = [q], [pos], pos.numel()

    def _cut(self, kept: _Kept, stop: int) -> None:
        """Forget rows at or behind a position."""
        while kept.pos and int(kept.pos[-1][-1]) >= stop:
            keep = int(torch.searchsorted(kept.pos[-1], stop))
            if keep:
                kept.q[-1], kept.pos[-1] = kept.q[-1][:, :keep], kept.pos[-1][:keep]
            else:
                kept.q.pop()
                kept.pos.pop()
        kept.num_rows, kept.stop = sum(pos.numel() for pos in kept.pos), min(kept.stop, stop)


def _spread(size: int, count: int, device: torch.device) -> Tensor:
    """`count` of `size` rows, evenly, the last among them."""
    return (torch.arange(1, count + 1, device=device) * size) // count - 1
