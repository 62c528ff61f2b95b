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
from fewer.prune.entroprefill.breakdown import AuditShown, Bounds, ChunkLine, list_chunks, show_audit, weigh_bounds
from fewer.prune.entroprefill.constraints import Constraints, RowLine, list_rows, tabulate
from fewer.prune.entroprefill.heads import HeadLine, list_heads
from fewer.prune.entroprefill.planner import EntroPrefill
from fewer.prune.entroprefill.procedure import Verdict
from fewer.prune.entroprefill.sensitivity import Sensitivity, vary
from fewer.prune.entroprefill.situation import Situation
from fewer.prune.entroprefill.transfer import Transfer
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
    """One layer in full. Parts are empty or None where the layer could not propose.

    The envelope is in absolute mass, 1 says nothing, and watched heads of earlier layers are not in it.
    """

    layer: int
    outcome: str
    says: str
    document_mass: float | None  # Z, the pooled attention to the candidates
    removed_mass: float | None  # q, the pooled attention to those that leave
    envelope: float | None  # (12) over the layer's own heads, each observer's row or, with rows=mean, their means
    chunks: tuple[ChunkLine, ...]
    rows: tuple[RowLine, ...]  # those with a price, and the five closest to their tolerance; closest first
    num_rows: int
    constraints: Constraints | None  # all of them, with the mass of every chunk
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
    audit_positions: tuple[int, ...]  # that the audit reads, at every layer: as drawn, with repeats, or the query
    target: int | None  # tokens; the scan stops there
    least: int | None  # tokens; below, nothing is pruned
    declined: str | None  # why nothing is asked about this prompt
    settings: Mapping[str, str | int | float | None]
    acted: int | None  # the layer after which chunks leave
    layers: tuple[LayerSummary, ...]
    shown: LayerShown | None
    transfer: Transfer | None = None  # None where nobody said what the model's cache holds

    def to_object(self) -> dict[str, Any]:
        """For JSON: the fields by name, and the seconds of `transfer`; what is not finite is null."""
        found: dict[str, Any] = _plain(asdict(self))
        if self.transfer is not None:
            found["transfer"] |= {name: getattr(self.transfer, name) for name in ("retained_seconds", "full_seconds")}
        return found

    @property
    def num_retained(self) -> int:
        """T': tokens of the prompt that stay."""
        acted = [each.numbers["saving"] for each in self.layers if each.would_act]
        return self.num_tokens - int(sum(acted))


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
        situation.draw().positions if situation and planner.settings.audit != "off" else (),
        situation.target if situation else None,
        situation.least if situation else None,
        declined,
        planner.describe(),
        acted,
        tuple(
            LayerSummary(
                verdict.layer,
                verdict.outcome,
                verdict.says,
                verdict.layer == acted,
                acted is None or verdict.layer <= acted,
                dict(verdict.numbers),
            )
            for verdict in verdicts
        ),
        shown,
    )


def show_layer(situation: Situation, verdict: Verdict, num_groups: int, decode: Callable[[int], str]) -> LayerShown:
    """One verdict in full."""
    proposal, bound = verdict.proposal, verdict.bound
    bounds, sensitivity, constraints = None, None, None
    rows: tuple[RowLine, ...] = ()
    if bound and proposal.screen is not None and proposal.removal is not None and proposal.order is not None:
        bounds = weigh_bounds(proposal.screen, proposal.order, proposal.removal, bound)
        index = situation.candidates.index
        sensitivity = vary(proposal.screen, proposal.order, proposal.removal, bound, situation.least, index)
        rows = list_rows(situation, verdict.layer, proposal.screen, proposal.removal, bound, decode)
        constraints = tabulate(situation, verdict.layer, proposal.screen, proposal.removal, bound)
    return LayerShown(
        verdict.layer,
        verdict.outcome,
        verdict.says,
        proposal.priorities.document_mass if proposal.priorities else None,
        verdict.numbers.get("removed_mass"),
        verdict.numbers.get("envelope"),
        list_chunks(situation, verdict.layer, proposal),
        rows,
        0 if proposal.screen is None else len(proposal.screen.mass),
        constraints,
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
