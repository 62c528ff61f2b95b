"""Continuous batching: requests join and leave at any step, packed side by side without padding.

A step runs one pass over one new row of every running request and whole prompts of waiting ones, as many as fit. Each
request gets the tokens that it would get alone: rows never mix, and every request draws from its own generator.
Not covered: sharing prefixes, preemption; a request keeps its memory until it ends.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from fewer.engine.keeper import Keeper
from fewer.engine.repeat import Repeater
from fewer.engine.request import Request
from fewer.engine.sampling import Sampler
from fewer.engine.sequence import Sequence
from fewer.engine.text import TextStream
from fewer.errors import NonFiniteError, PromptTooLong, bad
from fewer.kv import State
from fewer.model.adapter import Adapter
from fewer.model.forward import forward
from fewer.model.segment import Segment, asks_again
from fewer.model.shared import Prefilled

__all__ = ["Batch"]

_HEADROOM = 256  # key and value rows reserved behind a prompt, at most


class Batch:
    """The running and the waiting. `step` until `idle`."""

    def __init__(
        self,
        adapter: Adapter,
        tokenizer: PreTrainedTokenizerBase,
        end_tokens: frozenset[int],
        max_running: int = 32,
        max_rows: int = 8192,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        self.adapter, self.tokenizer, self.end_tokens = adapter, tokenizer, end_tokens
        self.max_running, self.max_rows = max_running, max_rows
        self.running: list[Sequence] = []
        self.waiting: deque[Sequence] = deque()
        self._progress = progress
        self.repeater = Repeater(adapter, tokenizer)

    @property
    def idle(self) -> bool:
        """Nothing runs and nothing waits."""
        return not self.running and not self.waiting

    def add(self, request: Request, arrived: float | None = None) -> Sequence:
        """Queue a request, after checking it against the model."""
        sequence = self.make(request, arrived)
        self.waiting.append(sequence)
        return sequence

    def make(
        self,
        request: Request,
        arrived: float | None = None,
        unread: int = 0,
        state: State | None = None,
        keeper: Keeper | None = None,
    ) -> Sequence:
        """A sequence that is in nobody's queue, checked against the model. `unread`: tokens without a position.

        state: what the prompt's first tokens left, where they have been read before; then `keeper` is what keeps it
        within the request's policy.
        """
        if fitted := getattr(request.prune, "fitted", None):
            request = replace(request, prune=fitted(self.adapter.facts))
        _check(request, self.adapter, unread)
        if request.evict is not None and keeper is None:
            request.evict.check(len(request.prompt))
            if request.evict.every is not None:  # compressed again when the answer has made it longer
                request.evict.check(len(request.prompt) + request.sampling.max_tokens)
        sampling = request.sampling
        if state is None:
            state = State.new(self.adapter.num_layers, headroom=min(sampling.max_tokens, _HEADROOM))
            if request.evict is not None:
                keeper = Keeper(request.evict, request.prompt, sampling.seed, request.evidence)
                keeper.open(state)
        sequence = Sequence(
            request=request,
            state=state,
            keeper=keeper,
            sampler=Sampler(sampling, request.prompt.ids, self.adapter.device, request.evidence),
            text=TextStream(self.tokenizer, sampling.stop),
            arrived=time.perf_counter() if arrived is None else arrived,
            num_before=state.num_seen,
            evict_told_s=0.0 if keeper is None else keeper.seconds,
        )
        if keeper is not None:
            keeper.repeater, keeper.answer = self.repeater, sequence.ids
            needs = keeper.policy.score.needs
            if needs.observers == "repeat" and (size := keeper.latest(sampling.max_tokens)):
                self.repeater.check(size, min(needs.count, size))
        return sequence

    def enter(self, sequence: Sequence, prefilled: Prefilled) -> None:
        """Let a sequence in that was prefilled elsewhere: it takes its first token now and joins the running."""
        assert prefilled.logits is not None
        sequence.shared_prefill = prefilled.shared
        sequence.arrived = sequence.started = time.perf_counter() - prefilled.seconds - sequence.evict_s
        self.running.append(sequence)
        self._record(sequence, prefilled.segment, prefilled.logits, sequence.started)

    def cancel(self, sequence: Sequence) -> None:
        """Take a sequence out; the tokens and the text it has given out stay on it. Does nothing once it is out."""
        if sequence in self.waiting:
            self.waiting.remove(sequence)
        elif sequence in self.running:
            self.running.remove(sequence)
        else:
            return
        sequence.finish_reason, sequence.ended = "cancelled", time.perf_counter()

    def step(self) -> list[Sequence]:
        """One pass. Returns the sequences that took part; each has a new token (not while its prompt is read block by
        block), or an `error` and is out.

        An error stays with the sequence that caused it. What is not an error of a sequence, such as Ctrl-C, is raised
        and cancels all that took part.
        """
        self._admit()
        active = list(self.running)
        begin = time.perf_counter()
        try:
            for sequence, (segment, result) in zip(active, self._run(active), strict=True):
                if sequence.prefill is None and not sequence.started:
                    sequence.started = begin
                sequence.most_mates = max(sequence.most_mates, len(active) - 1)
                self._record(sequence, segment, result, begin)
        except BaseException:
            for sequence in active:
                self.cancel(sequence)
            raise
        return active

    def _run(self, active: list[Sequence]) -> list[tuple[Segment, Tensor | Exception]]:
        """Everyone's logits. A pass that raises is run again one by one, so that only the one at fault fails."""
        if not active:
            return []
        segments = [sequence.segment() for sequence in active]
        try:
            logits = forward(self.adapter, segments, self._report if self._progress else None)
        except Exception as error:
            if len(active) == 1:
                return [(segments[0], error)]
            return [result for sequence in active for result in self._run([sequence])]
        return list(zip(segments, logits, strict=True))

    def _admit(self) -> None:
        """Let waiting requests in, in order, while there is room for their prompts."""
        rows = len(self.running)
        while self.waiting and len(self.running) < self.max_running:
            size = self.waiting[0].segment().ids.numel()
            if rows and rows + size > self.max_rows:
                break
            self.running.append(self.waiting.popleft())
            rows += size

    def _record(self, sequence: Sequence, segment: Segment, result: Tensor | Exception, begin: float) -> None:
        """What a pass that began at `begin` gave a sequence: its next token, or an error that takes it out."""
        result = sequence.settle(result)
        token, result = (None, result) if sequence.unread else _choose(sequence, result)
        now = time.perf_counter()
        if sequence.prefill is None:
            sequence.prefill_s += now - begin - (sequence.evict_s - sequence.evict_told_s)
            sequence.evict_told_s = sequence.evict_s
        if sequence.unread and isinstance(result, Tensor):
            return
        if token is None:
            broken = result if isinstance(result, Exception) else _diagnose(self.adapter, sequence)
            sequence.error, sequence.ended = broken, now
            self.running.remove(sequence)
            return
        if sequence.prefill is None:
            sequence.prefill = segment
        sequence.step_s.append(now - begin)
        self._take(sequence, token, now)

    def _take(self, sequence: Sequence, token: int, now: float) -> None:
        """Record a token, and end the sequence where it ends."""
        sequence.ids.append(token)
        sequence.token_times.append(now)
        sampling = sequence.request.sampling
        if token in self.end_tokens and not sampling.ignore_eos:
            sequence.finish_reason = "stop"
        else:
            sequence.text.push(token)
            if sequence.text.stopped:
                sequence.finish_reason = "stop_string"
            elif len(sequence.ids) >= sampling.max_tokens:
                sequence.finish_reason = "length"
        if sequence.finish_reason:
            sequence.text.finish()
            if sequence.text.stopped:  # in what was held back until now
                sequence.finish_reason = "stop_string"
            sequence.ended = now
            self.running.remove(sequence)

    def _report(self, layer: int, hidden: Tensor) -> None:
        assert self._progress is not None
        if any(sequence.prefill is None for sequence in self.running):  # not in steps that only decode
            self._progress(layer, self.adapter.num_layers)


