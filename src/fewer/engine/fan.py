"""One prompt answered in several ways at once: the prefill is shared as far as it goes, then all decode together.

Each way gets the tokens that it would get alone, exactly so in float32 (in bfloat16 other row counts round differently
while decoding). Seconds of a shared prefill are sums of measured parts; those of decoding have batch mates. Not
covered: prompts that differ.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from traceback import clear_frames

from torch import Tensor

from fewer.engine.batch import Batch
from fewer.engine.request import Answer, Request
from fewer.engine.score import Reading, read_tokens
from fewer.engine.sequence import Sequence, read_parts
from fewer.errors import bad
from fewer.model.shared import Prefilled, forward_shared

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
        way_out = "Lay it out once with engine.prompt, then Request(prompt, sampling, planner) for each way."
        raise bad("requests", len(requests), "requests over one and the same Prompt", way_out)
    room = batch.adapter.max_positions - len(requests[0].prompt) + 1  # the last token needs no position
    if reference is not None and len(reference) > room:
        legal = f"at most {room} tokens, the positions that the prompt leaves"
        raise bad("the length of the reference", len(reference), legal, "Cut it.")
    batch.repeater.remembers = True  # seconds are sums of measured parts here, so what is shared can be told to each
    errors: dict[int, Exception] = {}
    sequences: dict[int, Sequence] = {}
    for index, request in enumerate(requests):
        try:
            sequences[index] = batch.make(request)
        except Exception as error:
            errors[index] = error
    answers: dict[int, Answer] = {}
    references: dict[int, tuple[float, ...]] = {}
    for index, branch in _prefill(batch, sequences).items():
        sequence = sequences[index]
        try:
            if branch.error is not None:
                raise branch.error
            if reference is not None:
                references[index] = _read(batch, branch, reference)
            batch.enter(sequence, branch)
        except Exception as error:
            errors[index] = error
    while not batch.idle:
        batch.step()
    for index, sequence in sequences.items():
        if sequence.error is None and index not in errors:
            try:
                answers[index] = finish(sequence)
            except Exception as error:  # a planner may describe itself as something no receipt can hold
                errors[index] = error
        sequence.state.clear()
    for failed in (*errors.values(), *(one.error for one in sequences.values() if one.error is not None)):
        clear_frames(failed.__traceback__)  # the outcome holds it, and it would hold the caches of where it was raised
    return [
        Outcome(answers.get(index), references.get(index), errors.get(index) or _error_of(sequences.get(index)))
        for index in range(len(requests))
    ]


def _prefill(batch: Batch, sequences: dict[int, Sequence]) -> dict[int, Prefilled]:
    """Everyone's prefill and what its keeper does after it; the tokens that several read first are computed once.

    Those that compress before the whole prompt is read share what they read until then, and go on alone.
    """
    segments = {index: one.segment() for index, one in sequences.items()}
    groups: dict[int, list[int]] = defaultdict(list)
    for index, segment in segments.items():
        groups[segment.ids.numel()].append(index)
    found: dict[int, Prefilled] = {}
    for group in groups.values():
        for place, branch in forward_shared(batch.adapter, [segments[index] for index in group]):
            found[group[place]] = read_parts(batch.adapter, sequences[group[place]], branch)
    return found


def _read(batch: Batch, branch: Prefilled, reference: Tensor) -> tuple[float, ...]:
    """How likely each token of the reference is after the branch, which stays as it is."""
    assert branch.logits is not None
    reading = Reading(branch.segment.state.fork(), branch.logits, reference)
    read_tokens(batch.adapter, [reading])
    return tuple(reading.logprobs)


def _error_of(sequence: Sequence | None) -> Exception | None:
    return sequence.error if sequence is not None else None
