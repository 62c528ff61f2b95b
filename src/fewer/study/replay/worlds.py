"""Theorem 1: replace the values of rows that a deterministic policy evicts. It cannot tell, and its error moves.

Each world has the evicted values of every head in another order. The score looks at keys and queries alone, so top-k
keeps the same rows in all worlds, and whatever it could compute from them is the same to the last bit. The sampled arm
is drawn anew in each world, as it would be served there, and has a radius. It says nothing of a change after the draw:
no certificate can.

Source: "Error Certificates for KV-Cache Eviction via Randomized Design", Theorem 1 and its demonstration.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fewer.evict import Policy
from fewer.study.replay.capture import Captured
from fewer.study.replay.measure import Full, Kept, keep_rows, measure

__all__ = ["World", "visit_worlds"]


@dataclass(frozen=True, slots=True, eq=False)
class World:
    """One order of the evicted values. [layers, heads, steps] each."""

    error: Tensor  # of the deterministic policy
    same: Tensor  # bool: its rows, weights, entropy of the weights and output have the same bits as in world 0
    sampled_error: Tensor
    sampled_radius: Tensor


def visit_worlds(
    captured: Captured, full: Full, num_rows: int, fixed: Policy, sampled: Policy, permutations: int, seed: int
) -> list[World]:
    """World 0 is as it was; then so many others, each with the evicted values in a random order."""
    first = keep_rows(captured.restore(num_rows, fixed.score.needs), fixed, seed)
    generator = torch.Generator().manual_seed(seed)
    worlds: list[World] = []
    before: list[tuple[Tensor, ...]] = []
    for number in range(permutations + 1):
        values = captured.v
        if number:
            pairs = zip(captured.v, first, strict=True)
            values = tuple(_permute(v, rows, num_rows, generator) for v, rows in pairs)
        world = full.with_values(values)
        kept = keep_rows(captured.restore(num_rows, fixed.score.needs, values), fixed, seed)
        seen = [_see(world, index, rows, num_rows) for index, rows in enumerate(kept)]
        before = before or seen
        state = captured.restore(num_rows, sampled.score.needs, values)
        cells = measure(world, keep_rows(state, sampled, seed + number), num_rows, sampled)
        assert cells.radius is not None
        error = measure(world, kept, num_rows, fixed).error
        same = torch.stack([_equal(now, then) for now, then in zip(seen, before, strict=True)])
        worlds.append(World(error, same, cells.error, cells.radius))
    return worlds


def _permute(values: Tensor, kept: Kept, num_rows: int, generator: torch.Generator) -> Tensor:
    """The values [kv_heads, N, d] with those of the rows that left in another order."""
    changed = values.clone()
    for head, pos in enumerate(kept.pos):
        gone = torch.ones(num_rows, dtype=torch.bool)
        gone[pos[kept.valid[head]]] = False
        rows = gone.nonzero()[:, 0]
        changed[head, rows] = values[head, rows[torch.randperm(rows.numel(), generator=generator)]]
    return changed


def _see(world: Full, index: int, kept: Kept, num_rows: int) -> tuple[Tensor, ...]:
    """What the policy can compute from what it retained, of one layer: rows, values, weights, entropies, outputs."""
    weights, values = world.weights[index], world.values[index]
    kv_heads = values.shape[0]
    at = torch.cat((kept.pos, torch.arange(num_rows, values.shape[1]).expand(kv_heads, -1)), 1)
    left = values.gather(1, at[..., None].expand(-1, -1, values.shape[2]))
    grouped = weights.view(kv_heads, -1, weights.shape[2])
    seen = grouped.gather(2, at[:, None].expand(-1, grouped.shape[1], -1))
    share = (seen / seen.sum(-1, keepdim=True)).view(*weights.shape[:2], -1)
    entropy = -torch.special.xlogy(share, share).sum(-1)
    return kept.pos, left, share, entropy, torch.bmm(share.view(kv_heads, -1, at.shape[1]), left.double())


def _equal(now: tuple[Tensor, ...], then: tuple[Tensor, ...]) -> Tensor:
    """Where all of it has the same bits: [heads, steps] bool."""
    rows, values, share, entropy, out = now
    group = share.shape[0] // rows.shape[0]
    same = (rows == then[0]).all(1) & (values == then[1]).flatten(1).all(1)
    outs = (out == then[4]).all(-1).view(share.shape[:2])
    found: Tensor = same.repeat_interleave(group)[:, None] & (share == then[2]).all(-1) & (entropy == then[3]) & outs
    return found
