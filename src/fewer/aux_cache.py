"""What a sequence remembers about prompt tokens that were left out, so that a later step can bring them back.

A token that stops after layer l leaves its hidden state X^l here (the Aux Cache of LazyLLM, section 3.2). Bringing it
back computes the layers above l, each once, and writes the keys and values that later steps find. Not covered: tokens
other than the prompt's, and giving memory back when a token has been through all layers.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from fewer.types import Look, Prompt, StepPlanner

__all__ = ["AuxCache", "Step"]


@dataclass(frozen=True, slots=True)
class Step:
    """One step after the prefill, in prompt tokens and token-layers (one token passing through one layer)."""

    revived: int  # tokens brought back
    token_layers: int  # computed for them
    repeated: int  # of token_layers: computed before, because no state had been kept
    active: tuple[int, ...]  # tokens that the newest position saw, behind each stop


@dataclass(eq=False)
class AuxCache:
    """The states of the tokens left out, how far each token came, and what the steps did. T: the prompt's tokens."""

    planner: StepPlanner
    prompt: Prompt
    seed: int
    stops: tuple[int, ...]
    looks: tuple[Look, ...]  # what the planner saw in the prefill, and sees of the newest position at later steps
    reached: Tensor  # [T] int64: layers each token has been through
    scores: dict[int, Tensor] = field(default_factory=dict)  # by stop: [T] float32, the prefill's; -inf where inactive
    steps: list[Step] = field(default_factory=list)
    states: Tensor | None = None  # [tokens left out, width]; None where they are not kept
    slot: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.int64))  # [T] rows of `states`, or -1
    revived: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.bool))  # [T] brought back at least once
    _behind: dict[int, Tensor] = field(default_factory=dict, init=False, repr=False)  # by stop, until a token moves

    def leave(self, pos: Tensor, layer: int, hidden: Tensor | None) -> None:
        """Tokens `pos` [m] stop after `layer` with these states [m, width]; None keeps none."""
        self.arrive(pos, layer)
        if hidden is not None:
            assert self.states is not None
            self.states[self.slot[pos]] = hidden

    def arrive(self, pos: Tensor, layer: int) -> None:
        """Tokens `pos` [m] have been through `layer`."""
        self.reached[pos] = layer
        self._behind.clear()

    def behind(self, layer: int) -> Tensor:
        """Which tokens have no keys and values above `layer`: [T] bool. Kept for later steps; not to be changed."""
        found = self._behind.get(layer)
        if found is None:
            found = self._behind[layer] = self.reached <= layer
        return found

    def take(self, pos: Tensor) -> Tensor:
        """The states of tokens `pos`: [m, width]."""
        assert self.states is not None
        return self.states[self.slot[pos]]

    def reserve(self, left: Tensor, like: Tensor) -> None:
        """Make room for the states of the tokens `left` [T bool]. like: [any, width]."""
        num_left = int(left.sum())
        self.slot = torch.full((left.numel(),), -1, device=left.device)
        self.slot[left] = torch.arange(num_left, device=left.device)
        self.states = like.new_empty(num_left, like.shape[-1])

    @property
    def nbytes(self) -> int:
        """Bytes of the states' storage."""
        return 0 if self.states is None else self.states.untyped_storage().nbytes()

    def fork(self) -> AuxCache:
        """An independent copy."""
        return AuxCache(
            self.planner,
            self.prompt,
            self.seed,
            self.stops,
            self.looks,
            self.reached.clone(),
            dict(self.scores),
            list(self.steps),
            None if self.states is None else self.states.clone(),
            self.slot,
            self.revived.clone(),
        )
