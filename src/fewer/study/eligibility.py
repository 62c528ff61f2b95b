"""Which tasks can carry claims: those that the full model can do, with room left, and enough items to tell.

Where the full model is at the floor there is nothing to lose, and where it is at the ceiling small losses are too rare
to be seen: an arm that loses nothing there shows nothing. Such a task is shown, and no claim rests on it. The task
as a whole decides for all its items (`find_judge`); of generated tasks each asked length is assessed too, to be shown.

The control without context is judged beside it: where the question alone is answered about as well, the task measures
what the model remembers, and an arm that keeps its score may have ignored the context. No claim rests on such a task
either (memory is "suspected"); where that cannot be told ("unknown"), claims may, with a remark.

The full run's answers decide here and are compared with again later, so close to the two bounds the choice leans on
luck. Not covered: contamination that the question alone does not bring out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

from fewer.study.answers import Answer, ByItem, average, read_answers
from fewer.study.stats import Interval, mean, mean_difference
from fewer.study.stats.ratio import Method

__all__ = ["CEILING", "FEW_CLUSTERS", "FLOOR", "MIN_ITEMS", "Eligibility", "assess", "choose_method", "find_judge"]

FLOOR, CEILING = 0.10, 0.98
"""The full model's mean score has to lie above the one and below the other."""
MIN_ITEMS = 20
"""Items of the full run that a task, or a length, needs to be eligible, and the control to tell memory."""
MIN_CLUSTERS = 5
"""Clusters that telling memory from context takes."""
FEW_CLUSTERS = 20
"""Below this many clusters intervals of means are Student's t over clusters: a bootstrap is too narrow there."""


@dataclass(frozen=True)
class Eligibility:
    """One task, or one asked length of it."""

    task: str
    length: int | None
    """Asked for, in tokens; None is the whole task."""
    full: Interval
    """The full arm's mean score, with the numbers of items and clusters."""
    num_refused: int
    """Answers of the full arm, each 0 in the score above."""
    num_failed: int
    eligible: bool
    """Whether claims may rest on it: room to lose, enough items, and no suspicion of memory."""
    reason: str
    """Why not, as a part of a sentence; empty where it is eligible."""
    no_context: Interval | None
    """The mean score of the question alone, over the same items; None where the study has no such arm."""
    context_gain: Interval | None
    """Full minus no context, paired by item."""
    memory: Literal["no", "suspected", "unknown"]
    """Whether it may measure memory, or chance: suspected, and then not eligible, unless the whole interval of the
    gain is above 0; unknown without a control or with too few items or clusters in it."""
    remark: str
    """Why it is not known whether it measures memory, a sentence; empty where it is known."""

    @property
    def label(self) -> str:
        """What to call it in a sentence."""
        return self.task if self.length is None else f"{self.task} at {self.length:,} tokens"


def assess(rows: pa.Table, *, level: float = 0.95, resamples: int = 10_000, seed: int = 0) -> tuple[Eligibility, ...]:
    """Every task of the log in the order of its names, each followed by its asked lengths, if it was generated.

    Judged on the rows there are: of an unfinished run it is a preview. Raises BadInput as `read_answers` does.
    """
    arms = read_answers(rows)
    full = arms.get("full", {})
    control: ByItem = {}
    for by_item in arms.values():
        for item, answers in by_item.items():
            control.setdefault(item, []).extend(answer for answer in answers if answer.condition == "no_context")
    first = [answers[0] for by_item in arms.values() for answers in by_item.values()]
    found = []
    for task in sorted({answer.task for answer in first}):
        lengths = {answer.asked_length for answer in first if answer.task == task}
        for length in (None, *sorted(length for length in lengths if length is not None)):
            members = {
                item: answers
                for item, answers in full.items()
                if answers[0].task == task and length in (None, answers[0].asked_length)
            }
            found.append(_assess(task, length, members, control, level=level, resamples=resamples, seed=seed))
    return tuple(found)


def find_judge(found: Iterable[Eligibility], task: str) -> Eligibility:
    """What decides for a task's items: the task as a whole, all lengths together. Raises KeyError for no such task.

    It is judged on the answers that are then compared. Judging lengths one by one would drop those where the full run
    was lucky, and tilt a difference towards the arm.
    """
    by_task = {entry.task: entry for entry in found if entry.length is None}
    return by_task[task]


def choose_method(clusters: Iterable[str]) -> Method:
    """How intervals of means are made: by the number of clusters alone, never by what they look like."""
    return "t" if len(set(clusters)) < FEW_CLUSTERS else "bca"


def _assess(
    task: str, length: int | None, full: ByItem, control: ByItem, *, level: float, resamples: int, seed: int
) -> Eligibility:
    def estimate(items: list[str], minus: ByItem | None = None, of: ByItem = full) -> Interval:
        clusters = [full[item][0].cluster for item in items]
        scores = [_score(of[item]) for item in items]
        method = choose_method(clusters)
        if minus is None:
            return mean(scores, clusters, method=method, bounds=(0, 1), level=level, resamples=resamples, seed=seed)
        other = [_score(minus[item]) for item in items]
        return mean_difference(
            scores, other, clusters, method=method, bounds=(0, 1), level=level, resamples=resamples, seed=seed
        )

    answers = [answer for item in full.values() for answer in item]
    score = estimate(list(full))
    reason = _find_reason(score)
    paired = [item for item in full if control.get(item)]
    alone = estimate(paired, of=control) if paired else None
    gain = estimate(paired, control) if paired else None
    memory: Literal["no", "suspected", "unknown"] = "unknown"
    remark = "No arm without context was run: whether the model answers from memory is not known."
    if alone is not None and gain is not None:
        memory, remark = "no", ""
        if gain.n < MIN_ITEMS or gain.clusters < MIN_CLUSTERS:
            few = f"{gain.n} items in {gain.clusters} clusters"
            memory, remark = "unknown", f"{few} are too few to tell memory from context."
        elif gain.lower is None or gain.lower <= 0:
            memory = "suspected"
            remark = (
                f"Without context the model scored {_percent(alone.estimate)}, not clearly below its "
                f"{_percent(score.estimate)} with it: this may measure memory or chance: no claim"
            )
    return Eligibility(
        task=task,
        length=length,
        full=score,
        num_refused=sum(answer.status == "refused" for answer in answers),
        num_failed=sum(answer.status == "failed" for answer in answers),
        eligible=not reason and memory != "suspected",
        reason=reason or (remark if memory == "suspected" else ""),
        no_context=alone,
        context_gain=gain,
        memory=memory,
        remark=remark if memory == "unknown" else "",
    )


def _find_reason(score: Interval) -> str:
    if score.estimate is None:
        return "the full model has no answers: no claim"
    if score.n < MIN_ITEMS:
        return f"{score.n} items, fewer than {MIN_ITEMS}: shown, no claim"
    if not FLOOR < score.estimate < CEILING:
        bound = f"not above {_percent(FLOOR)}" if score.estimate <= FLOOR else f"not below {_percent(CEILING)}"
        return f"full model scored {_percent(score.estimate)}, {bound}: shown, no claim"
    return ""


def _score(answers: list[Answer]) -> float:
    return average(answer.score for answer in answers)


def _percent(value: float | None) -> str:
    return "nothing" if value is None else f"{100 * value:.3g}%"
