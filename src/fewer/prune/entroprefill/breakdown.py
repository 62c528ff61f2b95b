"""One layer's verdict taken apart: chunks, bounds and audit, as plain numbers and texts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fewer.prune.entroprefill.audit import AuditResult
from fewer.prune.entroprefill.constraints import name_row
from fewer.prune.entroprefill.dual import Bound
from fewer.prune.entroprefill.monitor import name_head
from fewer.prune.entroprefill.procedure import Proposal
from fewer.prune.entroprefill.screening import Removal, Screen, exact, scan
from fewer.prune.entroprefill.situation import Situation

__all__ = ["AuditShown", "Bounds", "ChunkLine", "list_chunks", "show_audit", "weigh_bounds"]

Fate = Literal[
    "removed", "over lift_at_most", "does not fit", "target met before", "min_chunks must stay", "no proposal"
]

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
    row_lift: float | None  # the largest lift in any constraint row; above lift_at_most it never leaves
    largest_share: float | None  # the largest row mass over that row's tolerance; above 1 it never fits
    heaviest_head: str | None
    heaviest_position: int | None
    slack: float | None  # what would be left of the tightest row if it left as well; below 0 it does not fit
    blocking_head: str | None
    blocking_position: int | None


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
            heaviest, share = name_row(situation, layer, row), float(screen.shares[row, i])
            if not removal.removed[i]:
                after = removal.slack - screen.mass[:, i]
                row = int(after.argmin())
                blocking, slack = name_row(situation, layer, row), float(after[row])
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
                row_lift=None if proposal.lifts is None else float(proposal.lifts[i]),
                largest_share=share,
                heaviest_head=heaviest[0],
                heaviest_position=heaviest[1],
                slack=slack,
                blocking_head=blocking[0],
                blocking_position=blocking[1],
            )
        )
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
        behind = "min_chunks must stay"
    fates: list[Fate] = ["does not fit" if place < last else behind for place in places.tolist()]
    for i in range(count):
        fates[i] = "removed" if removal.removed[i] else "over lift_at_most" if screen.barred[i] else fates[i]
    return [place + 1 for place in places.tolist()], fates
