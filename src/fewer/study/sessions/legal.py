"""What a claim about doubts may ask: one of kind `recompute`, or one of kind `auc` that uses what only doubts have.

Checked when the study's file is read, so that nothing is registered that could not be estimated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fewer.errors import bad
from fewer.study.sessions.doubts import check_doubt
from fewer.study.sessions.gating import RANDOM
from fewer.study.sessions.summaries import PREFIX
from fewer.study.signals import CERTIFICATES, PREDICTORS

if TYPE_CHECKING:
    from fewer.study.claim import Claim
    from fewer.study.spec import Outcome, Study

__all__ = ["asks_of_doubts", "check_claim", "check_study"]

_MARGINS = ("logprob", "first_margin", "min_margin")  # doubts that the study's signal `margins` has measured
_OLDER = (*PREDICTORS, *CERTIFICATES, "nll")  # signals that a claim of kind auc may have without anything new


def asks_of_doubts(claim: Claim) -> bool:
    """Whether a claim is estimated from doubts within places (`claims.py`)."""
    new = claim.also or claim.among or claim.over or claim.within != "task" or claim.signal not in _OLDER
    return claim.kind == "recompute" or (claim.kind == "auc" and bool(new))


def check_claim(claim: Claim) -> None:
    """Raise BadInput for a field that does not belong to the claim's kind, is missing, or names no doubt."""
    fits = {"also": ("auc", "recompute"), "among": ("auc",), "over": ("auc", "recompute"), "rate": ("recompute",)}
    for name, kinds in fits.items():
        if getattr(claim, name) and claim.kind not in kinds:
            raise bad(name, getattr(claim, name), f"left out but for {' and '.join(kinds)}", "Take it out.")
    if claim.within != "task" and claim.kind != "auc":
        raise bad("within", claim.within, "left out but for auc", "Take it out.")
    if claim.kind == "recompute":
        for name, example in (("rate", "0.25"), ("over", RANDOM)):
            if getattr(claim, name) is None:
                raise bad(name, None, "given for the kind recompute", f"Write {name}: {example}.")
    if asks_of_doubts(claim):
        for signal in _signals(claim):
            check_doubt(signal)


def check_study(study: Study, claim: Claim) -> None:
    """Raise BadInput where the claim's arms cannot have its doubts, or an outcome does not fit its kind."""
    outcomes = {outcome.name: outcome for outcome in study.outcomes}
    if claim.kind == "auc" and not _is_bad(outcomes[claim.outcome]):
        legal = "one with `below`, and no `at_least`: doubts rank bad answers"
        raise bad(f"the outcome of claim {claim.id}", claim.outcome, legal, "Name the failure.")
    if claim.kind == "recompute" and claim.outcome != "score" and not _is_plain(outcomes[claim.outcome]):
        legal = "score, or an outcome that is nothing but `at_least`"
        raise bad(f"the outcome of claim {claim.id}", claim.outcome, legal, "A gate is judged by right answers.")
    arms = [arm for arm in study.expanded if arm.name in (claim.arm, *claim.also)]
    for arm in arms:
        if arm.evict == "none" or arm.prune != "none":
            raise bad(f"an arm of claim {claim.id}", arm.name, "one that evicts and does not prune", "Name another.")
    for signal in _signals(claim):
        known = all(arm.policy is not None and arm.policy.certified is not None for arm in arms)
        if signal.startswith(("certificate", PREFIX)) and not known:
            legal = "left to arms that draw with known probabilities, by hajek, and without certify: false"
            names = ", ".join(arm.name for arm in arms)
            raise bad(f"the arms of claim {claim.id}, for {signal}", names, legal, "Others have no certificate.")
        needed = None if signal in (*CERTIFICATES, "disagreement") else "margins" if signal in _MARGINS else "evidence"
        if needed is not None and needed not in study.signals:
            legal = f"with {needed}, which measures the {signal} of claim {claim.id}"
            raise bad("signals", list(study.signals), legal, "Add it to signals.")


def _signals(claim: Claim) -> list[str]:
    return [name for name in (claim.signal, claim.over) if name is not None and name != RANDOM]


def _is_bad(outcome: Outcome) -> bool:
    return outcome.below is not None and outcome.at_least is None


def _is_plain(outcome: Outcome) -> bool:
    others = (outcome.below, outcome.full_at_least, outcome.full_below)
    return outcome.at_least is not None and all(bound is None for bound in others)
