"""What a sequence remembers: one `LayerKV` per layer inside a `State`.

Two rules hold everywhere. A key carries the absolute position of its token and is never renumbered. A key may carry
a log-weight that is added to its logit: 0 is plug-in, `-log(pi)` is Hájek, `-inf` is padding. Beside it lies how likely
the row was to be still there, where that is known.

Bytes are those of the storages really held. Not covered: paging, sharing of storages between sequences.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from fewer.aux_cache import AuxCache
from fewer.query_log import QueryLog

__all__ = ["LayerKV", "State"]

_GROW = 256  # rows added when a buffer is full and rows come one by one


class LayerKV:
    """Keys and values of one layer, in one preallocated buffer `[2, kv_heads, capacity, d]`.

    `pos` and `log_w` have a leading axis of 1 where every head keeps the same rows, of kv_heads after a selection per
    head. `log_w` is None as long as every weight is 0. `contiguous` says that row j holds position j, for every head.
    `pi` is None as long as nobody drew by chance, and 1 for rows that came after the last draw.
    """

    __slots__ = ("_blocks", "_column", "_gathered", "_log_w", "_pi", "buffer", "contiguous", "headroom", "num_rows")

    def __init__(self, headroom: int = 0) -> None:
        self.buffer: Tensor | None = None  # [2, kv_heads, capacity, d]
        self.num_rows = 0
        self.headroom = headroom
        self.contiguous = True
        self._log_w: Tensor | None = None  # [1 | kv_heads, s], of the first s rows; later ones weigh 0
        self._pi: Tensor | None = None  # [kv_heads, s] float32; later rows are certain
        self._gathered: Tensor | None = None  # [kv_heads, s] float32; later rows have gathered nothing
        self._column: Tensor | None = None
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

    @property
    def log_w(self) -> Tensor | None:  # [1 | kv_heads, n]
        """The log-weight of every key, or None where all are 0."""
        return _fill(self._log_w, self.num_rows, 0.0)

    @property
    def pi(self) -> Tensor | None:  # [kv_heads, n] float32
        """How likely each row was to be still there, or None where that is not known or all are certain."""
        return _fill(self._pi, self.num_rows, 1.0)

    @property
    def gathered(self) -> Tensor | None:  # [kv_heads, n] float32
        """What a score keeps from one selection to the next."""
        return _fill(self._gathered, self.num_rows, 0.0)

    def gather(self, score: Tensor) -> None:
        """Keep this of every row for the next selection: [kv_heads, n]."""
        self._gathered = score

    @property
    def sampled(self) -> bool:
        """Whether rows left by chance, with known probabilities."""
        return self._pi is not None

    @property
    def weighted(self) -> bool:
        """Whether some key has a log-weight."""
        return self._log_w is not None

    def log_w_column(self, dtype: torch.dtype, group: int) -> Tensor | None:
        """The log-weights of the first rows, laid out as logits of one query are: [1 | kv_heads, s, group]."""
        if self._log_w is not None and (self._column is None or self._column.dtype != dtype):
            self._column = self._log_w.to(dtype)[:, :, None].expand(-1, -1, group).contiguous()
        return self._column

    @property
    def num_padding(self) -> int:
        """Rows that hold nothing, over all heads: heads that kept fewer rows than another are filled up with them."""
        return 0 if self._log_w is None else int(torch.isneginf(self._log_w).sum())

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

    def select(self, index: Tensor, log_w: Tensor | None = None, pi: Tensor | None = None) -> None:
        """Keep the rows of `index` ([m] for every head alike, or [kv_heads, m]), ascending; the rest is freed.

        The headroom stays. `log_w` (the shape of `index`) is added to what the kept rows already carry, `pi`
        ([kv_heads, m]) is multiplied with it. Keeping every row without a weight does nothing.
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
        pos = _take(self.pos.to(index.device), per_head)
        assert pos is not None
        weights = _take(self.log_w, per_head)
        if log_w is not None:
            added = log_w.to(kept.device) if log_w.dim() == 2 else log_w.to(kept.device)[None]
            weights = added if weights is None else weights + added
        known = _take(self.pi, per_head)
        if pi is not None:
            known = pi.to(kept.device) if known is None else known * pi.to(kept.device)
        self._gathered = _take(self.gathered, per_head)
        self.contiguous = self.contiguous and size == self.num_rows
        self.buffer, self.num_rows, self._blocks = kept, size, [pos]
        self._log_w, self._column, self._pi = weights, None, known

    def truncate(self, num_rows: int) -> None:
        """Forget the rows appended after the first `num_rows`."""
        if num_rows == self.num_rows:
            return
        self._blocks = [self.pos[:, :num_rows].clone()] if num_rows else []
        self._log_w, self._pi, self._gathered = (
            None if mark is None else mark[:, :num_rows] for mark in (self._log_w, self._pi, self._gathered)
        )
        self._column = None
        self.num_rows = num_rows
        self.contiguous = self.contiguous or num_rows == 0

    def aside(self) -> LayerKV:
        """A copy over the same rows; what is added to it is never this one's. Not while this one grows."""
        other = copy(self)
        other._blocks = [*self._blocks]
        return other

    def fork(self) -> LayerKV:
        """An independent copy of the rows in use, with the headroom behind them."""
        other = LayerKV(self.headroom)
        other.num_rows, other.contiguous = self.num_rows, self.contiguous
        if self.buffer is not None:
            _, heads, _, dim = self.buffer.shape
            other.buffer = self.buffer.new_empty(2, heads, self.num_rows + self.headroom, dim)
            other.buffer[:, :, : self.num_rows].copy_(self.buffer[:, :, : self.num_rows])
        other._log_w, other._pi, other._gathered = self._log_w, self._pi, self._gathered  # replaced, never written to
        other._blocks = [self.pos.clone()] if self.num_rows else []
        return other

    @property
    def nbytes(self) -> int:
        """Bytes of the keys' and values' storage, free rows included."""
        return 0 if self.buffer is None else self.buffer.untyped_storage().nbytes()

    def reserve(self, rows: int, like: Tensor) -> None:
        """Make room for `rows` rows and the headroom; copies what is there. like: [2, kv_heads, any, d]."""
        one_by_one = self.buffer is not None and rows == self.num_rows + 1
        extra = max(self.headroom, _GROW) if one_by_one else self.headroom
        grown = like.new_empty(2, like.shape[1], rows + extra, like.shape[3])
        if self.buffer is not None:
            grown[:, :, : self.num_rows].copy_(self.buffer[:, :, : self.num_rows])
        self.buffer = grown


