"""Has the model repeat the text that it has read, and sees which rows of its cache it needs for that.

What a score with needs "repeat" looks at (KVzip, Kim et al. 2025, arXiv 2505.23416): after everything read so far the
model is asked to repeat it, and is given the text itself to read once more, a stretch at a time. A row that was looked
at then is one that later questions may need, whatever they are. Costs one to two prefills more; while it goes on the
rows of one layer and of one stretch on top of those that are there.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from fewer.errors import PromptTooLong
from fewer.kv import LayerKV, State
from fewer.model.adapter import Adapter
from fewer.model.forward import forward
from fewer.model.segment import Segment

__all__ = ["Repeated", "Repeater"]

_ASKS = "\n\nRepeat the previous context exactly.\n"
_LEAST = 16  # tokens at a time, where the text has as many: fewer would take a pass for every few tokens


@dataclass(frozen=True)
class Repeated:
    """What was seen of each layer, [heads, rows] float32: the largest weight of a row in any query that repeats.

    Queries count for the rows of their own stretch. num_tokens: read for it, those that ask included.
    """

    layers: tuple[Tensor, ...]
    num_tokens: int
    seconds: float
    remembered: bool = False  # found when another sequence asked; the seconds are those of that time


class Repeater:
    """Repeats for one engine's sequences, of which nothing changes.

    remembers: whether what was found last is kept where the cache was complete, so that one text under several policies
    is repeated once; each is told the seconds that it took.
    """

    def __init__(self, adapter: Adapter, tokenizer: PreTrainedTokenizerBase) -> None:
        self._adapter, self._tokenizer = adapter, tokenizer
        self.remembers = False
        self._last: tuple[tuple[int, int, Tensor], Repeated] | None = None

    def check(self, num_tokens: int, stretch: int) -> int:
        """How many tokens can be repeated at a time behind so many.

        Raises PromptTooLong where that is less than `stretch` and less than 16.
        """
        asks, most = len(self._asks), self._adapter.max_positions
        room, least = most - num_tokens - asks, max(1, min(stretch, _LEAST))
        if room < least:
            raise PromptTooLong(
                f"kvzip has the model repeat its text, which takes {asks + least} positions behind {num_tokens} "
                f"tokens; the model has {most}. Compress earlier, or with another score."
            )
        return room

    @property
    def _asks(self) -> list[int]:
        ids: list[int] = self._tokenizer(_ASKS, add_special_tokens=False)["input_ids"]
        return ids

    @torch.inference_mode()
    def repeat(self, state: State, ids: Tensor, start: int, stretch: int) -> Repeated:
        """Repeat the tokens from position `start` on, at most `stretch` at a time.

        ids: [num_seen], everything the state has seen. Raises PromptTooLong as `check` does.
        """
        whole = self.remembers and all(
            kv.contiguous and kv.num_rows == ids.numel() and not kv.weighted for kv in state.layers
        )
        if whole and self._last is not None:
            (begun, size, what), found = self._last
            if (begun, size) == (start, stretch) and torch.equal(what, ids):
                return replace(found, remembered=True)
        begin = time.perf_counter()
        asks = torch.tensor(self._asks)
        room = self.check(ids.numel(), min(stretch, ids.numel() - start))
        most = [torch.zeros(self._adapter.num_heads, kv.num_rows, device=kv.k.device) for kv in state.layers]
        num_tokens = 0
        for first in range(start, ids.numel(), min(stretch, room)):
            part = ids[first : first + min(stretch, room)]
            aside = State([kv.aside() for kv in state.layers], state.num_seen)  # rows go behind those that are there
            meter = _Meter(most, aside.layers, asks.numel(), first, first + part.numel())
            forward(self._adapter, [Segment(aside, torch.cat([asks, part]), meter=meter)])
            num_tokens += asks.numel() + part.numel()
        self._adapter.settle()
        found = Repeated(tuple(most), num_tokens, time.perf_counter() - begin)
        self._last = ((start, stretch, ids), found) if whole else None
        return found


class _Meter:
    """Raises `most` to what the rows of a pass behind the first `lead` look at, at positions from start to stop.

    layers: of the pass; one that has been looked at is let go of, so that of those which had to grow one is held.
    """

    def __init__(self, most: list[Tensor], layers: list[LayerKV], lead: int, start: int, stop: int) -> None:
        self._most, self._layers, self._lead = most, layers, lead
        self._own = [(start <= kv.pos) & (kv.pos < stop) for kv in layers]  # [1 | kv_heads, n]

    def see(self, index: int, first: int, weights: Tensor) -> None:
        """As in `fewer.types.Meter`."""
        if index:
            self._layers[index - 1].buffer = None
        rows = weights[:, max(0, self._lead - first) :]
        if not rows.shape[1]:
            return
        most, own = self._most[index], self._own[index].to(weights.device)
        heads, size = most.shape
        seen = rows[..., :size].amax(1).to(most.dtype)
        own = own.repeat_interleave(heads // own.shape[0], 0) if own.shape[0] > 1 else own
        torch.maximum(most, torch.where(own, seen, 0.0), out=most)
