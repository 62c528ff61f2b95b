"""What is fixed before any attention is seen: chunks, observers, sinks, target and protocol of a prompt."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from fewer.prune.entroprefill.chunks import Candidates
from fewer.prune.entroprefill.monitor import foreign
from fewer.prune.entroprefill.protocol import AuditDraw, Protocol, draw
from fewer.prune.entroprefill.settings import Settings
from fewer.types import Prompt

__all__ = ["Situation", "why_not"]


@dataclass(frozen=True)
class Situation:
    """One prompt under these settings. `seed` mixes the settings' own with the prompt's ids."""

    settings: Settings
    prompt: Prompt
    candidates: Candidates
    observers: tuple[int, ...]  # positions of the proposal rows
    target: int  # tokens to leave out; the scan stops there
    least: int  # tokens that have to be left out for it to be worth while
    protocol: Protocol
    seed: int

    @classmethod
    def of(cls, settings: Settings, heads: Mapping[int, tuple[int, ...]], prompt: Prompt) -> Situation:
        """heads: the monitored ones by layer. The prompt has chunks and a query (`why_not` says nothing)."""
        candidates = Candidates.of(prompt)
        query = tuple(range(*prompt.query))
        digest = hashlib.sha256(prompt.ids.numpy().tobytes()).hexdigest()
        seed = int(hashlib.sha256(f"{settings.seed}|{digest}".encode()).hexdigest()[:15], 16)
        count = min(settings.observers, len(query))
        if settings.choose_observers == "suffix":
            observers = query[-count:]
        else:
            drawn = np.random.default_rng([1, seed]).choice(len(query), count, replace=False)
            observers = tuple(sorted(query[index] for index in drawn.tolist()))
        size = len(prompt)
        target = min(candidates.num_tokens, max(0, size - settings.keep.count(size)))
        least = max(1, size - settings.keep_at_most.count(size))
        exact = settings.audit == "exact" or (settings.audit == "auto" and len(query) <= settings.exact_limit)
        written = json.dumps([asdict(settings), digest, candidates.starts.tolist(), candidates.stops.tolist()])
        protocol = Protocol(
            monitored=tuple(heads.items()),
            proposal=observers,
            population=query,
            mode="exact" if exact or settings.audit == "off" else "hoeffding",
            num_draws=settings.audit_draws,
            delta=settings.delta,
            tolerance=settings.audit_tolerance,
            relative=settings.mass == "document",
            settings_digest=hashlib.sha256(written.encode()).hexdigest(),
        )
        return cls(settings, prompt, candidates, observers, target, least, protocol, seed)

    @cached_property
    def positions(self) -> tuple[int, ...]:
        """Whose attention is wanted: the observers', and what the audit reads. Ascending."""
        return self.observers if self.settings.audit == "off" else self.draw().rows

    def pick_observers(self, rows: Tensor) -> Tensor:
        """Of rows [H, m, T] of `positions`, those that propose: [H, W_p, T]."""
        positions = self.positions
        return rows[:, [positions.index(position) for position in self.observers]]

    @property
    def rows_a_head(self) -> int:
        """Constraint rows of one head: one each observer, or one."""
        return len(self.observers) if self.settings.rows == "each" else 1

    def names(self, layer: int, count: int) -> tuple[int, ...]:
        """Which head each of the `count` heads of a tensor is: the layer's own, then the monitored ones of others."""
        others = foreign(self.protocol.heads(layer))
        return (*range(count - len(others)), *others)

    def draw(self) -> AuditDraw:
        """The audit's positions: the same at each call, with a blank record of what was opened.

        It is called at every layer. No setting or candidate depends on what an earlier audit showed, only whether to go
        on, and that Theorem 5.1 allows.
        """
        return draw(self.protocol, self.seed)

    def sinks(self, device: torch.device) -> Tensor:
        """Which positions are sinks: [T] bool."""
        mask = torch.zeros(len(self.prompt), dtype=torch.bool)
        mask[: self.settings.sinks] = self.prompt.protected[: self.settings.sinks]
        return mask.to(device)


def why_not(prompt: Prompt, min_chunks: int = 0) -> str | None:
    """Why the procedure cannot start on this prompt, if so. min_chunks: so many of the candidates have to stay."""
    if prompt.query[0] == prompt.query[1]:
        return "no query: the prompt does not say which positions ask"
    candidates = Candidates.of(prompt)
    if not candidates.num_tokens:
        return "no chunks: nothing before the query may be left out as a whole"
    if len(candidates) <= min_chunks:
        must = f"{min_chunks} chunk{'s' * (min_chunks != 1)} must stay (min_chunks)"
        return f"{must}, and {len(candidates)} may leave: nothing could"
    return None
