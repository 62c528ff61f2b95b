"""Which summary of the radii attributes best, on a pilot's answers.

Every summary there is gets the area of induced above inherent failures. The best of a thousand is best by luck as
well, and its area here is no estimate of anything: it is chosen here, written into a claim by its name before the next
run, and confirmed on items that had no part in the choice. The mean over all summaries with one part says more of that
part than the best does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

from fewer.study.sessions.areas import rank_values
from fewer.study.sessions.outcomes import label_by
from fewer.study.sessions.places import Place
from fewer.study.sessions.summaries import PARTS, Summary, list_summaries, read_radii, set_beside

__all__ = ["Found", "average_parts", "search_summaries"]


@dataclass(frozen=True, slots=True)
class Found:
    """A summary and its areas for attribution, over pairs of one place, and of one place and task."""

    summary: Summary
    area: float
    within_tasks: float | None


def search_summaries(places: Sequence[Place], threshold: float) -> list[Found]:
    """Every summary that some answers have, the best first; of equal ones the earlier in `list_summaries`.

    Empty where no place has both kinds of failure with radii.
    """
    labels = label_by("attribution", threshold)
    radii = [read_radii([answer.values["radii"] for answer in place.answers]) for place in places]
    logprobs = [place.column("mean_logprob") for place in places]
    found, plain = [], [summary for summary in list_summaries() if not summary.beside]
    for summary, beside in product(plain if any(radii) else (), PARTS["beside"]):
        if not beside:
            raw = [summary.values(own, logprob) for own, logprob in zip(radii, logprobs, strict=True)]
        values = [set_beside(value, beside, logprob) for value, logprob in zip(raw, logprobs, strict=True)]
        area = rank_values(places, labels, values)
        if area is not None:
            found.append(Found(replace(summary, beside=beside), area, rank_values(places, labels, values, "task")))
    return sorted(found, key=lambda one: -one.area)


def average_parts(found: Sequence[Found]) -> list[tuple[str, str, float, float]]:
    """For each choice of each part: the part, the choice, the mean area of all summaries with it, and the best one."""
    rows = []
    for part, choices in PARTS.items():
        for choice in choices:
            areas = [one.area for one in found if getattr(one.summary, part) == choice]
            if areas:
                rows.append((part, choice or "none", sum(areas) / len(areas), max(areas)))
    return rows
