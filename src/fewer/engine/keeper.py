"""Keeps the cache of one running sequence within its policy, and what that did and may have cost.

The cache is compressed once the prompt, or its context, has been read (after each block of it, if it is read in
blocks), and while decoding as often as the policy says. From then on a witness sees the attention of every pass, where
the policy's samples can have a certificate. In a session the cache lives on from one prompt to the next, and is
compressed when that is asked for (`compress`), and by itself only where reading goes block by block, or while decoding.
"""

from __future__ import annotations

from copy import copy
from dataclasses import replace

import torch
from torch import Tensor

from fewer.certify import Certifier, KnownProbabilities, StepCertificate, audit
from fewer.decide.entropy import EntropyMeter
from fewer.engine.repeat import Repeated, Repeater
from fewer.evict import Eviction, Policy, compress
from fewer.kv import State
from fewer.query_log import QueryLog
from fewer.types import CacheView, Prompt, Sample

__all__ = ["Keeper"]


class Keeper:
    """One sequence's policy at work. evictions: every compression that took something away, in order.

    evidence: whether to measure the entropy of attention too, from the first compression on.
    """

    def __init__(self, policy: Policy, prompt: Prompt, seed: int, evidence: bool = False) -> None:
        self.policy, self.seed = policy, seed
        self.evictions: list[Eviction] = []
        self.certificates: list[StepCertificate] = []  # of every decode step since the first compression
        self.read: list[StepCertificate] = []  # of passes over parts of the prompt since then
        self.entropies: list[Tensor] = []  # as certificates, [L, heads, rows] each
        self.read_entropies: list[Tensor] = []
        self._meter = EntropyMeter() if evidence else None
        self.seconds = 0.0  # that compressing took, also where nothing left
        self.elsewhere = 0.0  # of them: spent when another sequence had the same text repeated
        self.most_bytes = 0  # of keys and values, before a compression or after
        self.witness: Certifier | None = None
        self.watched = True  # whether there is to be a witness; what it sees is kept
        self.repeater: Repeater | None = None  # who has the text repeated, where the score needs that
        self.answer: list[int] = []  # tokens behind the prompt, as they come
        self.turns = 0  # compressions, also those that took nothing away
        self.last = 0  # tokens seen at the last compression
        self.rows: list[int] = []  # of each layer, right after it
        self.kappa: dict[int, Tensor | None] = {}  # by layer, of its last draw
        self._prompt = prompt
        self._moment: int | None = len(prompt)  # tokens read when the cache is compressed; None: when it is asked for
        if policy.moment == "context":
            ends = [chunk.stop for chunk in prompt.chunks]
            self._moment = max(ends, default=prompt.query[0]) or len(prompt)

    def open(self, state: State) -> None:
        """Have a new sequence set aside the queries that the score needs."""
        state.queries = QueryLog(self.policy.score.needs, len(state.layers))

    def go_on(self, prompt: Prompt, evidence: bool = False) -> Keeper:
        """The same policy at work on the next prompt of a session, which begins with what the cache has seen.

        Compressions count on, certificates start anew. It compresses by itself whenever `policy.block` rows have been
        added since the last time while it reads, or `policy.every` while it decodes; this one stays as it is.
        """
        following = copy(self)
        following._prompt, following._moment, following.answer = prompt, None, []
        following.certificates, following.read = [], []
        following.entropies, following.read_entropies = [], []
        following._meter = EntropyMeter() if evidence else None
        following.evictions, following.kappa = [*self.evictions], dict(self.kappa)
        return following

    def part(self, state: State) -> slice:
        """The part of the prompt that the next pass reads."""
        start, stop = state.num_seen, len(self._prompt)
        if self._moment is not None and start < self._moment:
            stop = self._moment
        if self.policy.block is not None:
            room = self.policy.block if self._moment is not None else max(1, self.last + self.policy.block - start)
            stop = min(stop, start + room)
        return slice(start, stop)

    def latest(self, max_tokens: int) -> int:
        """The most tokens that can have been seen when it compresses by itself; 0 where it does not."""
        size = len(self._prompt)
        if self.policy.every is not None:
            return size + max_tokens
        return self._moment if self._moment is not None else size if self.policy.block is not None else 0

    @property
    def num_asked(self) -> int:
        """Tokens at the prompt's end that are read after its context was compressed: in a session, all that are new."""
        return len(self._prompt) - (self._moment or 0)

    @property
    def meter(self) -> EntropyMeter | None:
        """What measures the next pass; None before the first compression and where nobody asked."""
        return self._meter if self.turns else None

    @property
    def in_parts(self) -> bool:
        """Whether the prompt is read in more than one pass."""
        return self._moment is None or self.policy.block is not None or self._moment < len(self._prompt)

    @torch.inference_mode()  # as the pass was: the witness goes on with buffers that it made there
    def settle(self, state: State) -> None:
        """After a pass: take what was seen of it, and compress if it is time. Doing it twice is doing it once."""
        reads = state.num_seen <= len(self._prompt)
        if self.witness is not None and (step := self.witness.finish()) is not None:
            (self.read if reads else self.certificates).append(step)
        if self._meter is not None and (entropy := self._meter.finish()) is not None:
            (self.read_entropies if reads else self.entropies).append(entropy)
        if self._due(state):
            self.compress(state)

    def compress(self, state: State) -> Eviction:
        """Bring the cache down to the budget now; a witness sees what reads it from here on, where one is wanted."""
        self.most_bytes = max(self.most_bytes, state.nbytes)
        audited = self.policy.certified is not None and self.policy.form == "audited"
        known = self._moment if self.policy.moment == "context" else len(self._prompt)
        num_tokens = max(known or 0, state.num_seen)
        again = self._repeat(state)
        eviction = compress(
            state,
            self.policy,
            self.seed,
            self.turns,
            num_tokens,
            self._audit if audited else None,
            None if again is None else again.layers,
        )
        if again is not None:
            took = eviction.seconds + again.seconds
            eviction = replace(eviction, seconds=took, repeated_tokens=again.num_tokens)
            self.elsewhere += again.seconds if again.remembered else 0.0
        self.seconds += eviction.seconds
        self.turns, self.last = self.turns + 1, state.num_seen
        if eviction.num_evicted:
            self.evictions.append(eviction)
        self.most_bytes = max(self.most_bytes, state.nbytes)
        self.rows = [kv.num_rows for kv in state.layers]
        if state.queries is not None and self._moment is not None:
            state.queries.open = self.policy.every is not None or self.policy.block is not None
        if self.watched:
            self.watch(state)
        return eviction

    def watch(self, state: State) -> None:
        """Set up the witness of what was there right after the last compression; rows that came later are certain."""
        design = self.policy.certified
        if design is None or not any(kv.sampled for kv in state.layers):
            return
        known: list[KnownProbabilities | None] = []
        values = []
        for kv, rows in zip(state.layers, self.rows, strict=True):
            known.append(None if kv.pi is None else KnownProbabilities(kv.pi[:, :rows], design.variance))
            values.append(kv.v[:, :rows])
        kappa = [self.kappa.get(index) for index in range(len(values))] if self.policy.form == "audited" else None
        self.witness = Certifier(known, values, self.policy.level, form=self.policy.form, kappa=kappa)

    def _repeat(self, state: State) -> Repeated | None:
        """What the score wants to see of the text since the last compression, read once more."""
        needs = self.policy.score.needs
        if needs.observers != "repeat":
            return None
        assert self.repeater is not None
        ids = torch.cat([self._prompt.ids, torch.tensor(self.answer, dtype=torch.int64)])[: state.num_seen]
        return self.repeater.repeat(state, ids, self.last, needs.count)

    def _audit(self, view: CacheView, sample: Sample) -> None:
        """Of a draw that left something to chance; another one leaves the factor of the draw before it."""
        if bool((sample.pi < 1).any()):
            self.kappa[view.layer - 1] = audit(view, sample, self.policy.level)

    def _due(self, state: State) -> bool:
        added = state.num_seen - self.last
        if added <= 0:
            return False
        if self._moment is None:
            most = self.policy.block if state.num_seen <= len(self._prompt) else self.policy.every
            return most is not None and added >= most
        if state.num_seen <= self._moment:
            return self.policy.block is not None or state.num_seen == self._moment
        return self.policy.every is not None and added >= self.policy.every
