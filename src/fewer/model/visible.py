"""Which stored rows the rows of a pass may see in the layers up to the next stop, as something to add to logits.

All layers between two stops hold the same rows in the same order, so this is worked out once for all of them. Not
covered: rows kept per head.
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["Visible"]


class Visible:
    """keys: [n] positions of the stored rows, those of the pass included; shown: [n] bool; rows: [r] positions.

    A row sees a key that is shown and not behind it. everything: the rows are the newest and all keys are shown, so
    that nothing needs to be added.
    """

    __slots__ = ("_biases", "everything", "keys", "rows", "shown")

    def __init__(self, keys: Tensor, shown: Tensor, rows: Tensor, everything: bool = False) -> None:
        self.keys, self.shown, self.rows, self.everything = keys, shown, rows, everything
        self._biases: dict[int | None, Tensor] = {}

    def bias(self, window: int | None, dtype: torch.dtype) -> Tensor:
        """0 where a row sees a key and -inf elsewhere: [r, n]. In a sliding window a key must also be that near."""
        found = self._biases.get(window)
        if found is None:
            hidden = ~self.shown | (self.keys > self.rows[:, None])
            if window is not None:
                hidden |= self.keys <= self.rows[:, None] - window
            found = torch.zeros(hidden.shape, dtype=dtype, device=hidden.device).masked_fill_(hidden, float("-inf"))
            self._biases[window] = found
        return found.to(dtype)
