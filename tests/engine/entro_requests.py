"""Requests over made-up chunks, and EntroPrefill with settings under which it often acts."""

from __future__ import annotations

from typing import Any

import torch
from tinytext import random_ids

from fewer import (
    Chunk,
    EntroPrefill,
    Prompt,
    Request,
    Sampling,
)

EASY = {
    "keep": "50%",
    "keep_at_most": "85%",
    "tolerance": 0.6,
    "audit_tolerance": 0.6,
    "mass": "document",
    "document_min": 1e-9,
    "residual_min": 1e-6,
    "observers": 2,
    "shortest": 0,
}


def chunked(seed: int, sizes: tuple[int, ...] = (9, 6, 12, 7), query: int = 6) -> Prompt:
    """Two sinks, chunks with a protected token behind each, the query, and two tokens behind it."""
    chunks, at = [], 2
    for number, size in enumerate(sizes):
        chunks.append(Chunk(f"chunk {number}", at, at + size))
        at += size + 1
    total = at + query + 2
    protected = torch.ones(total, dtype=torch.bool)
    for chunk in chunks:
        protected[chunk.start : chunk.stop] = False
    return Prompt(torch.tensor(random_ids(seed, total)), protected, tuple(chunks), (at, at + query))


def entro(**changes: Any) -> EntroPrefill:
    given = {"monitor": "1-3:all", **EASY, **changes}
    return EntroPrefill(**{name: value for name, value in given.items() if value is not None})


def ask(prompt: Prompt, prune: Any, **sampling: Any) -> Request:
    return Request(prompt, Sampling(**{"max_tokens": 10, "ignore_eos": True, **sampling}), prune)
