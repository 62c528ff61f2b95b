"""The rows that chance could have taken, of several layers, laid out for one product: the others add nothing to Vhat.

A row with pi = 1 has c = 0. The values of the rows with pi < 1 are copied once, when the cache has been compressed,
less a centre, in the type in which they are stored; all layers and heads one after the other, in blocks of `BLOCK` rows
that belong to one key-value head. The heads of a layer have as many blocks as the one with the most sampled rows; what
is filled up is the head's last sampled row again, with 1 - pi = 0.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["BLOCK", "Tail"]

BLOCK = 128  # rows


@dataclass(frozen=True, slots=True)
class Tail:
    """What does not change between steps, of S layers; N blocks in all."""

    index: tuple[Tensor, ...]  # of each layer, [kv_heads, t] int64: the rows, ascending, t a multiple of BLOCK
    values: Tensor  # [N, BLOCK, d] in the model's type, less the centre
    squares: Tensor  # [N * BLOCK] float32, of `values`: their squared norms
    evicts: Tensor  # [N * BLOCK] float32, 1 - pi
    heads: Tensor  # [N] int64: to which head of which layer a block belongs, layer * kv_heads + head
    centre: Tensor  # [S, kv_heads, 1, d] float32, a mean of the values

    @classmethod
    def of(cls, layers: Iterable[tuple[Tensor, Tensor]]) -> Tail:
        """layers: (pi [kv_heads, n], values [kv_heads, n, d]) of each, at least one; one layer in float32 at a time."""
        index, values, squares, evicts, centres, counts = [], [], [], [], [], []
        for pi, stored in layers:
            exact = stored.float()
            centre = exact.mean(1, keepdim=True)
            rows, chance = _find_rows(pi.to(stored.device))
            moved = exact.gather(1, rows[..., None].expand(-1, -1, exact.shape[2])) - centre
            index.append(rows)
            values.append(moved.to(stored.dtype).reshape(-1, BLOCK, exact.shape[2]))
            squares.append(values[-1].float().square().sum(-1).flatten())
            evicts.append(chance.flatten())
            centres.append(centre)
            counts += [rows.shape[1] // BLOCK] * rows.shape[0]
        heads = torch.arange(len(counts)).repeat_interleave(torch.tensor(counts)).to(centres[0].device)
        joined = torch.cat(values), torch.cat(squares), torch.cat(evicts)
        return cls(tuple(index), *joined, heads, torch.stack(centres))

    def at(self, first: int, last: int) -> Tail:
        """Of these layers, the last one included."""
        kv_heads = self.centre.shape[1]
        sizes = [rows.numel() // BLOCK for rows in self.index]
        start, stop = sum(sizes[:first]), sum(sizes[: last + 1])
        rows = slice(start * BLOCK, stop * BLOCK)
        heads = self.heads[start:stop] - first * kv_heads
        some = slice(first, last + 1)
        return Tail(
            self.index[some], self.values[start:stop], self.squares[rows], self.evicts[rows], heads, self.centre[some]
        )

    @property
    def nbytes(self) -> int:
        """Bytes of it all."""
        return sum(one.nbytes for one in (*self.index, self.values, self.squares, self.evicts, self.heads, self.centre))


def _find_rows(pi: Tensor) -> tuple[Tensor, Tensor]:
    """(the rows with pi < 1 [kv_heads, t], 1 - pi [kv_heads, t] float32), filled up to whole blocks."""
    sampled = pi < 1
    count = sampled.sum(1, keepdim=True)
    size = -(-int(count.max()) // BLOCK) * BLOCK
    slot = torch.arange(size, device=pi.device).expand(len(pi), -1)
    order = sampled.byte().sort(dim=1, descending=True, stable=True).indices  # those first, ascending
    rows = order.gather(1, torch.minimum(slot, (count - 1).clamp(min=0)))
    return rows, torch.where(slot < count, 1 - pi.float().gather(1, rows), 0.0)
