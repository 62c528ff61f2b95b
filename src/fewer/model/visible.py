"""Which stored rows a query may see, as something to add to its logits.

`bias_by_position` is the rule itself, for one layer. `Visible` is for passes in which prompt tokens come and go: all
layers between two stops hold the same rows in the same order, so it is worked out once for all of them. Not covered by
`Visible`: rows kept per head.
"""

from __future__ import annotations

import torch
from torch import Tensor

from fewer.kv import LayerKV

__all__ = ["Visible", "bias_by_position"]

_FEW = 128


class Visible:
    """keys: [n] positions of the stored rows, those of the pass included; shown: [n] bool; rows: [r] positions.

    A row sees a key that is shown and not behind it. newest: it is one row, and no key is behind it. everything: the
    rows are the newest and all keys are shown, so that nothing needs to be added.
    """

    __slots__ = ("_base", "_biases", "_columns", "_place", "everything", "keys", "newest", "rows", "shown")

    def __init__(self, keys: Tensor, shown: Tensor, rows: Tensor, newest: bool, everything: bool) -> None:
        self.keys, self.shown, self.rows, self.newest, self.everything = keys, shown, rows, newest, everything
        self._biases: dict[int | None, Tensor] = {}
        self._columns: dict[int | None, Tensor] = {}
        self._base: Tensor | None = None  # [n], the part of the bias that all rows share
        self._place: Tensor | None = None

    def bias(self, window: int | None, dtype: torch.dtype, start: int = 0, stop: int | None = None) -> Tensor:
        """0 where a row sees a key and -inf elsewhere: [stop - start, n]. In a sliding window a key must be that near.

        Of a few rows it is kept for the layers to come.
        """
        few = self.rows.numel() <= _FEW
        found = self._biases.get(window) if few else self._hide(window, self.rows[start:stop], dtype)
        if found is None:
            found = self._biases[window] = self._hide(window, self.rows, dtype)
        return (found[start:stop] if few else found).to(dtype)

    def column(self, window: int | None, dtype: torch.dtype, group: int) -> Tensor:
        """The bias of the one row in the layout of logits of a group of heads: [n, group]. Kept for the layers to come.

        Adding a broadcast instead takes twice as long.
        """
        found = self._columns.get(window)
        if found is None and self.newest and window is None:
            found = torch.zeros(self.keys.numel(), group, dtype=dtype, device=self.keys.device)
            found.masked_fill_(~self.shown[:, None], float("-inf"))
        elif found is None:
            found = self.bias(window, dtype).t().expand(-1, group).contiguous()
        self._columns[window] = found
        return found

    def _hide(self, window: int | None, rows: Tensor, dtype: torch.dtype) -> Tensor:
        if self._base is None:
            self._base = torch.zeros(self.keys.shape, dtype=dtype, device=self.keys.device)
            self._base.masked_fill_(~self.shown, float("-inf"))
        hidden = self.keys > rows[:, None]
        if window is not None:
            hidden |= self.keys <= rows[:, None] - window
        return self._base.to(dtype).masked_fill(hidden, float("-inf"))

    def find(self, pos: Tensor) -> Tensor:
        """The row that holds each of these positions: [m]."""
        if self._place is None:
            count = torch.arange(self.keys.numel(), device=self.keys.device)
            last = self.rows[-1] if self.newest else self.keys.max()
            self._place = self.keys.new_empty(int(last) + 1).scatter_(0, self.keys, count)
        return self._place.index_select(0, pos)


def bias_by_position(layer: LayerKV, pos: Tensor, window: int | None, dtype: torch.dtype) -> Tensor:
    """Log-weights, and -inf where a key is not visible: [1 | kv_heads, r, n]."""
    keys = layer.pos.to(pos.device)[:, None]  # [1 | kv_heads, 1, n]
    hidden = keys > pos[:, None]
    if window is not None:
        hidden |= keys <= pos[:, None] - window
    if layer.log_w is None:
        return torch.zeros(hidden.shape, dtype=dtype, device=pos.device).masked_fill_(hidden, float("-inf"))
    return layer.log_w[:, None].to(dtype).masked_fill(hidden, float("-inf"))
