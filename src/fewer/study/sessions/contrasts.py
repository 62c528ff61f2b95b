"""Scores of the arms, and their differences: from the full run, and of a sampled policy from top-k with its score.

Paired by item, the seeds of a policy averaged within an item first. Two policies are compared only at the same budget
and in the same condition.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fewer.study.answers import average
from fewer.study.eligibility import choose_method
from fewer.study.sessions.places import Place
from fewer.study.stats import Interval, mean, mean_difference

__all__ = ["difference_from_full", "difference_of", "find_twin", "mean_score"]

_UNIT = (0.0, 1.0)


def mean_score(place: Place, **how: Any) -> Interval:
    """The mean score over items. how: level, resamples and seed."""
    scores, _, clusters = _by_item(place)
    return mean(list(scores.values()), list(clusters.values()), **_rule(clusters), **how)


def difference_from_full(place: Place, **how: Any) -> Interval:
    """The mean over items of the score minus the full run's."""
    scores, fulls, clusters = _by_item(place)
    return mean_difference(
        list(scores.values()), list(fulls.values()), list(clusters.values()), **_rule(clusters), **how
    )


def difference_of(place: Place, other: Place, **how: Any) -> Interval | None:
    """The mean over common items of a place's score minus another's; None where there are none."""
    mine, _, clusters = _by_item(place)
    theirs, _, _ = _by_item(other)
    common = {item: cluster for item, cluster in clusters.items() if item in theirs}
    if not common:
        return None
    own, others = [mine[item] for item in common], [theirs[item] for item in common]
    return mean_difference(own, others, list(common.values()), **_rule(common), **how)


def find_twin(place: Place, places: Sequence[Place]) -> Place | None:
    """The place of top-k with the same score and settings, at the same budget and condition; None without one."""
    _, colon, score = place.policy.partition(":")
    wanted = (score, place.budget, place.condition)
    return next((other for other in places if colon and (other.policy, other.budget, other.condition) == wanted), None)


def _by_item(place: Place) -> tuple[dict[str, float], dict[str, float], dict[str, str]]:
    """Each item's score, full score and cluster."""
    scores: dict[str, list[float]] = {}
    fulls, clusters = {}, {}
    for answer, full in zip(place.answers, place.full.tolist(), strict=True):
        scores.setdefault(answer.item, []).append(answer.score)
        fulls[answer.item], clusters[answer.item] = full, answer.cluster
    return {item: average(found) for item, found in scores.items()}, fulls, clusters


def _rule(clusters: dict[str, str]) -> dict[str, Any]:
    return {"method": choose_method(clusters.values()), "bounds": _UNIT}
