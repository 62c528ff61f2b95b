"""Made-up attention, candidates and screening problems for EntroPrefill's tests; no model."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from fewer.prune.entroprefill.chunks import Candidates
from fewer.prune.entroprefill.screening import Screen


def attention(seed: int, *shape: int, sharp: float = 2.0, dtype: torch.dtype = torch.float64) -> Tensor:
    """Rows that sum to one; `sharp` is the spread of their logits."""
    generator = torch.Generator().manual_seed(seed)
    return (sharp * torch.randn(*shape, generator=generator, dtype=dtype)).softmax(-1)


def candidates_of(*sizes: int, first: int = 2, gap: int = 1) -> Candidates:
    """Chunks of these sizes with gaps between them, after some sinks."""
    starts = [first + sum(sizes[:i]) + gap * i for i in range(len(sizes))]
    stops = [start + size for start, size in zip(starts, sizes, strict=True)]
    return Candidates(tuple(range(len(sizes))), np.array(starts, dtype=np.int64), np.array(stops, dtype=np.int64))


def spans_of(candidates: Candidates) -> list[tuple[int, int]]:
    return list(zip(candidates.starts.tolist(), candidates.stops.tolist(), strict=True))


def screen_of(seed: int, count: int, rows: int, target: int | None = None) -> Screen:
    """A random problem: some masses are zero, some rows have no tolerance, sizes repeat."""
    rng = np.random.default_rng(seed)
    mass = rng.dirichlet(np.full(count + 1, rng.choice([0.3, 1.0, 5.0])), size=rows)[:, :count]
    mass[rng.random(mass.shape) < 0.1] = 0.0
    tolerance = rng.uniform(0.0, 0.7, size=rows) * (rng.random(rows) > 0.03)
    sizes = rng.integers(1, rng.choice([3, 40]), size=count)
    total = int(sizes.sum())
    return Screen(mass, tolerance, sizes, int(rng.integers(0, count // 2 + 1)), total if target is None else target)


def lists(screen: Screen) -> tuple[list[list[float]], list[float], list[int], int]:
    """The problem as the slow references take it."""
    return screen.mass.tolist(), screen.tolerance.tolist(), screen.sizes.tolist(), screen.min_kept
