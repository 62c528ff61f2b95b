"""What every head of a model looks at in a prompt: one full prefill, reduced layer by layer, never a T x T map.

The rows looked at are those behind the last unprotected token, as in `LazyLLM` with a profile. Of each head the largest
attention that any of these rows pays to a token is kept, as a share of the head's sum over the unprotected tokens. At
most one layer's rows are in memory at a time; what stays is 4 bytes x layers x heads x unprotected tokens.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from fewer.engine import Engine
from fewer.study.calibrate import watching
from fewer.study.calibrate.items import Labelled
from fewer.types import Looked

__all__ = ["Seen", "Watcher", "capture"]

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
class Watcher(watching.Watcher):
    """Notes shares and the newest row of every layer."""

    shares: list[Tensor] = field(default_factory=list)
    newest: list[Tensor] = field(default_factory=list)

    def rows(self) -> tuple[int, ...]:
        """Those behind the last unprotected token."""
        first = int((~self.prompt.protected).nonzero()[-1]) + 1
        return tuple(range(min(first, len(self.prompt) - 1), len(self.prompt)))

    def note(self, layer: int, seen: Looked) -> None:
        """In float32, on the CPU."""
        inside = (~self.prompt.protected).to(seen.pos.device)[seen.pos]
        most = seen.rows.amax(1)[:, inside].float()
        self.shares.append((most / most.sum(-1, keepdim=True).clamp_min(_LEAST)).cpu())
        self.newest.append(seen.rows[:, -1].mean(0)[inside].float().cpu())


def capture(engine: Engine, labelled: Labelled) -> Seen:
    """Prefill one prompt in full. Raises NonFiniteError where the model does."""
    prompt = labelled.prompt
    watcher = Watcher(prompt)
    watching.watch(engine, watcher)
    free = (~prompt.protected).nonzero().flatten()
    answer = labelled.answer[free]
    return Seen(labelled.task, len(prompt), free, answer, torch.stack(watcher.shares), torch.stack(watcher.newest))
