"""What became of the answers beside the full run's: counts of right, induced and inherent failures.

An answer is right from a threshold of the score on. A failure is induced where the full run is right on the item, and
inherent where the full run is wrong too (Xie 2026, section 5). Induced does not say that a larger cache would have been
right, only that the whole one is. Answers are units: a policy with two seeds has two answers an item.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np

from fewer.errors import bad
from fewer.study.sessions.places import Floats, Mask, Place
from fewer.study.spec import Outcome, Study

__all__ = ["COMMON", "KINDS", "Counts", "Kind", "Labelling", "count_outcomes", "find_threshold", "label_by"]

Labelling = Callable[[Place], tuple[Mask, Floats]]
"""Which of a place's answers (n,) are ranked, and which of those (m,) are the positives, as 0 and 1."""
Kind = Literal["any", "induced", "attribution"]
KINDS: dict[Kind, str] = {
    "any": "any failure, among all answers",
    "induced": "an induced failure, among answers to items that the full run has right",
    "attribution": "an induced rather than an inherent failure, among failures",
}
COMMON = (0.2, 0.6)
"""Where both kinds of failure are common: the full run's share of wrong answers, and the cache's of the others."""


@dataclass(frozen=True, slots=True)
class Counts:
    """Of one place, or one task in it; all are of answers but for the items and clusters."""

    answers: int
    items: int
    clusters: int
    full_right: int
    right: int
    induced: int
    inherent: int
    gained: int  # right where the full run is wrong

    @property
    def full_fails(self) -> float | None:
        """The share of answers whose item the full run has wrong."""
        return (self.answers - self.full_right) / self.answers if self.answers else None

    @property
    def broken(self) -> float | None:
        """Of the answers whose item the full run has right, the share that is wrong."""
        return self.induced / self.full_right if self.full_right else None

    @property
    def both_common(self) -> bool:
        """Whether both shares lie within `COMMON`, ends included."""
        low, high = COMMON
        shares = (self.full_fails, self.broken)
        return all(share is not None and low <= share <= high for share in shares)


def find_threshold(study: Study) -> float | None:
    """The score from which on an answer is right: of the study's first outcome that is nothing but `at_least`."""
    for outcome in study.outcomes:
        if outcome.at_least is not None and _bounds(outcome) == 1:
            return outcome.at_least
    return None


def count_outcomes(place: Place, threshold: float) -> Counts:
    """The counts of a place's answers."""
    right, full = place.score >= threshold, place.full >= threshold
    return Counts(
        answers=len(place.answers),
        items=place.num_items,
        clusters=len(set(place.clusters)),
        full_right=int(full.sum()),
        right=int(right.sum()),
        induced=int((full & ~right).sum()),
        inherent=int((~full & ~right).sum()),
        gained=int((~full & right).sum()),
    )


def label_by(kind: Kind, threshold: float) -> Labelling:
    """How to label a place's answers for a kind of ranking."""
    return partial(_label, kind, threshold)


def _label(kind: Kind, threshold: float, place: Place) -> tuple[Mask, Floats]:
    wrong, full = place.score < threshold, place.full >= threshold
    among: dict[str, Sequence[Mask]] = {
        "any": (np.ones_like(wrong), wrong),
        "induced": (full, wrong),
        "attribution": (wrong, full),
    }
    if kind not in among:
        raise bad("kind", kind, f"one of {', '.join(KINDS)}", "Name one of them.")
    inside, positive = among[kind]
    return inside, positive[inside].astype(np.float64)


def _bounds(outcome: Outcome) -> int:
    bounds = (outcome.at_least, outcome.below, outcome.full_at_least, outcome.full_below)
    return sum(bound is not None for bound in bounds)
