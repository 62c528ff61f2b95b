"""Algorithm 1 at one monitored layer: propose under the constraints, bound what can be had, audit, accept or not.

A candidate is made from the proposal rows alone; the audit's rows are sealed until there is one. Not covered: deeper
layers, which may look at what is removed here (Proposition 6.1), and rows of other positions than the query's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import floor
from time import perf_counter
from typing import Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fewer.prune.entroprefill.agreement import Agreement
from fewer.prune.entroprefill.audit import AuditResult, audit, document_shares
from fewer.prune.entroprefill.dual import Bound, best_bound
from fewer.prune.entroprefill.envelope import all_rows_bound
from fewer.prune.entroprefill.independence import split_rows
from fewer.prune.entroprefill.monitor import foreign, split_head
from fewer.prune.entroprefill.pooling import Pooled, pool
from fewer.prune.entroprefill.priority import Priorities, largest_lifts, order_chunks, prioritise
from fewer.prune.entroprefill.screening import Removal, Screen, scan
from fewer.prune.entroprefill.settings import Settings
from fewer.prune.entroprefill.situation import Situation
from fewer.prune.entroprefill.stability import change, streak

__all__ = ["OUTCOMES", "Outcome", "Proposal", "Verdict", "decide", "propose"]

Outcome = Literal[
    "accepted",
    "attention not finite",
    "no residual mass",
    "no document mass",
    "not decisive",
    "target infeasible",
    "target not met",
    "streak",
    "audit",
]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)


@dataclass(frozen=True, slots=True, eq=False)
class Proposal:
    """What the proposal rows of a layer say. `removal` is None where the layer cannot propose; `outcome` says why."""

    outcome: Outcome | None
    pooled: Pooled
    priorities: Priorities | None = None
    order: NDArray[np.intp] | None = None
    screen: Screen | None = None
    removal: Removal | None = None
    lifts: NDArray[np.float64] | None = None  # [k] the largest of any constraint row

    @property
    def open_tokens(self) -> int:
        """Tokens in chunks within `lift_at_most`."""
        return 0 if self.screen is None else int(self.screen.sizes[~self.screen.barred].sum())

    @property
    def kept(self) -> NDArray[np.bool_] | None:
        """Retained candidates, [k]."""
        return None if self.removal is None else ~self.removal.removed


@dataclass(frozen=True, slots=True, eq=False)
class Verdict:
    """What came of one layer. `bound` where there is a removal, `audit` where it was opened.

    agreement: of a layer that is watched, to explain it; nothing is decided by it.
    """

    layer: int
    outcome: Outcome
    proposal: Proposal
    bound: Bound | None
    audit: AuditResult | None
    numbers: dict[str, float]
    agreement: Agreement | None = None

    @property
    def says(self) -> str:
        """The numbers that decided, in one line."""
        numbers = self.numbers
        if self.outcome == "attention not finite":
            return "the attention has NaN or infinite numbers"
        if self.outcome == "no document mass":
            return f"the documents hold {numbers['document_mass']:.1%} of the pooled attention"
        if "saving" not in numbers:
            return f"{numbers['eligible_heads']:.0f} heads look beyond the sinks"
        least, target = numbers["least"], numbers["target"]
        if self.outcome == "not decisive":
            words = (
                f"{numbers['open_tokens']:.0f} of {numbers['candidate_tokens']:.0f} tokens are in chunks that every "
            )
            words += f"row gives at most {numbers['lift_at_most']:g} times an even share"
            return f"{words}, asked for {least:.0f}"
        words = f"{numbers['saving']:.0f} of {numbers['candidate_tokens']:.0f} tokens "
        words += f"{'left out' if self.outcome == 'accepted' else 'may leave'}, asked for {least:.0f}"
        words += f" to {target:.0f}" if target > least else ""
        words += f"; none could be more than {floor(numbers['dual_bound'])}"
        if self.outcome == "streak":
            words += f"; {_describe_streak(numbers)}"
        if "audit_bound" in numbers:
            words += f"; audit {numbers['audit_bound']:.1%} against {numbers['audit_tolerance']:.1%}"
        return words


def propose(situation: Situation, layer: int, rows: Tensor, num_groups: int) -> Proposal:
    """Equations (2) to (9), (14): rows [H + f, W_p, T] of the proposal observers, of all heads of the layer and then of
    the monitored ones of earlier layers. Only the layer's own are pooled.
    """
    settings = situation.settings
    sinks = situation.sinks(rows.device)
    heads, names = situation.protocol.heads(layer), situation.names(layer, len(rows))
    own = len(rows) - len(foreign(heads))
    pooled = pool(rows[:own], sinks, num_groups, settings.tau, settings.zeta, settings.residual_min)
    if not (pooled.finite and bool(torch.isfinite(rows[own:]).all())):
        return Proposal("attention not finite", pooled)
    if pooled.all_fell_back:
        return Proposal("no residual mass", pooled)
    candidates = situation.candidates
    priorities = prioritise(pooled.mu, candidates, settings.smoothing, settings.concentration)
    if priorities.document_mass < settings.document_min:
        return Proposal("no document mass", pooled, priorities)
    watched = candidates.mass(rows[[names.index(head) for head in heads]]).cpu().numpy()  # [heads, W_p, k]
    if settings.rows == "mean":
        watched = watched.mean(axis=1, keepdims=True)
    mass = watched.reshape(-1, len(candidates))
    lifts = largest_lifts(mass, candidates.sizes)
    if settings.mass == "document":
        mass = document_shares(mass)
    screen = Screen(
        mass,
        np.full(len(mass), settings.tolerance),
        candidates.sizes,
        min(settings.min_chunks, len(candidates)),
        situation.target,
        lifts > settings.lift_at_most,
    )
    order = order_chunks(settings.order, priorities, screen.shares, candidates.sizes)
    return Proposal(None, pooled, priorities, order, screen, scan(screen, order), lifts)


def decide(
    situation: Situation, layer: int, rows: Tensor, num_groups: int, earlier: Sequence[Proposal] = ()
) -> Verdict:
    """One layer's verdict. rows: [H + f, m, T] of `situation.positions`, all heads of the layer, and then the monitored
    ones of earlier layers.

    earlier: proposals of the monitored layers before, for the streak. The audit's positions are the same at every
    layer, as Theorem 5.1 allows; they are drawn again here with a blank record, and nothing is tuned in between.
    """
    begin = perf_counter()
    settings, split = situation.settings, None
    finite = bool(torch.isfinite(rows).all())
    if settings.audit != "off" and finite:
        draw, names = situation.draw(), situation.names(layer, len(rows))
        split = split_rows(draw, layer, rows, situation.positions, situation.candidates.mass, names)
    seen = situation.pick_observers(rows) if split is None else split[0].values
    proposal = propose(situation, layer, seen, num_groups)
    bound = None if proposal.screen is None else best_bound(proposal.screen, settings.lp_seconds)
    steady = _measure_streak(settings, earlier, proposal)
    outcome, audited = proposal.outcome if finite else "attention not finite", None
    if outcome is None:
        assert proposal.removal is not None
        assert bound is not None
        if proposal.removal.saving < situation.least:
            outcome = "target infeasible" if bound.excludes(situation.least) else "target not met"
            if proposal.open_tokens < situation.least <= situation.candidates.num_tokens:
                outcome = "not decisive"
        elif steady and steady["streak"] < settings.streak:
            outcome = "streak"
        else:
            if split is not None:
                candidate = split[0].propose(proposal.removal.removed, situation.protocol.settings_digest)
                audited = audit(draw, candidate, split[1])
            outcome = "accepted" if audited is None or audited.passed else "audit"
    numbers = _numbers(situation, proposal, bound, audited) | steady | {"seconds": perf_counter() - begin}
    return Verdict(layer, outcome, proposal, bound, audited, numbers)


def _measure_streak(settings: Settings, earlier: Sequence[Proposal], now: Proposal) -> dict[str, float]:
    """For the receipt, where a streak is asked for and the layer proposes: `streak` reached and `streak_asked`, in
    transitions, what counts as having stayed, and the last transition's `change` (19) if the layer before proposed too.
    """
    if not settings.streak or now.kept is None:
        return {}
    found: dict[str, float] = {
        "streak": streak([each.kept for each in (*earlier, now)], settings.streak_change),
        "streak_asked": settings.streak,
        "streak_change": settings.streak_change,
    }
    before = earlier[-1].kept if earlier else None
    return found if before is None else found | {"change": change(before, now.kept)}


def _describe_streak(numbers: Mapping[str, float]) -> str:
    asked, allowed = numbers["streak_asked"], numbers["streak_change"]
    words = "the choice has been the same" + (f" within {allowed:.1%}" if allowed else "")
    words += f" for {numbers['streak']:.0f} of {asked:.0f} transition{'s' * (asked != 1)}"
    return words + (f"; the last changed {numbers['change']:.1%} of it" if "change" in numbers else "")


def _numbers(
    situation: Situation, proposal: Proposal, bound: Bound | None, audited: AuditResult | None
) -> dict[str, float]:
    """For the receipt. Savings and bounds in tokens, masses as shares; `largest_lift` is that of what leaves.

    `envelope` is (12) over all heads of this layer, in absolute mass: of each observer's row, or with rows=mean of each
    head's mean over its observers. Watched heads of earlier layers are not pooled, and it does not bound them.
    """
    candidates, pooled = situation.candidates, proposal.pooled
    found: dict[str, float] = {
        "candidates": len(candidates),
        "candidate_tokens": candidates.num_tokens,
        "target": situation.target,
        "least": situation.least,
        "eligible_heads": int(pooled.eligible.sum()),
        "fallback_groups": pooled.num_fallback_groups,
    }
    if proposal.priorities is not None:
        found["document_mass"] = proposal.priorities.document_mass
    if proposal.removal is not None and proposal.screen is not None and proposal.lifts is not None:
        removal = proposal.removal
        gone = torch.from_numpy(removal.removed)
        removed_mass = float(candidates.mass(pooled.mu).cpu()[gone].sum())
        found |= {
            "saving": removal.saving,
            "removed_chunks": int(removal.removed.sum()),
            "removed_mass": removed_mass,
            "largest_row_loss": float((proposal.screen.tolerance - removal.slack).max(initial=0.0)),
            "tolerance": situation.settings.tolerance,
            "open_tokens": proposal.open_tokens,
            "largest_lift": float(proposal.lifts[removal.removed].max(initial=0.0)),
            "lift_at_most": situation.settings.lift_at_most,
            "envelope": all_rows_bound(
                min(1.0, removed_mass), len(pooled.weights), situation.rows_a_head, situation.settings.zeta
            ),
        }
    if bound is not None and proposal.removal is not None:
        found |= {
            "dual_bound": bound.value,
            "dual_gap": max(0.0, bound.value - proposal.removal.saving),
            "dual_seconds": bound.seconds,
        }
    if audited is not None:
        layer, head = split_head(audited.worst_head)
        found |= {
            "audit_bound": float(audited.bound.max()),
            "audit_mean": float(audited.etahat.max()),
            "audit_tolerance": situation.protocol.tolerance,
            "audit_positions": audited.num_positions,
            "audit_worst_layer": layer or audited.layer,
            "audit_worst_head": head,
            "audit_width": audited.b,
            "hoeffding_width": audited.hoeffding_b,
            "hoeffding_room": audited.hoeffding_room,
        }
    return found
