"""What a planner may know about the model that it works for."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ModelFacts"]


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """windows: of each layer 1..L, the sliding window in positions, or None where a layer sees everything.

    fingerprint: of the shapes and of some rows of every weight; the same in whatever type they are loaded.
    """

    name: str
    fingerprint: str
    num_layers: int
    num_heads: int
    num_kv_heads: int
    windows: tuple[int | None, ...]

    @property
    def global_layers(self) -> tuple[int, ...]:
        """The layers that see everything, from 1."""
        return tuple(layer for layer, window in enumerate(self.windows, 1) if window is None)
