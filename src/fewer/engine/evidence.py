"""The evidence of a finished sequence: what its keeper and its sampler saw, for signals to read."""

from __future__ import annotations

from collections.abc import Sequence as Several
from typing import TypeVar

import torch
from torch import Tensor

from fewer.decide import Evidence
from fewer.engine.sequence import Sequence

__all__ = ["collect_evidence", "finished_steps"]

T = TypeVar("T")


def collect_evidence(sequence: Sequence) -> Evidence | None:
    """Everything there is, where the request asked for it; None where it did not. Before the state is cleared."""
    if not sequence.request.evidence:
        return None
    logprobs = tuple(entry.logprob for entry in sequence.sampler.logprobs)
    keeper, ids = sequence.keeper, tuple(sequence.ids)
    if keeper is None:
        return Evidence(logprobs=logprobs, ids=ids)
    steps, asked = max(0, len(ids) - 1), keeper.num_asked
    last = keeper.evictions[-1] if keeper.evictions else None
    return Evidence(
        question=_newest([step.radius for step in keeper.read], asked),
        answer=_join([step.radius for step in finished_steps(sequence, keeper.certificates, steps)]),
        question_entropy=_newest(keeper.read_entropies, asked),
        answer_entropy=_join(finished_steps(sequence, keeper.entropies, steps)),
        evicted_mass=None if last is None else last.mass,
        boundary_margin=None if last is None else last.margin,
        logprobs=logprobs,
        ids=ids,
    )


def finished_steps(sequence: Sequence, seen: Several[T], num_steps: int) -> Several[T]:
    """What was seen in decode steps, without that of a pass that was interrupted and gave no token.

    num_steps: decode steps that gave one.
    """
    unfinished = max(0, sequence.state.num_seen - len(sequence.request.prompt) - num_steps)
    return seen[: len(seen) - unfinished]


def _join(parts: Several[Tensor]) -> Tensor | None:
    """[L, heads, rows] on the CPU."""
    return torch.cat(list(parts), dim=2).float().cpu() if parts else None


def _newest(parts: Several[Tensor], count: int) -> Tensor | None:
    """The last rows of what was read after the first compression, at most `count`; None where there are none."""
    joined = _join(parts) if count else None
    return None if joined is None else joined[..., max(0, joined.shape[2] - count) :]
