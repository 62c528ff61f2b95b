"""What each head of one layer said: how it was weighed, what it may lose by its weight, and what the audit found."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

import numpy as np
from numpy.typing import NDArray

from fewer.prune.entroprefill.envelope import row_bound
from fewer.prune.entroprefill.monitor import foreign, name_head
from fewer.prune.entroprefill.pooling import omega
from fewer.prune.entroprefill.procedure import Verdict
from fewer.prune.entroprefill.situation import Situation

__all__ = ["HeadLine", "list_heads"]


@dataclass(frozen=True, slots=True)
class HeadLine:
    """One head of the layer, or a monitored one of an earlier layer (`8.7`), which is not pooled: it has no weight, and
    no envelope bounds it.

    Entropies are in nats; None where nothing is off the sinks. Envelopes are (12), the most that leaves with the
    removal, in absolute mass, whatever tolerances are shares of; 1 says nothing.
    """

    head: str
    group: int | None
    monitored: bool
    eligible: bool
    residual: float | None  # z_h: attention off the sinks
    entropy: float | None  # H2_h, of the mean over the observers
    row_entropy: float | None  # the mean of the observers' own H2; well below `entropy`: they look at different tokens
    weight: float | None  # w_h; a group's sum to 1
    chi_square: float | None  # (11) of the head's mean against the pooled measure
    envelope: float | None  # of each observer's row, or with rows=mean of the head's mean
    mean_envelope: float | None  # of the head's mean
    sharp_envelope: float | None  # the same with `chi_square` as it was measured
    audit_mean: float | None
    audit_margin: float | None  # tolerance minus mean plus half-width; negative fails


def list_heads(situation: Situation, verdict: Verdict, num_groups: int) -> tuple[HeadLine, ...]:
    """All heads of the layer, monitored or not, since each is pooled; then the monitored ones of earlier layers."""
    pooled, seen = verdict.proposal.pooled, verdict.agreement
    count, monitored = len(pooled.weights), situation.protocol.heads(verdict.layer)
    empty: list[float | None] = [None] * count
    spread, divergence = empty, empty
    if seen is not None:
        spread, divergence = _finite(seen.row_entropy.cpu().numpy()), _finite(seen.chi_square.cpu().numpy())
    entropy, (each, mean, sharp) = _finite(pooled.entropy.cpu().numpy()), _bound(situation, verdict, num_groups)
    own = [
        HeadLine(
            name_head(head),
            head * num_groups // count,
            head in monitored,
            bool(pooled.eligible[head]),
            float(pooled.residual[head]),
            entropy[head],
            spread[head],
            float(pooled.weights[head]),
            divergence[head],
            each[head],
            mean[head],
            sharp[head],
            *_audit(verdict, head),
        )
        for head in range(count)
    ]
    nothing = (None, None, None, None, None, None, None, None)
    others = [
        HeadLine(name_head(head), None, True, False, *nothing, *_audit(verdict, head)) for head in foreign(monitored)
    ]
    return (*own, *others)


def _bound(situation: Situation, verdict: Verdict, num_groups: int) -> tuple[list[float | None], ...]:
    """Envelopes of the layer's heads: of what was pooled by `rows`, of their means, and of these with chi-square."""
    pooled, seen, removed = verdict.proposal.pooled, verdict.agreement, verdict.numbers.get("removed_mass")
    unknown: list[float | None] = [None] * len(pooled.weights)
    if removed is None:
        return unknown, unknown, unknown
    q, means = min(1.0, removed), omega(pooled, num_groups, 1).cpu().numpy()
    sharp = None if seen is None else row_bound(q, means, seen.chi_square.cpu().numpy())
    found = (row_bound(q, means / situation.rows_a_head), row_bound(q, means), sharp)
    return tuple(unknown if each is None else _finite(each) for each in found)


def _audit(verdict: Verdict, head: int) -> tuple[float | None, float | None]:
    """Mean and margin of a head that was audited."""
    found = verdict.audit
    if found is None or head not in found.heads:
        return None, None
    place = found.heads.index(head)
    return float(found.etahat[place]), float(found.margin[place])


def _finite(values: NDArray[np.float64]) -> list[float | None]:
    return [value if isfinite(value) else None for value in values.tolist()]
