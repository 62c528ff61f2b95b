"""How likely given tokens are after a prompt: the model reads them instead of choosing its own.

With pruning the prompt is prefilled as for an answer, and the tokens are read with what it left. Natural logarithms,
float32, before temperature. Not covered: gradients, and tokens inside the prompt.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import groupby

import torch
from torch import Tensor

from fewer.engine.batch import Batch
from fewer.engine.request import Request, TokenLogprob
from fewer.engine.sequence import Sequence
from fewer.errors import NonFiniteError, bad
from fewer.kv import State
from fewer.model.adapter import Adapter
from fewer.model.forward import forward
from fewer.model.segment import Segment
from fewer.receipt import Receipt

__all__ = ["Reading", "Score", "as_tokens", "read_tokens", "score_requests"]

PIECE = 512  # tokens read in one pass: the logits of more would take more memory than the keys and values
ROWS = 2048  # prompt tokens prefilled in one pass, where several prompts share it


@dataclass(frozen=True)
class Score:
    """Given tokens after a prompt. logprobs: nats, one each. greedy: whether the token was the likeliest."""

    logprobs: tuple[float, ...]
    greedy: tuple[bool, ...]
    receipt: Receipt

    @property
    def total(self) -> float:
        """Log-probability of all of them, in nats."""
        return sum(self.logprobs)


@dataclass(eq=False)
class Reading:
    """Tokens [n] to be read after a state whose last row gave `logits` [1, vocab], and what was found so far."""

    state: State
    logits: Tensor
    tokens: Tensor
    logprobs: list[float] = field(default_factory=list)
    margins: list[float] = field(default_factory=list)
    greedy: list[bool] = field(default_factory=list)

    def judge(self, logits: Tensor) -> None:
        """Take the next tokens' logits [m, vocab]."""
        if not bool(torch.isfinite(logits).all()):
            raise NonFiniteError(
                f"The model's logits are not finite after {len(self.logprobs)} given tokens. Check the weights, or "
                "load them with dtype='float32'."
            )
        start = len(self.logprobs)
        tokens = self.tokens[start : start + len(logits)].to(logits.device)
        best, index = logits.topk(2, dim=-1)
        given = logits.gather(1, tokens[:, None])[:, 0]
        self.logprobs += (given - torch.logsumexp(logits, dim=-1)).tolist()
        self.margins += (best[:, 0] - best[:, 1]).tolist()
        self.greedy += (index[:, 0] == tokens).tolist()


def read_tokens(adapter: Adapter, readings: Iterable[Reading]) -> None:
    """Read every reading's tokens; the last one is judged and not read, so a state grows by n - 1."""
    waiting = []
    for reading in readings:
        reading.judge(reading.logits)
        if len(reading.tokens) > 1:
            waiting.append(reading)
    while waiting:
        room, segments = PIECE, []
        for reading in waiting:
            start = len(reading.logprobs) - 1
            most = room if reading.state.aux is None else 1  # each token chooses anew
            piece = reading.tokens[start : min(start + most, len(reading.tokens) - 1)]
            segments.append(Segment(reading.state, piece, logits="all"))
            room -= len(piece)
            if not room:
                break
        for reading, logits in zip(list(waiting), forward(adapter, segments), strict=False):
            reading.judge(logits)
        waiting = [reading for reading in waiting if len(reading.logprobs) < len(reading.tokens)]


