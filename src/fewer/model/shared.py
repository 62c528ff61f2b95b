"""One prompt under several planners: layers below the first one at which a planner acts are computed once.

Every branch has the bits that it would have alone: the trunk is the full run, a branch leaves it after the layer where
its planner is first asked, with copies of the rows, keys and values, and climbs on by itself. Not covered: sharing
between different prompts, and between branches above the place where the first of them left.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from fewer.errors import bad
from fewer.kv import State
from fewer.model.adapter import Adapter, Angles
from fewer.model.forward import asked_of, climb, finish, pack
from fewer.model.segment import Segment
from fewer.types import Look

__all__ = ["Prefilled", "forward_shared"]


@dataclass(frozen=True)
class Prefilled:
    """A prefilled branch: its logits [1, vocab], or the error that stopped it.

    seconds: the trunk's up to the layer where the branch left it and the branch's own above; what the copies took is
    not in it. shared: whether other branches used the same layers.
    """

    segment: Segment
    logits: Tensor | None
    error: Exception | None
    seconds: float
    shared: bool


@torch.inference_mode()
def forward_shared(adapter: Adapter, branches: list[Segment]) -> Iterator[tuple[int, Prefilled]]:
    """Prefill the same tokens for each branch; gives each with its place in the list, as soon as it is done.

    So a branch whose cache is compressed can be before the next one takes its copy. An error stays with its branch; one
    of the trunk's is everyone's. Raises BadInput where the branches are not new sequences over equal ids.
    """
    ids = branches[0].ids
    if any(branch.state.num_seen or not torch.equal(branch.ids, ids) for branch in branches):
        raise bad("branches", len(branches), "new sequences over the same ids", "Prefill other prompts separately.")
    leaves: dict[int, list[int]] = {}
    looks: dict[int, tuple[Look, ...]] = {}
    for index, branch in enumerate(branches):
        try:
            branch.stops, looks[index] = asked_of(adapter, branch)
            leaves.setdefault(min(branch.stops, default=adapter.num_layers), []).append(index)
        except Exception as error:
            yield index, Prefilled(branch, None, error, 0.0, False)
    if not leaves:
        return
    trunk = Segment(State.new(adapter.num_layers, branches[0].state.layers[0].headroom), ids)
    shared = sum(map(len, leaves.values())) > 1
    seconds, begin = 0.0, time.perf_counter()
    hidden, angles = pack(adapter, [trunk])
    wanted = {look for layer, some in leaves.items() for index in some for look in looks[index] if look.layer <= layer}
    trunk.begin(trunk.pos, trunk.rows, (), wanted)
    there = [index for some in leaves.values() for index in some]
    logs = {index: log for index in there if (log := branches[index].state.queries) is not None}
    trunk.logs = list(logs.values())
    for layer in range(max(leaves) + 1):
        if layer:
            trunk.rows_per_layer.append(ids.numel())
            hidden = adapter.layers[layer - 1](hidden, angles, [trunk])
        adapter.settle()
        seconds += time.perf_counter() - begin
        for index in leaves.get(layer, ()):
            trunk.logs = [log for log in trunk.logs if log is not logs.get(index)]
            branch = branches[index]
            yield index, _leave(adapter, branch, looks[index], trunk, hidden, angles, layer, seconds, shared)
        begin = time.perf_counter()
    trunk.state.clear()  # a branch's error holds this frame


def _leave(
    adapter: Adapter,
    branch: Segment,
    looks: tuple[Look, ...],
    trunk: Segment,
    hidden: Tensor,
    angles: Angles,
    layer: int,
    seconds: float,
    shared: bool,
) -> Prefilled:
    """Let a branch go its own way from the trunk's output of `layer`."""
    try:
        branch.state.layers[:layer] = [kv.fork() for kv in trunk.state.layers[:layer]]
        branch.begin(trunk.pos.clone(), trunk.rows, branch.stops, looks)
        branch.rows_per_layer = list(trunk.rows_per_layer)
        branch.looked = {look: trunk.looked[look] for look in looks if look.layer <= layer}
        rows = hidden.clone()
        adapter.settle()
        begin = time.perf_counter()
        rows = climb(adapter, rows, angles, [branch], layer)
        logits = finish(adapter, rows, [branch])[0]
        adapter.settle()
    except Exception as error:
        branch.state = State.new(adapter.num_layers)
        return Prefilled(branch, None, error, 0.0, shared)
    return Prefilled(branch, logits, None, seconds + time.perf_counter() - begin, shared)
