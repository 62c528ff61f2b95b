"""One prompt answered in several ways at once: the prefill is shared as far as it goes, then all decode together.

Each way gets the tokens that it would get alone, exactly so in float32 (in bfloat16 other row counts round differently
while decoding). Seconds of a shared prefill are sums of measured parts; those of decoding have batch mates. Not
covered: prompts that differ.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from fewer.engine.batch import Batch, Sequence
from fewer.engine.request import Answer, Request
from fewer.engine.score import Reading, read_tokens
from fewer.errors import bad
from fewer.model.shared import forward_shared

__all__ = ["Outcome", "fan_out"]


@dataclass(frozen=True)
class Outcome:
    """What one way gave: its answer, and how likely the reference was (nats, one each); or the error that ended it."""

    answer: Answer | None
    reference_logprobs: tuple[float, ...] | None
    error: Exception | None


def fan_out(
    batch: Batch, requests: list[Request], reference: Tensor | None, finish: Callable[[Sequence], Answer]
) -> list[Outcome]:
    """An outcome for each request, in order. An error stays with the request that caused it."""
    if any(request.prompt is not requests[0].prompt for request in requests):
        raise bad("requests", len(requests), "requests over one and the same Prompt", "Lay it out once and pass it on.")
    sequences = [batch.make(request) for request in requests]
    references: dict[int, tuple[float, ...]] = {}
    branches = forward_shared(batch.adapter, [sequence.segment() for sequence in sequences])
    for index, (sequence, branch) in enumerate(zip(sequences, branches, strict=True)):
        sequence.error = branch.error
        if branch.logits is None:
            continue
        if reference is not None:
            try:
                reading = Reading(branch.segment.state.fork(), branch.logits, reference)
                read_tokens(batch.adapter, [reading])
                references[index] = tuple(reading.logprobs)
            except Exception as error:
                sequence.error = error
                continue
        batch.enter(sequence, branch)
    while not batch.idle:
        batch.step()
    outcomes = []
    for index, sequence in enumerate(sequences):
        answer = None
        if sequence.error is None:
            try:
                answer = finish(sequence)
            except Exception as error:  # a planner may describe itself as something no receipt can hold
                sequence.error = error
        sequence.state.layers.clear()
        outcomes.append(Outcome(answer, references.get(index), sequence.error))
    return outcomes