def score_requests(batch: Batch, requests: list[Request], continuations: list[Tensor]) -> Iterator[Sequence]:
    """Each request's sequence, in order, with the tokens as its answer. Equal prompts in a row are prefilled once."""
    for request in requests:
        if request.evict is not None and request.evict.every is not None:
            legal = "left out: given tokens are read many at a time, after one compression"
            raise bad("every", request.evict.every, legal, "Score with a policy that compresses once.")
    sequences = [
        batch.make(replace(request, sampling=replace(request.sampling, max_tokens=len(tokens), logprobs=0)), unread=1)
        for request, tokens in zip(requests, continuations, strict=True)
    ]
    pairs = [list(some) for _, some in groupby(zip(sequences, continuations, strict=True), lambda pair: _key(pair[0]))]
    while pairs:
        rows, taken = 0, 0
        while taken < len(pairs) and (not taken or rows + len(pairs[taken][0][0].request.prompt) <= ROWS):
            rows += len(pairs[taken][0][0].request.prompt)
            taken += 1
        yield from _score(batch.adapter, pairs[:taken])
        pairs = pairs[taken:]


def _score(adapter: Adapter, groups: list[list[tuple[Sequence, Tensor]]]) -> Iterator[Sequence]:
    """One pass over the groups' prompts, then over their tokens."""
    begin = time.perf_counter()
    segments, logits = _prefill(adapter, [group[0][0] for group in groups])
    evict_s = sum(group[0][0].evict_s for group in groups)
    prefill_s, readings = time.perf_counter() - begin - evict_s, []
    for group, segment, row in zip(groups, segments, logits, strict=True):
        first = group[0][0]
        for sequence, _ in group[1:]:
            sequence.state, sequence.keeper, sequence.parts = segment.state.fork(), first.keeper, first.parts
        for sequence, tokens in group:
            sequence.prefill, sequence.prefill_s, sequence.started = segment, prefill_s, begin
            sequence.most_mates, sequence.shared_prefill = len(groups) - 1, len(group) > 1
            readings.append((sequence, Reading(sequence.state, row, tokens)))
    read_tokens(adapter, [reading for _, reading in readings])
    now = time.perf_counter()
    for sequence, reading in readings:
        sequence.ids = reading.tokens.tolist()
        sequence.token_times, sequence.ended, sequence.finish_reason = [now], now, "scored"
        sequence.sampler.margins = reading.margins
        sequence.sampler.logprobs = [TokenLogprob(*pair) for pair in zip(sequence.ids, reading.logprobs, strict=True)]
        sequence.greedy = reading.greedy
        yield sequence


def _prefill(adapter: Adapter, sequences: list[Sequence]) -> tuple[list[Segment], list[Tensor]]:
    """Read the prompts to their ends, and compress where that is asked for; each one's last pass and its logits."""
    segments: dict[int, Segment] = {}
    logits: dict[int, Tensor] = {}
    waiting = list(range(len(sequences)))
    while waiting:
        some = [sequences[index].segment() for index in waiting]
        for index, segment, row in zip(waiting, some, forward(adapter, some), strict=True):
            if isinstance(error := sequences[index].settle(row), Exception):
                raise error
            segments[index], logits[index] = segment, row
        waiting = [index for index in waiting if sequences[index].unread]
    adapter.settle()
    return [segments[index] for index in range(len(sequences))], [logits[index] for index in range(len(sequences))]


def _key(sequence: Sequence) -> tuple[object, ...]:
    request = sequence.request
    prompt = request.prompt
    return (
        prompt.ids.numpy().tobytes(),
        prompt.protected.numpy().tobytes(),
        request.prune,
        request.evict,
        request.sampling.seed,
    )


def as_tokens(continuation: object, vocab_size: int) -> Tensor:
    """Given tokens as one row of ids. Raises BadInput for none, or for what the model does not know."""
    way_out = "Pass the token ids that follow the prompt."
    try:
        tokens = torch.as_tensor(continuation)
    except (TypeError, ValueError, RuntimeError):
        raise bad("continuation", continuation, "token ids", way_out) from None
    whole = tokens.dtype in (torch.int64, torch.int32) and tokens.dim() == 1 and tokens.numel() > 0
    if not whole or int(tokens.min()) < 0 or int(tokens.max()) >= vocab_size:
        raise bad("continuation", continuation, f"at least one id from 0 to {vocab_size - 1}", way_out)
    return tokens.to(torch.int64).cpu()
