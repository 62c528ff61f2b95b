"""What the model tests share: a tiny model under one way of running it, and a planner that does as it is told."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import torch
from torch import Tensor

from fewer.kv import State
from fewer.model.adapter import Adapter
from fewer.model.blocks import FUSED
from fewer.model.forward import forward
from fewer.model.segment import Segment
from fewer.types import Observation, Plan, Prompt
from reference import widen
from tiny import TINY, VOCAB, Tiny

T = 23  # prompt tokens
MORE = 4  # tokens decoded after it
NUM_LAYERS = 4
DROPS = {
    "before the first layer": ((0, (0, 1, 2, 5, 6, 9, 13, 14, 15, 20, 22)),),
    "in the middle": ((2, (0, 1, 3, 4, 8, 11, 12, 17, 18, 21, 22)),),
    "twice": ((1, (0, 1, 2, 3, 5, 7, 8, 11, 12, 14, 16, 19, 20, 22)), (3, (0, 1, 3, 8, 12, 14, 20, 22))),
    "all that may go": ((1, (0, 1, 22)),),
    "after the last layer": ((1, (*range(3), *range(6, 23))), (4, (0, 1, 7, 8, 22))),
}


@dataclass
class Scripted:
    """A planner that keeps the given positions after the given layers; `keep` of None answers with nothing."""

    keep: dict[int, tuple[int, ...] | None]
    release: bool = True
    needs: Literal["nothing", "last_query"] = "nothing"
    name: str = "scripted"
    fails_after: int | None = None
    error: BaseException = field(default_factory=lambda: RuntimeError("the planner broke"))
    seen: list[Observation] = field(default_factory=list)

    def layers(self, num_layers: int) -> tuple[int, ...]:
        return tuple(layer for layer in sorted(self.keep) if layer <= num_layers)

    def after(self, observation: Observation) -> Plan | None:
        self.seen.append(observation)
        if observation.layer == self.fails_after:
            raise self.error
        keep = self.keep[observation.layer]
        return None if keep is None else Plan(observation.layer, torch.tensor(keep), release=self.release)

    def describe(self) -> dict[str, object]:
        return {}


@dataclass(eq=False)
class Case:
    """One tiny model under one way of running it."""

    tiny: Tiny
    fused: bool

    @cached_property
    def narrow(self) -> Adapter:
        """Over a copy of the model as it is, in float32."""
        return Adapter(copy.deepcopy(self.tiny.model), fused=self.fused)

    @cached_property
    def wide(self) -> Adapter:
        """Over a copy that computes in float64 throughout."""
        return Adapter(widen(self.tiny.model), fused=self.fused)

    def new(self) -> State:
        return State.new(NUM_LAYERS)

    def forward(self, *segments: Segment) -> list[Tensor]:
        """One pass in float32."""
        return forward(self.narrow, list(segments))

    def run(self, state: State, ids: Tensor, wide: bool = False) -> Tensor:
        """All rows' logits of the next tokens."""
        return forward(self.wide if wide else self.narrow, [Segment(state, ids, logits="all")])[0]

    def pruned(self, ids: Tensor, planner: Scripted, state: State | None = None) -> Segment:
        """A whole prompt under a planner; its first two tokens and the last are protected."""
        prompt = Prompt.from_ids(ids, sinks=2, recent=1)
        return Segment(state or self.new(), ids, planner, prompt, logits="all")


CASES = {
    name + ("" if fused else "-unfused"): Case(tiny, fused)
    for name, tiny in TINY.items()
    for fused in ((True, False) if tiny.family.lower() in FUSED else (True,))
}


def others(seed: int, size: int) -> Tensor:
    return torch.randint(0, VOCAB, (size,), generator=torch.Generator().manual_seed(seed))


def gap(ours: Tensor, reference: Tensor) -> float:
    """The largest absolute difference."""
    assert ours.shape == reference.shape
    return float((ours.cpu().double() - reference.cpu().double()).abs().max())
