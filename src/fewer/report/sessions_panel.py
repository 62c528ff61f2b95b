"""What the tables on sessions share: the places of a run, by themselves and by policy, and which doubts to show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from fewer.report import estimates as shared
from fewer.report.block import Cell, Column, word
from fewer.report.estimates import LEVEL, Estimates
from fewer.study.sessions.doubts import list_present
from fewer.study.sessions.gating import RANDOM
from fewer.study.sessions.outcomes import find_threshold
from fewer.study.sessions.places import Floats, Place, find_places
from fewer.study.sessions.summaries import PREFIX

__all__ = ["HEADS", "PLAIN", "Group", "Panel", "open_panel"]

PLAIN = "logprob"
"""What every other doubt has to beat: it needs nothing but the answer."""
HEADS = (
    Column("condition", "condition", "text"),
    Column("policy", "policy", "text"),
    Column("budget", "budget", "text"),
)
"""The columns that name a group."""


@dataclass(frozen=True, eq=False)
class Group:
    """Places of one policy and condition: one budget, or all of them."""

    condition: str
    policy: str
    budget: str
    places: tuple[Place, ...]

    @property
    def heads(self) -> tuple[Cell, ...]:
        """The cells of `HEADS`."""
        return word(self.condition), word(self.policy), word(self.budget)

    @cached_property
    def doubts(self) -> list[str]:
        """The named doubts that some answers of the group have."""
        found = [name for place in self.places for name in list_present(place)]
        return list(dict.fromkeys(found))


@dataclass(frozen=True, eq=False)
class Panel:
    """A run's places and the score from which on an answer is right."""

    estimates: Estimates
    places: tuple[Place, ...]
    threshold: float

    @property
    def how(self) -> dict[str, Any]:
        """Of every interval here."""
        return {"level": LEVEL, "resamples": shared.RESAMPLES, "seed": 0}

    def worth(self, scores: Floats) -> Floats:
        """1 where a score is right, else 0."""
        return (scores >= self.threshold).astype(np.float64)

    @cached_property
    def policies(self) -> tuple[Group, ...]:
        """A group for each policy and condition, with all of its budgets."""
        found: dict[tuple[str, str], list[Place]] = {}
        for place in self.places:
            found.setdefault((place.condition, place.policy), []).append(place)
        return tuple(
            Group(condition, policy, _join(places), tuple(places)) for (condition, policy), places in found.items()
        )

    @cached_property
    def budgets(self) -> tuple[Group, ...]:
        """A group for each place by itself, of policies that have several."""
        return tuple(
            Group(place.condition, place.policy, place.budget, (place,))
            for group in self.policies
            if len(group.places) > 1
            for place in group.places
        )

    @cached_property
    def chosen(self) -> tuple[str, ...]:
        """The doubts that the study's claims are about, the published certificate where there are none."""
        claims = self.estimates.log.study.claims
        named = dict.fromkeys(claim.signal for claim in claims if claim.signal and claim.kind in ("auc", "recompute"))
        about = tuple(name for name in named if name.startswith(("certificate", PREFIX)) and name != RANDOM)
        return about or ("certificate",)

    def doubts(self, group: Group) -> list[str]:
        """What to show of a group: the doubts that it has, and the summaries that claims are about."""
        certified = "certificate" in group.doubts
        summaries = [name for name in self.chosen if name.startswith(PREFIX) and certified]
        return [*summaries, *group.doubts]

    def compared(self, group: Group) -> list[str]:
        """Of those: all where the group has every budget of its policy, else what claims are about and log-probability.

        A table of every signal at every budget is long, and takes minutes.
        """
        shown = self.doubts(group)
        return shown if group in self.policies else [name for name in shown if name in (*self.chosen, PLAIN)]


def open_panel(estimates: Estimates) -> Panel | None:
    """The panel of a run; None where the study does not collect evidence, nothing was evicted, or no score is right."""
    study = estimates.log.study
    threshold = find_threshold(study)
    if "evidence" not in study.signals or threshold is None:
        return None
    places = find_places(study.expanded, estimates.answers)
    return Panel(estimates, tuple(places), threshold) if places else None


def _join(places: Sequence[Place]) -> str:
    budgets = list(dict.fromkeys(place.budget for place in places))
    return budgets[0] if len(budgets) == 1 else f"mean of {', '.join(budgets)}"
