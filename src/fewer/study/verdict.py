"""What became of each claim: it holds, it is killed, or neither can be said.

An arm and its reference are compared on the same items, seeds averaged within an item first. The interval decides: the
claim holds where its lower end reaches `at_least`, and is killed where its upper end is below `kill_below`. Nothing is
judged before the run is complete, so that nobody stops at a lucky moment. Only tasks that can carry claims take part
(`eligibility`); the others are named. Speed has nothing to do with scores: its claims are about all items. Which
numbers are estimated is in `estimate.py`.

Not covered: whether a claim was worth making, and whether its bounds were chosen before the run; that is what a
registration is for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import pyarrow as pa

from fewer.study.answers import ByItem, read_answers
from fewer.study.cells import list_cells
from fewer.study.eligibility import Eligibility, assess, find_judge
from fewer.study.estimate import COLUMNS, Finding, NotEstimable, describe_quantity, estimate_claim
from fewer.study.spec import Claim, Study
from fewer.study.stats import Interval, multiplicity_note

__all__ = ["HIGHEST_LEVEL", "Verdict", "judge", "note_on_many"]

HIGHEST_LEVEL = 1 - 1e-9
"""Above it the tails of an interval are lost in rounding."""

Word = Literal["holds", "killed", "undecided", "no claim"]


@dataclass(frozen=True)
class Verdict:
    """What became of one claim."""

    claim: Claim
    verdict: Word
    sentence: str
    """The verdict with its numbers."""
    interval: Interval | None
    """The estimate with its interval, method, numbers of items and clusters; None where nothing was estimated."""
    excluded: tuple[tuple[str, str], ...]
    """Tasks that could not carry the claim, each as a whole and with the reason, such as suspected memory; none for a
    speedup."""
    notes: tuple[str, ...]
    """What else a reader should know: bypassed, refused and failed answers, tasks of which it is not known whether
    they measure memory, answers without the signal, and whose seconds do not count."""
    adjusted: Word | None
    """The verdict with the level raised for the number of the study's claims (Bonferroni); None without an interval,
    and undecided where that level is above `HIGHEST_LEVEL`."""


def judge(
    study: Study,
    rows: pa.Table,
    num_items: Mapping[str, int] | None = None,
    *,
    resamples: int = 10_000,
    seed: int = 0,
) -> tuple[Verdict, ...]:
    """A verdict for every claim of the study, in its order.

    num_items: how many items each task has in the whole run, to see which are still missing; without it only items of
    which some arm has rows are known of. Raises BadInput as `read_answers` does.
    """
    arms = read_answers(rows, COLUMNS)
    found = assess(rows, resamples=resamples, seed=seed)
    return tuple(_judge(study, claim, arms, found, num_items, resamples=resamples, seed=seed) for claim in study.claims)


def note_on_many(verdicts: Sequence[Verdict]) -> str:
    """The sentences a page with several verdicts owes its reader: how many would go wrong by chance."""
    levels = [verdict.interval.level for verdict in verdicts if verdict.interval is not None and verdict.interval.known]
    if not levels:
        return "No claim has an interval."
    notes = [multiplicity_note(levels.count(level), level=level) for level in sorted(set(levels))]
    decided = [verdict for verdict in verdicts if verdict.verdict in ("holds", "killed")]
    stand = sum(verdict.adjusted == verdict.verdict for verdict in decided)
    if len(verdicts) > 1 and decided:
        many = f"{stand} of {len(decided)} decided claims keep their verdict"
        notes.append(f"With the levels raised for {len(verdicts)} claims (Bonferroni), {many}.")
    return " ".join(notes)


def _judge(
    study: Study,
    claim: Claim,
    arms: dict[str, ByItem],
    found: tuple[Eligibility, ...],
    num_items: Mapping[str, int] | None,
    *,
    resamples: int,
    seed: int,
) -> Verdict:
    tasks = claim.tasks or tuple(dict.fromkeys(task.name for task in study.tasks))
    came, asked = _count_cells(study, claim, arms, tasks, num_items)
    if came < asked or not asked:
        text = f"{came:,} of {asked:,} answers are in" if asked else "no answers are in"
        return Verdict(claim, "undecided", f"undecided: {text}.", None, (), (), None)
    items = {item: answers[0] for item, answers in arms["full"].items() if answers[0].task in tasks}
    places = {item: first.task for item, first in items.items()}
    judges = {task: find_judge(found, task) for task in places.values()}
    deciding = [] if claim.kind == "speedup" else [entry for entry in found if entry in judges.values()]
    excluded = tuple((entry.label, entry.reason) for entry in deciding if not entry.eligible)
    kept = [item for item, task in places.items() if claim.kind == "speedup" or judges[task].eligible]
    notes = tuple(f"{entry.label}: {entry.remark}" for entry in deciding if entry.eligible and entry.remark)
    left_out = "; ".join(f"{label}: {reason}" for label, reason in excluded)
    if not kept:
        return Verdict(claim, "no claim", f"no claim: {left_out}.", None, excluded, notes, None)
    if claim.level > HIGHEST_LEVEL:
        why = f"its level, {claim.level!r}, is above {HIGHEST_LEVEL}, and no interval can be told from all numbers"
        return Verdict(claim, "no claim", f"no claim: {why}.", None, excluded, notes, None)
    raised = claim.model_copy(update={"level": 1 - (1 - claim.level) / len(study.claims)})
    try:
        finding = estimate_claim(study, claim, arms, kept, resamples=resamples, seed=seed)
        adjusted: Word | None = None
        if finding.interval.known:
            adjusted = "undecided"
            if raised.level <= HIGHEST_LEVEL:
                again = estimate_claim(study, raised, arms, kept, resamples=resamples, seed=seed)
                adjusted = _decide(claim, again.interval)
    except NotEstimable as why:
        return Verdict(claim, "no claim", f"no claim: {why}.", None, excluded, notes, None)
    verdict = Verdict(
        claim=claim,
        verdict=_decide(claim, finding.interval),
        sentence="",
        interval=finding.interval,
        excluded=excluded,
        notes=(*finding.notes, *notes),
        adjusted=adjusted,
    )
    return replace(verdict, sentence=_write(study, verdict, finding, left_out))


def _count_cells(
    study: Study, claim: Claim, arms: dict[str, ByItem], tasks: Iterable[str], num_items: Mapping[str, int] | None
) -> tuple[int, int]:
    """How many answers the claim needs are in, of how many: of its arm, its reference and the full run."""
    wanted = set(tasks)
    seen = {item: answers[0].task for by_item in arms.values() for item, answers in by_item.items()}
    known = Counter(seen.values())
    total = sum(max(known[task], (num_items or {}).get(task, 0)) for task in wanted)
    needed = {"full", claim.arm, *claim.also} | (
        {claim.reference} if claim.kind in ("difference", "speedup") else set()
    )
    cells = {(cell.arm.name, cell.seed) for cell in list_cells(study) if cell.arm.name in needed}
    came = sum(
        answer.task in wanted and (arm, answer.seed) in cells
        for arm in needed & arms.keys()
        for answers in arms[arm].values()
        for answer in answers
    )
    return came, total * len(cells)


def _decide(claim: Claim, interval: Interval) -> Word:
    if interval.lower is None or interval.upper is None or interval.clusters < claim.min_clusters:
        return "undecided"
    if interval.lower >= claim.at_least:
        return "holds"
    return "killed" if interval.upper < claim.kill_below else "undecided"


def _write(study: Study, verdict: Verdict, finding: Finding, left_out: str) -> str:
    claim, interval = verdict.claim, finding.interval
    assert interval.estimate is not None
    digits, unit = (2, "x") if claim.kind == "speedup" else (3, "")

    def show(value: float) -> str:
        return f"{value:.{digits}f}{unit}"

    counts = f"{interval.n:,} {finding.unit} in {interval.clusters:,} clusters"
    text = f"{verdict.verdict}: {describe_quantity(study, claim)} is {show(interval.estimate)}"
    if interval.lower is not None and interval.upper is not None:
        text += f", {100 * interval.level:.4g}% interval [{show(interval.lower)}, {show(interval.upper)}]"
    text += f" ({interval.method}; {counts})."
    bounds = {
        "holds": f" It was to be at least {claim.at_least:g}.",
        "killed": f" It was to be killed below {claim.kill_below:g}.",
        "undecided": f" It holds from {claim.at_least:g} and is killed below {claim.kill_below:g}.",
    }
    text += bounds.get(verdict.verdict, "")
    if interval.clusters < claim.min_clusters:
        text += f" {interval.clusters} clusters are fewer than the {claim.min_clusters} the claim asks for."
    if left_out:
        text += f" Left out: {left_out}."
    return text
