"""Places: the answers of one policy at one budget and in one condition, beside the full run's on the same items.

Arms that differ by their seed alone are draws of one policy and share a place; an answer is a unit, and an item's
answers share its cluster. Signals are compared within a place: what is common at a small budget is rare at a large one.
Arms that prune, that do not evict, and items without a full answer are in no place.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fewer.study.answers import Answer, ByItem, average
from fewer.study.arms import Arm

__all__ = ["Floats", "Mask", "Place", "find_places", "name_policy"]

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
_OWN = ("budget", "seed", "moment")  # settings that say which place, and which draw


@dataclass(frozen=True, eq=False)
class Place:
    """n answers. `full` is the full run's score on each answer's item, the mean over its seeds."""

    policy: str  # such as "pivotal:snapkv", with settings that are not the budget's, the moment's or the seed's
    budget: str  # as written
    condition: str  # "aware" or "stream"
    arms: tuple[str, ...]
    answers: tuple[Answer, ...]
    full: Floats  # (n,)

    @cached_property
    def score(self) -> Floats:
        """(n,); a refused or failed answer has 0."""
        return np.array([answer.score for answer in self.answers], dtype=np.float64)

    @cached_property
    def clusters(self) -> list[str]:
        """Of each answer (n)."""
        return [answer.cluster for answer in self.answers]

    @cached_property
    def strata(self) -> list[Hashable]:
        """Task and asked length of each answer (n)."""
        return [(answer.task, answer.asked_length) for answer in self.answers]

    @cached_property
    def tasks(self) -> list[str]:
        """In the order in which they come."""
        return list(dict.fromkeys(answer.task for answer in self.answers))

    @property
    def num_items(self) -> int:
        """Items, each with one answer for every draw."""
        return len({answer.item for answer in self.answers})

    def of(self, task: str) -> Place:
        """The same place with the answers of one task."""
        inside = [number for number, answer in enumerate(self.answers) if answer.task == task]
        answers = tuple(self.answers[number] for number in inside)
        return Place(self.policy, self.budget, self.condition, self.arms, answers, self.full[inside])

    def column(self, name: str) -> Floats:
        """A number of each answer's row (n,), NaN where it is null."""
        values = (answer.values[name] for answer in self.answers)
        return np.array([np.nan if value is None else float(value) for value in values], dtype=np.float64)


def find_places(arms: Iterable[Arm], answers: dict[str, ByItem], items: Iterable[str] | None = None) -> list[Place]:
    """Every place of these arms, in their order. answers: as `read_answers` gives them. items: only these."""
    full = {item: average(answer.score for answer in found) for item, found in answers.get("full", {}).items()}
    wanted = full.keys() if items is None else set(items) & full.keys()
    found: dict[tuple[str, str, str], list[Arm]] = {}
    for arm in arms:
        if arm.evict != "none" and arm.prune == "none":
            found.setdefault((name_policy(arm), ", ".join(arm.budgets), arm.condition), []).append(arm)
    places = []
    for (policy, budget, condition), members in found.items():
        inside = [
            answer
            for arm in members
            for item, given in answers.get(arm.name, {}).items()
            if item in wanted
            for answer in given
        ]
        scores = np.array([full[answer.item] for answer in inside], dtype=np.float64)
        if inside:
            names = tuple(arm.name for arm in members)
            places.append(Place(policy, budget, condition, names, tuple(inside), scores))
    return places


def name_policy(arm: Arm) -> str:
    """How an arm evicts, without budget, moment and seed."""
    return " ".join([arm.evict, *(f"{key}={value}" for key, value in arm.settings if key not in _OWN)])