def _fill(marks: Tensor | None, num_rows: int, value: float) -> Tensor | None:
    """Marks of the first rows, with `value` for the rows that came later: [1 | kv_heads, num_rows]."""
    return None if marks is None else F.pad(marks, (0, num_rows - marks.shape[1]), value=value)


def _take(marks: Tensor | None, index: Tensor) -> Tensor | None:
    """The marks of the rows that stay. marks: [1 | kv_heads, n]; index: [1 | kv_heads, m]."""
    if marks is None:
        return None
    rows = max(index.shape[0], marks.shape[0])
    return marks.expand(rows, -1).gather(1, index.expand(rows, -1))


@dataclass(slots=True)
class State:
    """One sequence: its layers, and how many tokens it has seen. The next position is `num_seen`, always."""

    layers: list[LayerKV]
    num_seen: int = 0
    aux: AuxCache | None = None  # where tokens that were left out can be brought back
    queries: QueryLog | None = None  # what a score will look with

    @classmethod
    def new(cls, num_layers: int, headroom: int = 0) -> State:
        """An empty sequence; `headroom` rows are reserved behind the first rows that arrive."""
        return cls([LayerKV(headroom) for _ in range(num_layers)])

    def fork(self) -> State:
        """An independent copy."""
        aux = None if self.aux is None else self.aux.fork()
        queries = None if self.queries is None else self.queries.fork()
        return State([layer.fork() for layer in self.layers], self.num_seen, aux, queries)

    def clear(self) -> None:
        """Give the memory back; nothing can be run on it any more."""
        self.layers.clear()
        self.aux = self.queries = None

    @property
    def nbytes(self) -> int:
        """Bytes of all layers' storages; `aux.nbytes` is counted apart."""
        return sum(layer.nbytes for layer in self.layers)
