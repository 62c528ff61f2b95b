"""How well a doubt ranks answers: areas under the ROC curve within places, and paired differences between two doubts.

Only pairs of answers of one place are counted, so that no area is won by knowing the budget; over several places the
area is the mean of theirs, weighted by their numbers of pairs. Within a task as well it is not won by knowing which
task an answer is of, either: a system that serves a mixture may win that way, and none that serves one task.

Intervals resample clusters of items; the draws depend on the seed and the clusters alone, and a difference is taken
within each draw. Answers without the doubt cannot be ranked, and are counted.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy.stats import rankdata

from fewer.study.sessions.doubts import read_doubt
from fewer.study.sessions.outcomes import Labelling
from fewer.study.sessions.places import Floats, Place
from fewer.study.stats import Interval, auc, auc_difference

__all__ = ["Area", "Within", "rank", "rank_against", "rank_values"]

Within = Literal["budget", "task"]


@dataclass(frozen=True, slots=True)
class Area:
    """An area, or a difference of two; `interval` is None where nothing can be ranked, and `why` says so."""

    interval: Interval | None
    positives: int
    negatives: int
    missing: int  # answers that would have been ranked, without a doubt
    why: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class _Ranked:
    """The answers of all places that are ranked (m,), after those without a doubt were left out."""

    labels: Floats
    doubts: tuple[Floats, ...]
    clusters: list[str]
    groups: list[tuple[Hashable, ...]]
    missing: int

    def describe(self, interval: Interval | None) -> Area:
        positives = int(self.labels.sum())
        negatives = self.labels.size - positives
        why = "" if interval is not None else f"no place has both kinds: {positives} and {negatives}"
        return Area(interval, positives, negatives, self.missing, why)

    @property
    def has_pairs(self) -> bool:
        groups = [{self.groups[i] for i in np.flatnonzero(self.labels == value)} for value in (0, 1)]
        return bool(groups[0] & groups[1])


def rank(places: Sequence[Place], labels: Labelling, name: str, *, within: Within = "budget", **how: Any) -> Area:
    """The area of one doubt, larger taken as likelier a positive. how: those of `fewer.study.stats.auc`."""
    found = _gather(places, labels, [read_doubt(name, place)[None] for place in places], within)
    if not found.has_pairs:
        return found.describe(None)
    return found.describe(auc(found.labels, found.doubts[0], found.clusters, within=found.groups, **how))


def rank_against(
    places: Sequence[Place],
    labels: Labelling,
    name: str,
    other: str,
    *,
    turned: bool = False,
    within: Within = "budget",
    **how: Any,
) -> Area:
    """The area of one doubt minus another's, over the answers that have both.

    turned: minus the area of the other turned round, for a doubt that ranks the wrong way.
    """
    both = [np.stack([read_doubt(one, place) for one in (name, other)]) for place in places]
    found = _gather(places, labels, both, within)
    if not found.has_pairs:
        return found.describe(None)
    first, second = found.doubts
    second = -second if turned else second
    return found.describe(auc_difference(found.labels, first, second, found.clusters, within=found.groups, **how))


def rank_values(
    places: Sequence[Place], labels: Labelling, values: Sequence[Floats], within: Within = "budget"
) -> float | None:
    """The area of each place's own values (n,), without an interval; None where nothing can be ranked."""
    found = _gather(places, labels, [value[None] for value in values], within)
    members: dict[tuple[Hashable, ...], list[int]] = {}
    for index, group in enumerate(found.groups):
        members.setdefault(group, []).append(index)
    won, pairs = 0.0, 0.0
    for inside in members.values():
        positive = found.labels[inside] == 1
        number = float(positive.sum())
        won += float(rankdata(found.doubts[0][inside])[positive].sum()) - number * (number + 1) / 2  # Mann-Whitney's U
        pairs += number * (len(inside) - number)
    return won / pairs if pairs else None


def _gather(places: Sequence[Place], labels: Labelling, tables: Sequence[Floats], within: Within) -> _Ranked:
    """All that is ranked, of tables (doubts, n) for each place."""
    truths, doubts, missing = [np.empty(0)], [], 0
    clusters: list[str] = []
    groups: list[tuple[Hashable, ...]] = []
    for number, (place, table) in enumerate(zip(places, tables, strict=True)):
        inside, truth = labels(place)
        has = np.isfinite(table[:, inside]).all(axis=0)
        missing += int((~has).sum())
        kept = np.flatnonzero(inside)[has]
        truths.append(truth[has])
        doubts.append(table[:, kept])
        clusters += [place.clusters[i] for i in kept]
        groups += [(number, place.strata[i]) if within == "task" else (number,) for i in kept]
    joined = np.concatenate(doubts, axis=1) if doubts else np.empty((1, 0))
    return _Ranked(np.concatenate(truths), tuple(joined), clusters, groups, missing)
