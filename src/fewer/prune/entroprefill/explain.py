"""Why EntroPrefill did what it did with one prompt: every number that decided, by layer, chunk, row and head.

Plain numbers and texts, as `fewer explain` shows them and writes them as JSON. Masses and tolerances are shares of a
row's attention, or, with document-relative tolerances, of its attention to the candidate chunks. Not covered: what
leaving the chunks out does to deeper layers and to the answer; `engine.diagnose` measures that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import isfinite
from typing import Any

import numpy as np

from fewer.errors import bad
from fewer.prune.entroprefill.breakdown import (
    AuditShown,
    Bounds,
    ChunkLine,
    HeadLine,
    RowLine,
    list_chunks,
    list_heads,
    list_rows,
    show_audit,
    weigh_bounds,
)
from fewer.prune.entroprefill.dual import best_bound
from fewer.prune.entroprefill.planner import EntroPrefill, describe_verdict
from fewer.prune.entroprefill.procedure import Verdict
from fewer.prune.entroprefill.sensitivity import Sensitivity, vary
from fewer.prune.entroprefill.situation import Situation
from fewer.types import Prompt

__all__ = ["Explanation", "LayerShown", "LayerSummary", "explain"]


@dataclass(frozen=True, slots=True)
class LayerSummary:
    """One monitored layer. would_act: the first that passes, the only one that acts; later ones are then not asked."""

    layer: int
    outcome: str
    says: str
    would_act: bool
    asked: bool
    numbers: Mapping[str, float]  # as on the receipt


@dataclass(frozen=True, slots=True)
class LayerShown:
    """One layer in full. Parts are empty or None where the layer could not propose."""

    layer: int
    outcome: str
    says: str
    document_mass: float | None  # Z, the pooled attention to the candidates
    removed_mass: float | None  # q, the pooled attention to those that leave
    envelope: float | None  # (12) over all rows: the most that any proposal row's attention can lose; 1 says nothing
    chunks: tuple[ChunkLine, ...]
    rows: tuple[RowLine, ...]  # those with a price, and the five closest to their tolerance; closest first
    num_rows: int
    heads: tuple[HeadLine, ...]
    bounds: Bounds | None
    audit: AuditShown | None  # None: not opened, or off
    sensitivity: Sensitivity | None


@dataclass(frozen=True, slots=True)
class Explanation:
    """One prompt. Token counts are of the prompt; chunks are numbers among the prompt's, from 0."""

    num_tokens: int
    num_chunks: int
    candidates: tuple[int, ...]  # chunks that may leave as a whole
    candidate_tokens: int
    query: tuple[int, int]
    observers: tuple[int, ...]  # positions that propose
    target: int | None  # tokens; the scan stops there
    least: int | None  # tokens; below, nothing is pruned
    declined: str | None  # why nothing is asked about this prompt
    settings: Mapping[str, str | int | float | None]
    acted: int | None  # the layer after which chunks leave
    layers: tuple[LayerSummary, ...]
    shown: LayerShown | None

    def to_object(self) -> dict[str, Any]:
        """For JSON: the fields by name; what is not finite is null."""
        found: dict[str, Any] = _plain(asdict(self))
        return found


def explain(
    planner: EntroPrefill,
    prompt: Prompt,
    verdicts: Sequence[Verdict],
    layer: int | None = None,
    decode: Callable[[int], str] = str,
) -> Explanation:
    """Explain verdicts on all monitored layers, by a fitted planner that watched and did not act.

    layer: the one to show in full; None is the first accepted, or the last. decode: the text of a token id. Raises
    BadInput for a layer that is not monitored.
    """
    if layer is not None and layer not in planner.heads:
        legal = "a monitored one (" + ", ".join(map(str, planner.heads)) + ")"
        raise bad("layer", layer, legal, "Leave it out for the one that decides, or monitor it with monitor.")
    declined = planner.declines(prompt)
    situation = None if declined else Situation.of(planner.settings, planner.heads, prompt)
    acted = next((verdict.layer for verdict in verdicts if verdict.outcome == "accepted"), None)
    chosen = [verdict for verdict in verdicts if verdict.layer == (acted if layer is None else layer)] or verdicts[-1:]
    shown = None
    if situation is not None and chosen:
        assert planner.facts is not None
        shown = show_layer(situation, chosen[0], planner.facts.num_kv_heads, decode)
    return Explanation(
        len(prompt),
        len(prompt.chunks),
        situation.candidates.index if situation else (),
        situation.candidates.num_tokens if situation else 0,
        prompt.query,
        situation.observers if situation else (),
        situation.target if situation else None,
        situation.least if situation else None,
        declined,
        planner.describe(),
        acted,
        tuple(
            LayerSummary(
                verdict.layer,
                verdict.outcome,
                describe_verdict(verdict),
                verdict.layer == acted,
                acted is None or verdict.layer <= acted,
                dict(verdict.numbers),
            )
            for verdict in verdicts
        ),
        shown,
    )


def show_layer(situation: Situation, verdict: Verdict, num_groups: int, decode: Callable[[int], str]) -> LayerShown:
    """One verdict in full. The bound is worked out where the procedure did not need it."""
    proposal = verdict.proposal
    bounds, sensitivity = None, None
    rows: tuple[RowLine, ...] = ()
    if proposal.screen is not None and proposal.removal is not None and proposal.order is not None:
        bound = verdict.bound or best_bound(proposal.screen, situation.settings.lp_seconds)
        bounds = weigh_bounds(proposal.screen, proposal.order, proposal.removal, bound)
        index = situation.candidates.index
        sensitivity = vary(proposal.screen, proposal.order, proposal.removal, bound, situation.least, index)
        rows = list_rows(situation, verdict.layer, proposal.screen, proposal.removal, bound, decode)
    return LayerShown(
        verdict.layer,
        verdict.outcome,
        describe_verdict(verdict),
        proposal.priorities.document_mass if proposal.priorities else None,
        verdict.numbers.get("removed_mass"),
        verdict.numbers.get("envelope"),
        list_chunks(situation, verdict.layer, proposal),
        rows,
        0 if proposal.screen is None else len(proposal.screen.mass),
        list_heads(situation, verdict, num_groups),
        bounds,
        None if verdict.audit is None else show_audit(verdict.audit),
        sensitivity,
    )


def _plain(value: Any) -> Any:
    """JSON's own types."""
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if isinstance(value, np.generic):
        value = value.item()
    return value if not isinstance(value, float) or isfinite(value) else None
