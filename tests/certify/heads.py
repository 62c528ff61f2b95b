"""Made-up attention heads, in float64, and every sample of a small population. Shares no code with the package."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import torch
from torch import Tensor


def make_heads(heads: int, n: int, d: int, seed: int, spread: float = 1.0) -> tuple[Tensor, Tensor]:
    """(a, v): attention masses a = exp(s) [heads, n] with log-normal spread, and values [heads, n, d]."""
    generator = torch.Generator().manual_seed(seed)
    a = torch.exp(spread * torch.randn(heads, n, dtype=torch.float64, generator=generator))
    v = torch.randn(heads, n, d, dtype=torch.float64, generator=generator)
    return a, v + torch.randn(heads, 1, d, dtype=torch.float64, generator=generator)


def full_output(a: Tensor, v: Tensor) -> Tensor:
    """y of (1): [heads, d]."""
    return (a[..., None] * v).sum(-2) / a.sum(-1, keepdim=True)


def attend_retained(a: Tensor, v: Tensor, idx: Tensor, pi: Tensor, valid: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(weights, values, out) of (3) over the retained rows idx [heads, m]; padding has weight 0."""
    mass = torch.where(valid, a.gather(1, idx) / pi.double(), 0.0)
    weights = mass / mass.sum(1, keepdim=True)
    values = v.gather(1, idx[..., None].expand(-1, -1, v.shape[-1]))
    return weights, values, (weights[..., None] * values).sum(1)


def subsets(n: int) -> Iterator[tuple[int, ...]]:
    """Every subset of n rows."""
    for size in range(n + 1):
        yield from combinations(range(n), size)


def poisson_probability(pi: Tensor, kept: tuple[int, ...]) -> float:
    """Of this very sample, under independent draws."""
    inside = torch.zeros(len(pi), dtype=torch.bool)
    inside[list(kept)] = True
    return float(torch.where(inside, pi, 1 - pi).prod())


def linear_terms(a: Tensor, v: Tensor) -> Tensor:
    """x_i = a_i (v_i - y)/N of one head: [n, d]. They sum to zero."""
    return (a / a.sum())[:, None] * (v - full_output(a, v))
