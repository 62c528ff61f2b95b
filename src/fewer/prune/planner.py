"""What all planners share: turning a wish ("keep 25%") into the positions that go deeper.

The protocol itself is `fewer.types.Planner`. A budget counts all prompt tokens. Protected tokens stay even where they
are more than the budget; the plan's reason says so then. At least one token stays.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from fewer.errors import bad
from fewer.types import Chunk, Keep, Observation, Plan

__all__ = ["Grain", "at_layer", "check_grain", "plan_by_chunk", "plan_by_token"]

Grain = Literal["token", "chunk"]


def check_grain(grain: str) -> None:
    """Raise BadInput unless `grain` is one of the two."""
    if grain not in ("token", "chunk"):
        raise bad("grain", grain, "'token' or 'chunk'", "Use 'chunk' to keep or drop whole documents.")


def at_layer(layer: int, num_layers: int, lowest: int) -> tuple[int, ...]:
    """The one layer to prune after, checked against the model's depth."""
    if isinstance(layer, bool) or not isinstance(layer, int) or not lowest <= layer < num_layers:
        legal = f"a whole number from {lowest} to {num_layers - 1} (the model has {num_layers} layers)"
        raise bad("layer", layer, legal, "Prune after a layer that still has one behind it.")
    return (layer,)


def plan_by_token(observation: Observation, keep: Keep, order: Tensor, what: str) -> Plan:
    """Keep the protected positions and, up to the budget, the others in `order`.

    order: [m] indices into `observation.pos`, of the unprotected positions, best first.
    """
    pos = observation.pos.cpu()
    budget = keep.count(len(observation.prompt))
    protected = observation.prompt.protected[pos]
    room = max(0, budget - int(protected.sum()), 0 if protected.any() else 1)
    kept = protected.clone()
    kept[order[:room]] = True
    return _plan(observation, pos[kept], budget, int(protected.sum()), what)


def plan_by_chunk(observation: Observation, keep: Keep, order: list[int], what: str) -> Plan:
    """Keep the protected positions and whole chunks in `order` (indices of chunks, best first) while they fit.

    A chunk that does not fit is passed over and smaller ones may still be taken. Where nothing fits and nothing is
    protected, the first chunk stays.
    """
    pos, prompt = observation.pos.cpu(), observation.prompt
    budget = keep.count(len(prompt))
    kept = prompt.protected[pos]
    used = num_protected = int(kept.sum())
    for rank, index in enumerate(order):
        inside = _inside(pos, prompt.chunks[index]) & ~prompt.protected[pos]
        size = int(inside.sum())
        if used + size <= budget or (rank == 0 and not num_protected):
            kept |= inside
            used += size
    return _plan(observation, pos[kept], budget, num_protected, what)


def _inside(pos: Tensor, chunk: Chunk) -> Tensor:
    return (pos >= chunk.start) & (pos < chunk.stop)


def _plan(observation: Observation, kept: Tensor, budget: int, num_protected: int, what: str) -> Plan:
    reason = f"{what}: {kept.numel()} of {observation.pos.numel()} active tokens go on, asked for {budget}"
    if num_protected > budget:
        reason += f"; {num_protected} are protected and always stay"
    return Plan(observation.layer, kept.to(torch.int64), reason)
