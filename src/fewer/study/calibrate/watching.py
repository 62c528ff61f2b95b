"""A planner that leaves everything in and notes what is seen, layer by layer, while a prompt is prefilled once.

At most one layer's rows are in memory at a time. Behind `deepest` nothing is computed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal

from fewer.engine import Engine
from fewer.kv import State
from fewer.model.forward import forward
from fewer.model.segment import Segment
from fewer.types import Look, Looked, Observation, Prompt

__all__ = ["Watcher", "watch"]


class _EnoughSeen(Exception):
    """The deepest layer that is wanted has been seen."""


@dataclass(eq=False)
class Watcher(ABC):
    """Subclasses say from which rows they look, and reduce what they see in `note`."""

    prompt: Prompt
    deepest: int | None = None
    segment: Segment | None = None

    name: ClassVar[str] = "calibrate"
    needs: ClassVar[Literal["looks"]] = "looks"

    def layers(self, num_layers: int) -> tuple[int, ...]:
        """All down to the deepest."""
        return tuple(range(1, (self.deepest or num_layers) + 1))

    def check(self, prompt: Prompt) -> None:
        """Any prompt is fine."""
        return

    def describe(self) -> dict[str, str | int | float | None]:
        """It has no settings."""
        return {}

    def looks(self, prompt: Prompt, num_layers: int) -> tuple[Look, ...]:
        """All heads of all these layers."""
        rows = self.rows()
        return tuple(Look(layer, None, rows) for layer in self.layers(num_layers))

    def after(self, observation: Observation) -> None:
        """Reduce what is new, and let go of it."""
        for look, seen in observation.looked.items():
            self.note(look.layer, seen)
        assert self.segment is not None
        self.segment.looked.clear()
        if observation.layer == self.deepest:
            raise _EnoughSeen

    @abstractmethod
    def rows(self) -> tuple[int, ...]:
        """The positions to look from."""

    @abstractmethod
    def note(self, layer: int, seen: Looked) -> None:
        """Take what is wanted of one layer's rows, all heads."""


def watch(engine: Engine, watcher: Watcher) -> None:
    """Prefill its prompt once, up to the deepest layer. Raises NonFiniteError where the model does."""
    adapter, prompt = engine.adapter, watcher.prompt
    state = State.new(adapter.num_layers)
    watcher.segment = Segment(state, prompt.ids, watcher, prompt)
    try:
        forward(adapter, [watcher.segment])
    except _EnoughSeen:
        pass
    finally:
        state.clear()
