"""Generations in float64 that write down which (token, layer) pairs they computed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from cases import NUM_LAYERS
from torch import Tensor

from fewer.kv import State
from fewer.model.adapter import Adapter
from fewer.model.forward import forward
from fewer.model.segment import Segment
from fewer.types import Chunk, Planner, Prompt
from tiny import VOCAB


def make_prompt(size: int, free: set[int], seed: int) -> Prompt:
    ids = torch.randint(0, VOCAB, (size,), generator=torch.Generator().manual_seed(seed))
    protected = torch.tensor([place not in free for place in range(size - 1)] + [True])
    return Prompt(ids, protected, (Chunk("", 0, size),), (size - 1, size))


@dataclass
class Run:
    """One generation in float64, and which (token, layer) pairs it computed."""

    adapter: Adapter
    prompt: Prompt
    planner: Planner | None
    state: State = field(default_factory=lambda: State.new(NUM_LAYERS))
    pairs: Counter[tuple[int, int]] = field(default_factory=Counter)  # stored
    again: Counter[tuple[int, int]] = field(default_factory=Counter)  # computed a second time, and not stored
    rows: list[int] = field(default_factory=list)
    token: int | None = None

    def step(self, token: int | None = None) -> Tensor:
        """The next logits, after the prompt or after `token` (the likeliest unless given)."""
        if self.state.num_seen == 0:
            segment = Segment(self.state, self.prompt.ids, self.planner, self.prompt)
        else:
            segment = Segment(self.state, torch.tensor([self.token if token is None else token]))
        with self.counting():
            (logits,) = forward(self.adapter, [segment])
        self.rows += segment.rows_per_layer
        self.token = int(logits.argmax())
        return logits[0]

    @contextmanager
    def counting(self) -> Iterator[None]:
        layers = self.adapter.layers
        self.adapter.layers = [self.watched(number, layer) for number, layer in enumerate(layers, 1)]
        try:
            yield
        finally:
            self.adapter.layers = layers

    def watched(self, number: int, layer: Any) -> Any:
        def call(hidden: Tensor, angles: Any, segments: list[Segment]) -> Tensor:
            for segment in segments:
                assert segment.pos.numel() == hidden.shape[1]
                assert bool((segment.pos[1:] > segment.pos[:-1]).all())
                (self.pairs if segment.stores else self.again).update((pos, number) for pos in segment.pos.tolist())
            return layer(hidden, angles, segments)

        return call
