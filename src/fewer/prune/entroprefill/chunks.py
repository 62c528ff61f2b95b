"""The chunks that may be removed, and the attention mass that falls on each. `T` is the prompt's length."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fewer.errors import bad
from fewer.types import Chunk, Prompt

__all__ = ["Candidates"]


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """The k chunks of a prompt that may be removed whole, in the prompt's order. Make them with `Candidates.of`."""

    index: tuple[int, ...]  # their numbers among the prompt's chunks
    starts: NDArray[np.int64]  # [k] first token
    stops: NDArray[np.int64]  # [k] one past the last token

    @classmethod
    def of(cls, prompt: Prompt) -> Candidates:
        """Those of the prompt's chunks that hold no protected token and end before the query begins.

        Without query positions no chunk is after them. There may be none: that is for the caller to bypass.
        """
        begin, end = prompt.query
        last = begin if begin < end else len(prompt)

        def may_go(chunk: Chunk) -> bool:
            return chunk.stop <= last and not bool(prompt.protected[chunk.start : chunk.stop].any())

        index = tuple(number for number, chunk in enumerate(prompt.chunks) if may_go(chunk))
        chosen = [prompt.chunks[number] for number in index]
        starts = np.array([chunk.start for chunk in chosen], dtype=np.int64)
        return cls(index, starts, np.array([chunk.stop for chunk in chosen], dtype=np.int64))

    def __len__(self) -> int:
        return len(self.index)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Tokens of each chunk, [k]."""
        return self.stops - self.starts

    @property
    def num_tokens(self) -> int:
        """N: tokens of all candidates together."""
        return int(self.sizes.sum())

    def mass(self, rows: Tensor) -> Tensor:
        """What each row puts on each chunk: [..., T] to [..., k] in float64, on the rows' device.

        Sums are exact to about 1e-15 of their size; chunks with the same numbers get the same sum, bit for bit. Numbers
        that are not finite come through. Raises BadInput where a row is shorter than the last chunk's end.
        """
        if len(self) and (rows.dim() < 1 or rows.shape[-1] < self.stops[-1]):
            raise bad("rows", tuple(rows.shape), f"[..., n] with n at least {self.stops[-1]}", "Pass whole rows.")
        if not len(self):
            return rows.new_zeros((*rows.shape[:-1], 0), dtype=torch.float64)
        spans = zip(self.starts.tolist(), self.stops.tolist(), strict=True)
        return torch.stack([rows[..., start:stop].sum(-1, dtype=torch.float64) for start, stop in spans], dim=-1)
