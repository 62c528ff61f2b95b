"""What every head of a model looks at in a prompt: one full prefill, reduced layer by layer, never a T x T map.

The rows looked at are those behind the last unprotected token, as in `LazyLLM` with a profile. Of each head the largest
attention that any of these rows pays to a token is kept, as a share of the head's sum over the unprotected tokens. At
most one layer's rows are in memory at a time; what stays is 4 bytes x layers x heads x unprotected tokens.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

import torch
from torch import Tensor

from fewer.engine import Engine
from fewer.kv import State
from fewer.model.forward import forward
from fewer.model.segment import Segment
from fewer.study.calibrate.items import Labelled
from fewer.types import Look, Observation, Prompt

__all__ = ["Seen", "capture"]

_LEAST = 1e-9  # a head that looks at no unprotected token has no shares


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """What one prompt showed. `n` is the number of its unprotected tokens."""

    task: str
    size: int  # T
    free: Tensor  # [n] int64: positions of the unprotected tokens
    answer: Tensor  # [n] bool: those that the answer needs
    shares: Tensor  # [layers, heads, n] float32: largest over the rows; sums to 1
    newest: Tensor  # [layers, n] float32: the last row's attention, mean over heads: the paper's score


@dataclass(eq=False)
class Watcher:
    """A planner that leaves everything in and notes what is seen."""

    prompt: Prompt
    segment: Segment | None = None
    shares: list[Tensor] = field(default_factory=list)
    newest: list[Tensor] = field(default_factory=list)

    name: ClassVar[str] = "calibrate"
    needs: ClassVar[Literal["looks"]] = "looks"

    def layers(self, num_layers: int) -> tuple[int, ...]:
        """All of them."""
        return tuple(range(1, num_layers + 1))

    def check(self, prompt: Prompt) -> None:
        """Any prompt is fine."""

    def describe(self) -> dict[str, str | int | float | None]:
        """It has no settings."""
        return {}

    def looks(self, prompt: Prompt, num_layers: int) -> tuple[Look, ...]:
        """All heads of all layers, from the rows behind the last unprotected token."""
        first = int((~prompt.protected).nonzero()[-1]) + 1
        rows = tuple(range(min(first, len(prompt) - 1), len(prompt)))
        return tuple(Look(layer, None, rows) for layer in self.layers(num_layers))

    def after(self, observation: Observation) -> None:
        """Reduce what is new, and let go of it."""
        free = ~self.prompt.protected
        for seen in observation.looked.values():
            inside = free.to(seen.pos.device)[seen.pos]
            most = seen.rows.amax(1)[:, inside].float()
            self.shares.append((most / most.sum(-1, keepdim=True).clamp_min(_LEAST)).cpu())
            self.newest.append(seen.rows[:, -1].mean(0)[inside].float().cpu())
        assert self.segment is not None
        self.segment.looked.clear()


def capture(engine: Engine, labelled: Labelled) -> Seen:
    """Prefill one prompt in full. Raises NonFiniteError where the model does."""
    adapter, prompt = engine.adapter, labelled.prompt
    watcher = Watcher(prompt)
    state = State.new(adapter.num_layers)
    watcher.segment = Segment(state, prompt.ids, watcher, prompt)
    try:
        forward(adapter, [watcher.segment])
    finally:
        state.clear()
    free = (~prompt.protected).nonzero().flatten()
    answer = labelled.answer[free]
    return Seen(labelled.task, len(prompt), free, answer, torch.stack(watcher.shares), torch.stack(watcher.newest))
