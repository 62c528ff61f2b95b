"""One layer's verdict taken apart: chunks, constraint rows, heads, bounds and audit, as plain numbers and texts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fewer.prune.entroprefill.audit import AuditResult
from fewer.prune.entroprefill.dual import Bound
from fewer.prune.entroprefill.envelope import row_bound
from fewer.prune.entroprefill.monitor import foreign, name_head
from fewer.prune.entroprefill.pooling import omega
from fewer.prune.entroprefill.procedure import Proposal, Verdict
from fewer.prune.entroprefill.screening import Removal, Screen, exact, scan
from fewer.prune.entroprefill.situation import Situation

__all__ = [
    "AuditShown",
    "Bounds",
    "ChunkLine",
    "HeadLine",
    "RowLine",
    "list_chunks",
    "list_heads",
    "list_rows",
    "show_audit",
    "weigh_bounds",
]

Fate = Literal["removed", "does not fit", "target met before", "enough have left", "no proposal"]

_FEW = 5  # rows shown for their slack
_MOST_EXACT = 64  # chunks for which the exact optimum is looked for
_EXACT_S = 2.0


@dataclass(frozen=True, slots=True)
class ChunkLine:
    """One candidate. `heaviest_*` name the row of the largest share, `blocking_*` the one with least left over."""

    chunk: int  # among the prompt's, from 0
    title: str
    start: int
    stop: int
    tokens: int
    fate: Fate
    place: int | None  # in the order of the scan, from 1
    score: float | None  # S_i
    lift: float | None  # ell_i
    concentration: float | None  # kappa_i
    mass: float | None  # M_i, of the document mass
    largest_share: float | None  # the largest row mass over that row's tolerance; above 1 it never fits
    heaviest_head: str | None
    heaviest_position: int | None
    slack: float | None  # what would be left of the tightest row if it left as well; below 0 it does not fit
    blocking_head: str | None
    blocking_position: int | None


@dataclass(frozen=True, slots=True)
class RowLine:
    """One constraint row: a head (`8.7` is head 7 of layer 8) at a query position, or its mean over the observers."""

    head: str
    position: int | None
    token: str
    used: float  # mass that leaves
    tolerance: float
    slack: float
    price: float  # tokens for a unit of mass; 0: the row does not limit the bound


@dataclass(frozen=True, slots=True)
class HeadLine:
    """One head of the layer, or a monitored one of an earlier layer (`8.7`), which is not pooled and has no weight.

    Entropy is in nats. `envelope` is (12) of each of its rows, for absolute mass.
    """

    head: str
    group: int | None
    monitored: bool
    eligible: bool
    residual: float | None  # z_h: attention off the sinks
    entropy: float | None  # H2_h; None: nothing off the sinks
    weight: float | None  # w_h; a group's sum to 1
    envelope: float | None
    audit_mean: float | None
    audit_margin: float | None  # tolerance minus mean plus half-width; negative fails


@dataclass(frozen=True, slots=True)
class Bounds:
    """Tokens that could be saved: D by the scan, D* by the best removal, U by the dual. D <= D* <= U.

    The scan stops at the target, D* and U do not; `unstopped` is what it would save without one.
    """

    saving: int
    reached: bool
    unstopped: int
    exact: int | None  # None: more than 64 chunks, or not proven within 2 seconds
    dual: float
    gap: float  # U - D
    source: str  # of the prices
    count_price: float  # tokens a chunk, for how many may leave
    num_priced_rows: int
    seconds: float


@dataclass(frozen=True, slots=True)
class AuditShown:
    """The audit. Hoeffding's b says what drawing would cost, also where nothing was drawn."""

    mode: str
    passed: bool
    positions: int  # that the mean is over; with repeats
    distinct: int
    tolerance: float
    bound: float  # the largest mean of a head, plus the half-width
    worst_head: str
    half_width: float
    delta: float
    num_pairs: int  # monitored (layer, head) pairs, over which the union bound goes
    draws: int
    hoeffding_b: float
    hoeffding_room: float  # tolerance minus that; negative: nothing could pass with so many draws
    draws_floor: int | None  # the fewest draws whose b alone is within the tolerance
    draws_needed: int | None  # the fewest that would pass at these means; None: none would


def list_chunks(situation: Situation, layer: int, proposal: Proposal) -> tuple[ChunkLine, ...]:
    """The candidates in the prompt's order."""
    candidates, screen, removal = situation.candidates, proposal.screen, proposal.removal
    priorities, lines = proposal.priorities, []
    places, fates = _fates(proposal, len(candidates))
    for i, number in enumerate(candidates.index):
        chunk = situation.prompt.chunks[number]
        heaviest: tuple[str | None, int | None] = (None, None)
        blocking, share, slack = heaviest, None, None
        if screen is not None and removal is not None and len(screen.mass):
            row = int(screen.shares[:, i].argmax())
            heaviest, share = _name(situation, layer, row), float(screen.shares[row, i])
            if not removal.removed[i]:
                after = removal.slack - screen.mass[:, i]
                row = int(after.argmin())
                blocking, slack = _name(situation, layer, row), float(after[row])
        lines.append(
            ChunkLine(
                chunk=number,
                title=chunk.title,
                start=chunk.start,
                stop=chunk.stop,
                tokens=chunk.num_tokens,
                fate=fates[i],
                place=places[i],
                score=None if priorities is None else float(priorities.score[i]),
                lift=None if priorities is None else float(priorities.lift[i]),
                concentration=None if priorities is None else float(priorities.concentration[i]),
                mass=None if priorities is None else float(priorities.mass[i]),
                largest_share=share,
                heaviest_head=heaviest[0],
                heaviest_position=heaviest[1],
                slack=slack,
                blocking_head=blocking[0],
                blocking_position=blocking[1],
            )
        )
    return tuple(lines)


