"""The numbers that claims are about, each with an interval over clusters.

    difference  arm minus reference in the outcome, the mean over items of the paired differences
    level       the arm's mean outcome over items
    speedup     seconds to the first token, reference over arm: the geometric mean over items of their ratios, so that
                an item weighs the same whichever arm is the reference and however long it is
    recompute   what a gate adds at a rate, more than another one or chance (`fewer.study.sessions`)
    auc         how well a signal ranks answers by the outcome, over pairs of answers of the same task, budget and
                length; pairs across these would be won by knowing which budget or task an answer came from

Refused and failed answers count with score 0 in all but seconds, and cannot be ranked where they have no signal; both
are said. Seconds count where status is "ok" or "bypassed" (then they are those of a full run) and `shared` is false.
Seeds are averaged within an item, except for an area: there an answer is a unit, and resampling clusters keeps an
item's answers together.

A signal points one way, fixed here: a higher one of `HIGHER_IS_BETTER` speaks for a good answer, a higher one of
`HIGHER_IS_WORSE` for a bad one. An outcome with `below` and no `at_least` is a bad one, any other a good one. An area
above 0.5 says that the signal ranks in that direction.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from fewer.study.answers import Answer, ByItem, average
from fewer.study.eligibility import choose_method
from fewer.study.finding import Finding, NotEstimable
from fewer.study.sessions.claims import describe_gated, estimate_gated
from fewer.study.sessions.doubts import COLUMNS as DOUBTED
from fewer.study.sessions.legal import asks_of_doubts
from fewer.study.signals import CERTIFICATES, PREDICTORS
from fewer.study.spec import Claim, Outcome, Study
from fewer.study.stats import auc, geometric_mean_ratio, mean, mean_difference

__all__ = [
    "COLUMNS",
    "HIGHER_IS_BETTER",
    "HIGHER_IS_WORSE",
    "Finding",
    "NotEstimable",
    "describe_quantity",
    "estimate_claim",
]

HIGHER_IS_BETTER = (*PREDICTORS, "computed_fraction", "kept_fraction", "supporting_kept")
HIGHER_IS_WORSE = ("nll", *CERTIFICATES)
TIMED = ("ok", "bypassed")  # statuses whose seconds may count
COLUMNS = tuple(dict.fromkeys((*HIGHER_IS_BETTER, *HIGHER_IS_WORSE, "shared", "first_token_s", *DOUBTED)))


def estimate_claim(
    study: Study, claim: Claim, arms: dict[str, ByItem], items: Sequence[str], *, resamples: int, seed: int
) -> Finding:
    """The claim's number over `items`, of which every arm in it has all answers. Raises NotEstimable."""
    if asks_of_doubts(claim):
        finding = estimate_gated(study, claim, arms, items, resamples=resamples, seed=seed)
        statuses = [note for arm in (claim.arm, *claim.also) for note in _note_statuses(arms, arm, items)]
        return replace(finding, notes=(*statuses, *finding.notes))
    if claim.kind == "auc":
        return _rank(study, claim, arms, items, resamples=resamples, seed=seed)
    clusters = [arms["full"][item][0].cluster for item in items]
    if claim.kind == "speedup":
        return _time(claim, arms, items, resamples=resamples, seed=seed)
    method = choose_method(clusters)
    mine = _outcomes(study, claim, arms, claim.arm, items)
    notes = _note_statuses(arms, claim.arm, items)
    if claim.kind == "level":
        interval = mean(mine, clusters, method=method, bounds=(0, 1), level=claim.level, resamples=resamples, seed=seed)
        return Finding(interval, "items", notes)
    theirs = _outcomes(study, claim, arms, claim.reference, items)
    notes += _note_statuses(arms, claim.reference, items)
    interval = mean_difference(
        mine, theirs, clusters, method=method, bounds=(0, 1), level=claim.level, resamples=resamples, seed=seed
    )
    return Finding(interval, "items", notes)


def describe_quantity(study: Study, claim: Claim) -> str:
    """What is estimated, as a part of a sentence."""
    if asks_of_doubts(claim):
        return describe_gated(claim)
    if claim.kind == "difference":
        return f"{claim.outcome} of {claim.arm} minus that of {claim.reference}"
    if claim.kind == "level":
        return f"{claim.outcome} of {claim.arm}"
    if claim.kind == "speedup":
        ratio = f"{claim.reference} over {claim.arm}"
        return f"the ratio of seconds to the first token, {ratio} (geometric mean over items),"
    higher = "higher" if _direction(study, claim) > 0 else "lower"
    pairs = "over pairs of the same task, budget and length"
    return f"the AUC of {claim.signal} ({higher} taken as likelier {claim.outcome}) under {claim.arm}, {pairs},"


def _outcomes(study: Study, claim: Claim, arms: dict[str, ByItem], arm: str, items: Sequence[str]) -> list[float]:
    """The outcome of each item, averaged over the arm's seeds."""
    outcome = _find_outcome(study, claim)
    return [average(_outcome(outcome, answer, arms) for answer in arms[arm][item]) for item in items]


def _outcome(outcome: Outcome | None, answer: Answer, arms: dict[str, ByItem]) -> float:
    if outcome is None:
        return answer.score
    return float(outcome.holds(answer.score, average(full.score for full in arms["full"][answer.item])))