def _choose(sequence: Sequence, result: Tensor | Exception) -> tuple[int | None, Tensor | Exception]:
    """The next token, or None and why: the error there was, or the logits where they are not finite."""
    if isinstance(result, Exception):
        return None, result
    try:
        return sequence.sampler.choose(result), result
    except Exception as error:
        return None, error


def _check(request: Request, adapter: Adapter, unread: int = 0) -> None:
    """What can be known to fail before anything runs."""
    prompt, sampling = request.prompt, request.sampling
    low, high = int(prompt.ids.min()), int(prompt.ids.max())
    if low < 0 or high >= adapter.vocab_size:
        legal = f"from 0 to {adapter.vocab_size - 1}, the model's vocabulary"
        raise bad("token id", low if low < 0 else high, legal, "Use the tokenizer that belongs to the model.")
    if len(prompt) + sampling.max_tokens - unread > adapter.max_positions:
        raise PromptTooLong(
            f"The prompt has {len(prompt)} tokens and {sampling.max_tokens} more are asked for, "
            f"{len(prompt) + sampling.max_tokens} together; the model has {adapter.max_positions} positions. "
            "Give fewer documents, allow truncation, or ask for fewer tokens."
        )
    for name, value in (("top_k", sampling.top_k), ("logprobs", sampling.logprobs or 0)):
        if value > adapter.vocab_size:
            raise bad(name, value, f"at most {adapter.vocab_size}, the vocabulary", "Leave it out to switch it off.")
    if request.prune is not None:
        request.prune.layers(adapter.num_layers)
        request.prune.check(prompt)
    if request.evict is not None:
        if request.prune is not None and (request.evict.block is not None or request.evict.moment != "prompt"):
            name = "moment" if request.evict.block is None else "block"
            value = getattr(request.evict, name)
            raise bad(name, value, "left out with prune", "A planner needs the whole prompt at once.")
        if asks_again(request.prune):
            legal = "left out where pruned tokens can come back"
            raise bad("evict", request.evict.name, legal, 'Prune with LazyLLM(aux="off", selection="prefill"), or not.')


def _diagnose(adapter: Adapter, sequence: Sequence) -> NonFiniteError:
    """Names the layer where non-finite numbers begin, found by running the sequence again without pruning."""
    began: list[int] = []

    def look(layer: int, hidden: Tensor) -> None:
        if not began and not bool(torch.isfinite(hidden).all()):
            began.append(layer)

    ids = torch.cat([sequence.request.prompt.ids, torch.tensor(sequence.ids, dtype=torch.int64)])
    look(0, adapter.embed(ids.to(adapter.device)))
    forward(adapter, [Segment(State.new(adapter.num_layers), ids)], look)
    where = "in the output projection"
    if began:
        where = f"in layer {began[0]} of {adapter.num_layers}" if began[0] else "in the embedding"
    return NonFiniteError(
        f"The model's logits are not finite after {len(sequence.ids)} generated tokens; the first NaN or infinite "
        f"number appears {where}. Check the weights, or load them with dtype='float32'."
    )