def list_rows(
    situation: Situation, layer: int, screen: Screen, removal: Removal, bound: Bound, decode: Callable[[int], str]
) -> tuple[RowLine, ...]:
    """Rows with a price, and those closest to their tolerance."""
    order = np.argsort(removal.slack, kind="stable")
    wanted = set(order[:_FEW].tolist()) | set(np.flatnonzero(bound.prices.rows).tolist())
    lines = []
    for row in (row for row in order.tolist() if row in wanted):
        head, position = _name(situation, layer, row)
        tolerance, slack = float(screen.tolerance[row]), float(removal.slack[row])
        token = "mean" if position is None else decode(int(situation.prompt.ids[position]))
        lines.append(RowLine(head, position, token, tolerance - slack, tolerance, slack, float(bound.prices.rows[row])))
    return tuple(lines)


def list_heads(situation: Situation, verdict: Verdict, num_groups: int) -> tuple[HeadLine, ...]:
    """All heads of the layer, monitored or not, since each is pooled; then the monitored ones of earlier layers."""
    pooled = verdict.proposal.pooled
    count, monitored = len(pooled.weights), situation.protocol.heads(verdict.layer)
    shares, removed = omega(pooled, num_groups, situation.rows_a_head), verdict.numbers.get("removed_mass")
    envelope = None
    if removed is not None:
        envelope = row_bound(min(1.0, removed), shares.cpu().numpy())
    found = verdict.audit
    audited = {} if found is None else {head: i for i, head in enumerate(found.heads)}
    lines = []
    for head in range(count):
        entropy, place = float(pooled.entropy[head]), audited.get(head)
        lines.append(
            HeadLine(
                name_head(head),
                head * num_groups // count,
                head in monitored,
                bool(pooled.eligible[head]),
                float(pooled.residual[head]),
                entropy if np.isfinite(entropy) else None,
                float(pooled.weights[head]),
                None if envelope is None else float(envelope[head]),
                None if found is None or place is None else float(found.etahat[place]),
                None if found is None or place is None else float(found.margin[place]),
            )
        )
    for head in foreign(monitored):
        mean, margin = (None, None) if found is None else (found.etahat[audited[head]], found.margin[audited[head]])
        lines.append(HeadLine(name_head(head), None, True, False, None, None, None, None, mean, margin))
    return tuple(lines)


def weigh_bounds(screen: Screen, order: NDArray[np.intp], removal: Removal, bound: Bound) -> Bounds:
    """What was saved against what could have been."""
    unstopped = scan(replace(screen, target=int(screen.sizes.sum())), order)
    return Bounds(
        removal.saving,
        removal.reached,
        unstopped.saving,
        exact(screen, _EXACT_S) if len(screen.sizes) <= _MOST_EXACT else None,
        bound.value,
        max(0.0, bound.value - removal.saving),
        bound.prices.source,
        bound.prices.count,
        int((bound.prices.rows > 0).sum()),
        bound.seconds,
    )


def show_audit(found: AuditResult) -> AuditShown:
    """An opened audit."""
    protocol = found.protocol
    return AuditShown(
        protocol.mode,
        found.passed,
        found.num_positions,
        found.num_distinct,
        protocol.tolerance,
        float(found.bound.max()),
        name_head(found.worst_head),
        found.b,
        protocol.delta,
        protocol.num_pairs,
        protocol.num_draws,
        found.hoeffding_b,
        found.hoeffding_room,
        found.draws_floor,
        found.draws_needed,
    )


def _name(situation: Situation, layer: int, row: int) -> tuple[str, int | None]:
    """Head and position of a constraint row: heads in order, each with its observers, or with their mean."""
    heads, each = situation.protocol.heads(layer), situation.rows_a_head
    position = situation.observers[row % each] if situation.settings.rows == "each" else None
    return name_head(heads[row // each]), position


def _fates(proposal: Proposal, count: int) -> tuple[list[int | None], list[Fate]]:
    """Each candidate's place in the scan, and what became of it: the scan stops right after a removal, if it stops."""
    order, removal, screen = proposal.order, proposal.removal, proposal.screen
    if order is None or removal is None or screen is None:
        return [None] * count, ["no proposal"] * count
    places = np.empty(count, dtype=np.int64)
    places[order] = np.arange(count)
    last = int(places[removal.removed].max(initial=-1))
    behind: Fate = "does not fit"
    if removal.reached:
        behind = "target met before"
    elif int(removal.removed.sum()) == screen.most_removed:
        behind = "enough have left"
    fates: list[Fate] = [
        "removed" if gone else "does not fit" if place < last else behind
        for gone, place in zip(removal.removed.tolist(), places.tolist(), strict=True)
    ]
    return [place + 1 for place in places.tolist()], fates
