"""The audit of a candidate on rows that its choice never saw (17)(18).

Where positions are drawn, Theorem 5.1: with probability at least 1 - delta over the draws, at every monitored layer and
head the mean mass that a row of the query loses is at most etahat + b; so it holds for whichever layer is accepted
after looking at all of them. In exact mode every row of the query is read: etahat is that mean itself, an identity; b
is 0, and no probability is involved.

Not covered: the worst row (it is a mean over the query), rows behind the query, deeper layers, generated tokens, and
whether a removed chunk holds the answer. It speaks of attention as the model computed it, in its own rounding. Over
many requests a share of up to delta of the bounds may fail.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fewer.prune.entroprefill.independence import Candidate, SealedRows, unseal
from fewer.prune.entroprefill.protocol import AuditDraw, AuditRefused, Protocol, draws_for, hoeffding_width

__all__ = ["AuditResult", "audit", "document_shares"]


@dataclass(frozen=True, slots=True, eq=False)
class AuditResult:
    """What the audit of one layer found. Masses are shares of a row's attention, or of that to chunks (`relative`)."""

    protocol: Protocol
    layer: int
    etahat: NDArray[np.float64]  # [heads], in the order of `heads`; read-only
    num_distinct: int  # rows of attention that were read

    @property
    def heads(self) -> tuple[int, ...]:
        """The monitored heads."""
        return self.protocol.heads(self.layer)

    @property
    def num_positions(self) -> int:
        """Positions that the mean is over: m_a, with repeats; in exact mode the length of the query."""
        return len(self.protocol.population) if self.protocol.mode == "exact" else self.protocol.num_draws

    @property
    def b(self) -> float:
        """The half-width that is added: (17), or 0 in exact mode."""
        return 0.0 if self.protocol.mode == "exact" else self.hoeffding_b

    @property
    def delta_spent(self) -> float:
        """What this draw has spent, at all its layers together: delta, or 0 in exact mode."""
        return 0.0 if self.protocol.mode == "exact" else self.protocol.delta

    @property
    def bound(self) -> NDArray[np.float64]:
        """[heads] min(1, etahat + b)."""
        return np.minimum(1.0, self.etahat + self.b)

    @property
    def margin(self) -> NDArray[np.float64]:
        """[heads] the tolerance minus the bound; negative where a head fails."""
        return self.protocol.tolerance - self.bound

    @property
    def passed(self) -> bool:
        """Whether every head's bound is within the tolerance (18)."""
        return bool((self.bound <= self.protocol.tolerance).all())

    @property
    def worst_head(self) -> int:
        """The head with the largest etahat, the first of equals."""
        return self.heads[int(self.etahat.argmax())]

    @property
    def hoeffding_b(self) -> float:
        """What b is, or in exact mode would have been, at the protocol's delta and number of draws."""
        return hoeffding_width(self.protocol.num_pairs, self.protocol.delta, self.protocol.num_draws)

    @property
    def hoeffding_room(self) -> float:
        """The tolerance minus `hoeffding_b`. Negative: no candidate can pass so many draws, whatever it removes."""
        return self.protocol.tolerance - self.hoeffding_b

    @property
    def draws_floor(self) -> int | None:
        """The fewest draws whose b alone is within the tolerance; None at a tolerance of 0."""
        return draws_for(self.protocol.tolerance, self.protocol.num_pairs, self.protocol.delta)

    @property
    def draws_needed(self) -> int | None:
        """An estimate for a fresh audit: the fewest draws that would pass at this etahat. None if none would."""
        room = self.protocol.tolerance - float(self.etahat.max())
        return draws_for(room, self.protocol.num_pairs, self.protocol.delta)


def audit(draw: AuditDraw, candidate: Candidate, sealed: SealedRows) -> AuditResult:
    """Open a layer's sealed rows and average the mass that the candidate removes from them.

    Raises AuditRefused for rows sealed under another draw, and for a candidate made under another protocol, from
    another draw, or for another layer; and for a layer that was opened before.
    """
    if sealed.draw is not draw:
        raise AuditRefused("The rows were sealed under another draw. Pass the draw that went into split_rows.")
    mass = unseal(sealed, candidate)
    if draw.protocol.relative:
        mass = document_shares(mass)
    lost = np.minimum(1.0, mass[..., np.array(candidate.removed, dtype=bool)].sum(axis=-1))  # [heads, rows]
    counts = np.array(draw.counts, dtype=np.float64)
    etahat = np.frombuffer((lost @ counts / counts.sum()).tobytes(), dtype=np.float64)
    return AuditResult(draw.protocol, sealed.layer, etahat, len(counts))


def document_shares(mass: NDArray[np.float64]) -> NDArray[np.float64]:
    """Chunk masses [..., k] of rows as shares of each row's mass on all k chunks.

    A row that looks at no chunk at all cannot say that one may go: each of its shares is 1, so that removing anything
    counts as losing everything, and removing nothing as losing nothing. These rows sum to k.
    """
    total = mass.sum(axis=-1, keepdims=True)
    shares = np.ones_like(mass)
    np.divide(mass, total, out=shares, where=total > 0)
    return shares
