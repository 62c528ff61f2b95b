"""The numbers that claims about doubts are about.

    auc        the area of a doubt for an outcome, among the answers that have another one where `among` names it, over
               pairs of answers of one policy, budget and condition (and, unless within is budget, of one task and
               length); with `over`, minus the area of that doubt over the answers that have both
    recompute  the mean outcome when the most doubted share of each policy's answers at each budget are replaced by the
               full run's, minus the same by another doubt, or by a random gate in expectation

Answers are units; intervals resample clusters. Answers without a doubt are not ranked by an area, and are doubted
least by a gate.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from fewer.study.answers import ByItem
from fewer.study.finding import Finding, NotEstimable
from fewer.study.sessions.areas import rank, rank_against
from fewer.study.sessions.doubts import read_doubt
from fewer.study.sessions.gating import RANDOM, Gating
from fewer.study.sessions.places import Floats, Mask, Place, find_places

if TYPE_CHECKING:
    from fewer.study.claim import Claim
    from fewer.study.spec import Outcome, Study

__all__ = ["describe_gated", "estimate_gated"]


def estimate_gated(
    study: Study, claim: Claim, arms: dict[str, ByItem], items: Sequence[str], *, resamples: int, seed: int
) -> Finding:
    """The claim's number over `items`. Raises NotEstimable where nothing can be ranked."""
    wanted = [arm for arm in study.expanded if arm.name in (claim.arm, *claim.also)]
    places = find_places(wanted, arms, items)
    how: dict[str, Any] = {"level": claim.level, "resamples": resamples, "seed": seed}
    return (_recompute if claim.kind == "recompute" else _rank)(study, claim, places, how)


def describe_gated(claim: Claim) -> str:
    """What is estimated, as a part of a sentence."""
    arms = " and ".join((claim.arm, *claim.also))
    if claim.kind == "recompute":
        other = "a random gate" if claim.over == RANDOM else f"a gate by {claim.over}"
        gate = f"recomputing {100 * (claim.rate or 0):g}% by {claim.signal}"
        return f"the mean {claim.outcome} of {arms} with {gate}, minus that with {other},"
    ranked = f"for {claim.outcome}" + (f" among {claim.among}" if claim.among else "")
    pairs = "budget" if claim.within == "budget" else "budget, task and length"
    minus = f", minus that of {claim.over}," if claim.over else ""
    return f"the AUC of {claim.signal} {ranked}{minus} under {arms}, over pairs of the same policy, {pairs},"


def _rank(study: Study, claim: Claim, places: Sequence[Place], how: dict[str, Any]) -> Finding:
    assert claim.signal is not None
    outcomes = {outcome.name: outcome for outcome in study.outcomes}
    among = None if claim.among is None else outcomes[claim.among]
    labels = partial(_label, outcomes[claim.outcome], among)
    if claim.over is None:
        found = rank(places, labels, claim.signal, within=claim.within, **how)
    else:
        found = rank_against(places, labels, claim.signal, claim.over, within=claim.within, **how)
    if found.interval is None:
        raise NotEstimable(f"nothing can be ranked: {found.why}")
    total = found.positives + found.negatives
    notes = [f"{found.positives} of {total} ranked answers are {claim.outcome}."]
    if found.missing:
        names = claim.signal if claim.over is None else f"{claim.signal}, or none of {claim.over}"
        notes.append(f"{found.missing} further answers have no {names}, and are not ranked.")
    return Finding(found.interval, "answers", tuple(notes))


def _label(outcome: Outcome, among: Outcome | None, place: Place) -> tuple[Mask, Floats]:
    pairs = list(zip(place.score.tolist(), place.full.tolist(), strict=True))
    inside = np.array([among is None or among.holds(*pair) for pair in pairs], dtype=bool)
    return inside, np.array([outcome.holds(*pair) for pair in pairs], dtype=np.float64)[inside]


def _recompute(study: Study, claim: Claim, places: Sequence[Place], how: dict[str, Any]) -> Finding:
    assert claim.signal is not None
    assert claim.over is not None
    assert claim.rate is not None
    outcome = next((one for one in study.outcomes if one.name == claim.outcome), None)
    bound = None if outcome is None else outcome.at_least
    gating = Gating(places, lambda scores: scores if bound is None else (scores >= bound).astype(np.float64), **how)
    missing = sum(int(np.isnan(read_doubt(claim.signal, place)).sum()) for place in places)
    notes = (f"{missing} answers have no {claim.signal}, and are doubted least.",) if missing else ()
    return Finding(gating.gain(claim.signal, claim.rate, claim.over), "answers", notes)
