"""Prompts and observations for the planners' tests; no model."""

from __future__ import annotations

import torch
from torch import Tensor

from fewer import Chunk, Observation, Prompt


def prompt_of(*sizes: int, sinks: int = 2, gap: int = 1, tail: int = 2) -> Prompt:
    """Sinks, chunks of these sizes with protected gaps between them, and a protected tail."""
    chunks, at = [], sinks
    for number, size in enumerate(sizes):
        chunks.append(Chunk(f"chunk {number}", at, at + size))
        at += size + (gap if number < len(sizes) - 1 else 0)
    total = at + tail
    protected = torch.ones(total, dtype=torch.bool)
    for chunk in chunks:
        protected[chunk.start : chunk.stop] = False
    return Prompt(torch.arange(total), protected, tuple(chunks), (total - 1, total))


def observe(
    prompt: Prompt, scores: list[float] | None = None, layer: int = 1, seed: int = 0, pos: list[int] | None = None
) -> Observation:
    """After a layer, with these attention scores (one head has twice them, the other none), at these positions."""
    active = torch.arange(len(prompt)) if pos is None else torch.tensor(pos)
    attention: Tensor | None = None
    if scores is not None:
        attention = torch.stack([2 * torch.tensor(scores), torch.zeros(len(scores))])
    return Observation(layer, active, prompt, torch.Generator().manual_seed(seed), attention)