def _find_outcome(study: Study, claim: Claim) -> Outcome | None:
    return next((outcome for outcome in study.outcomes if outcome.name == claim.outcome), None)


def _time(claim: Claim, arms: dict[str, ByItem], items: Sequence[str], *, resamples: int, seed: int) -> Finding:
    above, below, clusters = [], [], []
    for item in items:
        theirs, mine = (_seconds(arms[name][item]) for name in (claim.reference, claim.arm))
        if theirs and mine:
            above.append(math.exp(average(math.log(seconds) for seconds in theirs)))
            below.append(math.exp(average(math.log(seconds) for seconds in mine)))
            clusters.append(arms["full"][item][0].cluster)
    notes = []
    for name in (claim.reference, claim.arm):
        answers = [answer for item in items for answer in arms[name][item]]
        out = [answer for answer in answers if not _seconds([answer])]
        if out:
            reasons = ["shared or untimed" if answer.status in TIMED else answer.status for answer in out]
            counts = ", ".join(f"{reasons.count(reason)} {reason}" for reason in sorted(set(reasons)))
            notes.append(f"The seconds of {len(out)} of {len(answers)} answers of {name} do not count: {counts}.")
    if not above:
        raise NotEstimable("no item has seconds that count under both arms. " + " ".join(notes).rstrip("."))
    interval = geometric_mean_ratio(
        above, below, clusters, method=choose_method(clusters), level=claim.level, resamples=resamples, seed=seed
    )
    arm, reference = (_mean_score(arms[name], items) for name in (claim.arm, claim.reference))
    notes.append(f"Speed says nothing of the answers: the arm scores {arm:.3f} here, the reference {reference:.3f}.")
    return Finding(interval, "items", tuple(notes))


def _mean_score(by_item: ByItem, items: Sequence[str]) -> float:
    return average(average(answer.score for answer in by_item[item]) for item in items)


def _seconds(answers: Sequence[Answer]) -> list[float]:
    """The seconds to the first token that count."""
    return [
        answer.values["first_token_s"]
        for answer in answers
        if answer.status in TIMED and answer.values["shared"] is False and (answer.values["first_token_s"] or 0) > 0
    ]


def _rank(
    study: Study, claim: Claim, arms: dict[str, ByItem], items: Sequence[str], *, resamples: int, seed: int
) -> Finding:
    assert claim.signal is not None
    sign, outcome = _direction(study, claim), _find_outcome(study, claim)
    answers = [answer for item in items for answer in arms[claim.arm][item]]
    ranked = [answer for answer in answers if answer.values[claim.signal] is not None]
    notes = _note_statuses(arms, claim.arm, items)
    if len(ranked) < len(answers):
        missing = len(answers) - len(ranked)
        notes += (f"{missing} of {len(answers)} answers of {claim.arm} have no {claim.signal} and are not ranked.",)
    labels = [_outcome(outcome, answer, arms) for answer in ranked]
    groups = [(answer.task, answer.keep, answer.asked_length) for answer in ranked]
    both = {group for group, label in zip(groups, labels, strict=True) if label} & {
        group for group, label in zip(groups, labels, strict=True) if not label
    }
    if not both:
        found = f"{int(sum(labels))} of {len(labels)} ranked answers are {claim.outcome}"
        raise NotEstimable(f"{found}, and no task, budget and length has both kinds: there is nothing to rank")
    interval = auc(
        labels,
        [sign * answer.values[claim.signal] for answer in ranked],
        [answer.cluster for answer in ranked],
        within=groups,
        level=claim.level,
        resamples=resamples,
        seed=seed,
    )
    notes += (f"{int(sum(labels))} of {len(labels)} ranked answers are {claim.outcome}.",)
    return Finding(interval, "answers", notes)


def _direction(study: Study, claim: Claim) -> int:
    """1 where a higher signal is taken as likelier to have the outcome, else -1. Raises NotEstimable."""
    if claim.signal not in (*HIGHER_IS_BETTER, *HIGHER_IS_WORSE):
        known = ", ".join((*HIGHER_IS_BETTER, *HIGHER_IS_WORSE))
        raise NotEstimable(f"{claim.signal} is no signal of a row; those are {known}")
    outcome = _find_outcome(study, claim)
    good = outcome is None or outcome.at_least is not None or (outcome.below is None and outcome.full_below is None)
    return 1 if good == (claim.signal in HIGHER_IS_BETTER) else -1


def _note_statuses(arms: dict[str, ByItem], arm: str, items: Sequence[str]) -> tuple[str, ...]:
    """What became of an arm's answers, where it is not all ok."""
    answers = [answer for item in items for answer in arms[arm][item]]
    notes = []
    zeros = [answer for answer in answers if not answer.came]
    if zeros:
        refused = sum(answer.status == "refused" for answer in zeros)
        counts = f"{refused} refused and {len(zeros) - refused} failed"
        notes.append(f"Of {len(answers)} answers of {arm}, {counts} count with score 0.")
    bypassed = sum(answer.status == "bypassed" for answer in answers)
    if bypassed:
        notes.append(f"Of {len(answers)} answers of {arm}, {bypassed} are full runs (bypassed), with their scores.")
    return tuple(notes)
