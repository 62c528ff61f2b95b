"""Keeps the cache of one running sequence within its policy, and what that did and may have cost.

The cache is compressed once the prompt, or its context, has been read (after each block of it, if it is read in
blocks), and while decoding as often as the policy says. From then on a witness sees the attention of every pass, where
the policy's samples can have a certificate.
"""

from __future__ import annotations

from torch import Tensor

from fewer.certify import Certifier, KnownProbabilities, StepCertificate, audit
from fewer.evict import Eviction, Policy, compress
from fewer.kv import State
from fewer.query_log import QueryLog
from fewer.types import CacheView, Prompt, Sample

__all__ = ["Keeper"]


class Keeper:
    """One sequence's policy at work. evictions: every compression that took something away, in order."""

    def __init__(self, policy: Policy, prompt: Prompt, seed: int) -> None:
        self.policy, self.seed = policy, seed
        self.evictions: list[Eviction] = []
        self.certificates: list[StepCertificate] = []  # of every decode step since the first compression
        self.read: list[StepCertificate] = []  # of passes over parts of the prompt since then
        self.seconds = 0.0  # spent on compressing, also where nothing left
        self.most_bytes = 0  # of keys and values, before a compression or after
        self.witness: Certifier | None = None
        self._prompt = prompt
        self._moment = len(prompt)  # tokens read when the cache is compressed
        if policy.moment == "context":
            ends = [chunk.stop for chunk in prompt.chunks]
            self._moment = max(ends, default=prompt.query[0]) or len(prompt)
        self._turns = 0
        self._last = 0  # tokens seen at the last compression
        self._kappa: dict[int, Tensor | None] = {}  # by layer, of its last draw

    def open(self, state: State) -> None:
        """Have a new sequence set aside the queries that the score needs."""
        state.queries = QueryLog(self.policy.score.needs, len(state.layers))

    def part(self, state: State) -> slice:
        """The part of the prompt that the next pass reads."""
        start, stop = state.num_seen, len(self._prompt)
        if start < self._moment:
            stop = self._moment
        if self.policy.block is not None:
            stop = min(stop, start + self.policy.block)
        return slice(start, stop)

    @property
    def in_parts(self) -> bool:
        """Whether the prompt is read in more than one pass."""
        return self.policy.block is not None or self._moment < len(self._prompt)

    def settle(self, state: State) -> None:
        """After a pass: take its certificate, and compress if it is time. Doing it twice is doing it once."""
        if self.witness is not None and (step := self.witness.finish()) is not None:
            (self.read if state.num_seen <= len(self._prompt) else self.certificates).append(step)
        if not self._due(state):
            return
        self.most_bytes = max(self.most_bytes, state.nbytes)
        design = self.policy.certified
        audits = self._audit if design is not None and self.policy.radius == "audited" else None
        num_tokens = max(len(self._prompt), state.num_seen)
        eviction = compress(state, self.policy, self.seed, self._turns, num_tokens, audits)
        self.seconds += eviction.seconds
        self._turns, self._last = self._turns + 1, state.num_seen
        if eviction.num_evicted:
            self.evictions.append(eviction)
        self.most_bytes = max(self.most_bytes, state.nbytes)
        if design is not None and any(kv.sampled for kv in state.layers):
            known = [None if kv.pi is None else KnownProbabilities(kv.pi, design.variance) for kv in state.layers]
            values = [kv.v for kv in state.layers]
            kappa = None if audits is None else [self._kappa.get(index) for index in range(len(values))]
            self.witness = Certifier(known, values, self.policy.delta, form=self.policy.radius, kappa=kappa)

    def _audit(self, view: CacheView, sample: Sample) -> None:
        """Of a draw that left something to chance; another one leaves the factor of the draw before it."""
        if bool((sample.pi < 1).any()):
            self._kappa[view.layer - 1] = audit(view, sample, self.policy.delta)

    def _due(self, state: State) -> bool:
        if state.num_seen <= self._last:
            return False
        if state.num_seen <= self._moment:
            return self.policy.block is not None or state.num_seen == self._moment
        return self.policy.every is not None and state.num_seen - self._last >= self.policy.every
