"""One request on its way through a batch."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import torch
from torch import Tensor

from fewer.engine.keeper import Keeper
from fewer.engine.request import Request
from fewer.engine.sampling import Sampler
from fewer.engine.text import TextStream
from fewer.kv import State
from fewer.model.adapter import Adapter
from fewer.model.forward import forward
from fewer.model.segment import Segment
from fewer.model.shared import Prefilled

__all__ = ["Sequence", "read_parts"]


@dataclass(eq=False)
class Sequence:
    """One request on its way: what it has stored, generated and measured. Times are `time.perf_counter` seconds."""

    request: Request
    state: State
    sampler: Sampler
    text: TextStream
    arrived: float
    num_before: int = 0  # the prompt's first tokens, which the state had read before this request
    ids: list[int] = field(default_factory=list)
    prefill: Segment | None = None  # its first pass, with plans and rows per layer
    started: float = 0.0
    prefill_s: float = 0.0
    token_times: list[float] = field(default_factory=list)
    step_s: list[float] = field(default_factory=list)  # of the step that gave each token
    ended: float = 0.0
    finish_reason: str = ""
    error: Exception | None = None  # why it failed; it has left the batch then, without a finish_reason
    most_mates: int = 0
    shared_prefill: bool = False
    greedy: list[bool] = field(default_factory=list)  # of given tokens: whether each was the likeliest
    keeper: Keeper | None = None  # evicts keys and values
    evict_told_s: float = (
        0.0  # seconds of compressing that lay inside what was measured of the prefill, and were taken off
    )
    parts: dict[int, Segment] = field(default_factory=dict)  # passes over parts of the prompt, by their first position

    @property
    def in_parts(self) -> bool:
        """Whether the prompt is read in more than one pass."""
        return self.keeper is not None and self.keeper.in_parts

    @property
    def unread(self) -> int:
        """Tokens of the prompt that no pass has read yet."""
        return 0 if self.prefill is not None else len(self.request.prompt) - self.state.num_seen

    @property
    def rows_per_layer(self) -> tuple[int, ...]:
        """Prompt tokens that went through each layer in the prefill; none before it is complete."""
        if self.prefill is None:
            return ()
        parts = [part.rows_per_layer for part in self.parts.values()] or [self.prefill.rows_per_layer]
        return tuple(map(sum, zip(*parts, strict=True)))

    def segment(self) -> Segment:
        """What the next pass computes: the prompt, a part of it, or the newest token."""
        request, keeper = self.request, self.keeper
        if self.prefill is not None:
            newest = torch.tensor(self.ids[-1:])
            if keeper is None:
                return Segment(self.state, newest)
            return Segment(self.state, newest, witness=keeper.witness, meter=keeper.meter)
        if keeper is not None and self.in_parts:
            ids = request.prompt.ids[keeper.part(self.state)]
            part = Segment(self.state, ids, seed=request.sampling.seed, witness=keeper.witness, meter=keeper.meter)
            return self.parts.setdefault(self.state.num_seen, part)
        ids = request.prompt.ids[self.state.num_seen :]
        return Segment(self.state, ids, request.prune, request.prompt, request.sampling.seed)

    @property
    def evict_s(self) -> float:
        """Seconds spent on compressing so far."""
        return 0.0 if self.keeper is None else self.keeper.seconds

    def settle(self, result: Tensor | Exception) -> Tensor | Exception:
        """Let the keeper do its work after a pass; what goes wrong there is the sequence's error."""
        if self.keeper is None or isinstance(result, Exception):
            return result
        try:
            self.keeper.settle(self.state)
        except Exception as error:
            return error
        return result


def read_parts(adapter: Adapter, sequence: Sequence, first: Prefilled | None = None) -> Prefilled:
    """Read a prompt part by part, alone; the error of a part is in the result.

    first: its first part (or the whole), where that was read with others. Its seconds count.
    """
    begin, seconds, shared = time.perf_counter(), 0.0, False
    if first is not None:
        seconds, shared = first.seconds, first.shared
    while True:
        segment = sequence.segment() if first is None else first.segment
        try:
            result = first.error or first.logits if first is not None else forward(adapter, [segment])[0]
            assert result is not None
            result, first = sequence.settle(result), None
        except Exception as error:
            result = error
        if isinstance(result, Exception):
            return Prefilled(segment, None, result, 0.0, False)
        if not sequence.unread:
            break
    adapter.settle()
    spent = sequence.evict_s - (0.0 if sequence.keeper is None else sequence.keeper.elsewhere)
    return Prefilled(segment, result, None, seconds + time.perf_counter() - begin - spent, shared)
