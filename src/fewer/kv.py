"""What a sequence remembers: one `LayerKV` per layer inside a `State`.

Two rules hold everywhere. A key carries the absolute position of its token and is never renumbered. A key may carry
a log-weight that is added to its logit: 0 is plug-in, `-log(pi)` is Hájek, `-inf` is padding.

Bytes are those of the storages really held. Not covered: paging, sharing of storages between sequences.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fewer.aux_cache import AuxCache

__all__ = ["LayerKV", "State"]

_GROW = 256  # rows added when a buffer is full


class LayerKV:
    """Keys and values of one layer, in one preallocated buffer `[2, kv_heads, capacity, d]`.

    `pos` and `log_w` have a leading axis of 1 where every head keeps the same rows, of kv_heads after a selection per
    head. `log_w` is None as long as every weight is 0. `contiguous` says that row j holds position j, for every head.
    """

    __slots__ = ("_blocks", "buffer", "contiguous", "headroom", "log_w", "num_rows")

    def __init__(self, headroom: int = 0) -> None:
        self.buffer: Tensor | None = None  # [2, kv_heads, capacity, d]
        self.num_rows = 0
        self.headroom = headroom
        self.log_w: Tensor | None = None  # [1 | kv_heads, n]
        self.contiguous = True
        self._blocks: list[Tensor] = []  # positions, [1 | kv_heads, m] each, joined when asked for

    @property
    def k(self) -> Tensor:  # [kv_heads, n, d]
        """The keys, a view."""
        assert self.buffer is not None
        return self.buffer[0, :, : self.num_rows]

    @property
    def v(self) -> Tensor:  # [kv_heads, n, d]
        """The values, a view."""
        assert self.buffer is not None
        return self.buffer[1, :, : self.num_rows]

    @property
    def pos(self) -> Tensor:  # [1 | kv_heads, n] int64
        """The absolute position of every key."""
        if not self._blocks:
            return torch.zeros(1, 0, dtype=torch.int64)
        if len(self._blocks) > 1:
            heads = max(block.shape[0] for block in self._blocks)
            self._blocks = [torch.cat([block.expand(heads, -1) for block in self._blocks], dim=1)]
        return self._blocks[0]

    def append(self, kv: Tensor, pos: Tensor, first: int | None) -> None:
        """Add rows at the end. kv: [2, kv_heads, r, d]; pos: [r]; `first`: their first position if consecutive."""
        rows = kv.shape[2]
        stop = self.num_rows + rows
        if self.buffer is None or stop > self.buffer.shape[2]:
            self.reserve(stop, kv)
        assert self.buffer is not None
        self.buffer[:, :, self.num_rows : stop].copy_(kv)
        contiguous = self.contiguous and first == self.num_rows
        self.num_rows = stop  # before the rest, so that an interrupt in between is cut back with the rows
        self.contiguous = contiguous
        self._blocks.append(pos[None])
        if self.log_w is not None:
            self.log_w = torch.cat([self.log_w, self.log_w.new_zeros(self.log_w.shape[0], rows)], dim=1)

    def select(self, index: Tensor, log_w: Tensor | None = None) -> None:
        """Keep the rows of `index` ([m] for every head alike, or [kv_heads, m]), ascending; the rest is freed.

        The headroom stays. `log_w` (the shape of `index`) is added to what the kept rows already carry. Keeping every
        row without a weight does nothing.
        """
        assert self.buffer is not None
        index = index.to(self.buffer.device)
        per_head = index if index.dim() == 2 else index[None]
        if log_w is None and per_head.shape[1] == self.num_rows:
            return
        heads, dim, size = self.buffer.shape[1], self.buffer.shape[3], per_head.shape[1]
        gather = per_head.expand(heads, -1)[None, :, :, None].expand(2, -1, -1, dim)
        kept = self.buffer.new_empty(2, heads, size + self.headroom, dim)
        torch.gather(self.buffer[:, :, : self.num_rows], 2, gather, out=kept[:, :, :size])
        pos = self.pos
        rows = max(per_head.shape[0], pos.shape[0])
        pos = pos.to(index.device).expand(rows, -1).gather(1, per_head.expand(rows, -1))
        weights = self.log_w
        if weights is not None:
            rows = max(per_head.shape[0], weights.shape[0])
            weights = weights.expand(rows, -1).gather(1, per_head.expand(rows, -1))
        if log_w is not None:
            added = log_w.to(kept.device) if log_w.dim() == 2 else log_w.to(kept.device)[None]
            weights = added if weights is None else weights + added
        self.contiguous = self.contiguous and size == self.num_rows
        self.buffer, self.num_rows, self._blocks, self.log_w = kept, size, [pos], weights

    def truncate(self, num_rows: int) -> None:
        """Forget the rows appended after the first `num_rows`."""
        if num_rows == self.num_rows:
            return
        self._blocks = [self.pos[:, :num_rows].clone()] if num_rows else []
        self.log_w = self.log_w[:, :num_rows] if self.log_w is not None else None
        self.num_rows = num_rows
        self.contiguous = self.contiguous or num_rows == 0

    def fork(self) -> LayerKV:
        """An independent copy of the rows in use, with the headroom behind them."""
        copy = LayerKV(self.headroom)
        copy.num_rows, copy.contiguous = self.num_rows, self.contiguous
        if self.buffer is not None:
            _, heads, _, dim = self.buffer.shape
            copy.buffer = self.buffer.new_empty(2, heads, self.num_rows + self.headroom, dim)
            copy.buffer[:, :, : self.num_rows].copy_(self.buffer[:, :, : self.num_rows])
        copy.log_w = None if self.log_w is None else self.log_w.clone()
        copy._blocks = [self.pos.clone()] if self.num_rows else []
        return copy

    @property
    def nbytes(self) -> int:
        """Bytes of the keys' and values' storage, free rows included."""
        return 0 if self.buffer is None else self.buffer.untyped_storage().nbytes()

    def reserve(self, rows: int, like: Tensor) -> None:
        """Make room for `rows` rows and the headroom; copies what is there. like: [2, kv_heads, any, d]."""
        extra = self.headroom if self.buffer is None else max(self.headroom, _GROW)
        grown = like.new_empty(2, like.shape[1], rows + extra, like.shape[3])
        if self.buffer is not None:
            grown[:, :, : self.num_rows].copy_(self.buffer[:, :, : self.num_rows])
        self.buffer = grown


@dataclass(slots=True)
class State:
    """One sequence: its layers, and how many tokens it has seen. The next position is `num_seen`, always."""

    layers: list[LayerKV]
    num_seen: int = 0
    aux: AuxCache | None = None  # where tokens that were left out can be brought back

    @classmethod
    def new(cls, num_layers: int, headroom: int = 0) -> State:
        """An empty sequence; `headroom` rows are reserved behind the first rows that arrive."""
        return cls([LayerKV(headroom) for _ in range(num_layers)])

    def fork(self) -> State:
        """An independent copy."""
        aux = None if self.aux is None else self.aux.fork()
        return State([layer.fork() for layer in self.layers], self.num_seen, aux)

    def clear(self) -> None:
        """Give the memory back; nothing can be run on it any more."""
        self.layers.clear()
        self.aux = None

    @property
    def nbytes(self) -> int:
        """Bytes of all layers' storages; `aux.nbytes` is counted apart."""
        return sum(layer.nbytes for layer in self.layers)
