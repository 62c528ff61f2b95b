"""The answers that each item of a study gets: one for every arm, and for every seed where something is drawn."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from fewer.study.arms import Arm
from fewer.study.item import Item
from fewer.study.spec import Study

__all__ = ["Cell", "list_cells"]


@dataclass(frozen=True, slots=True)
class Cell:
    """One answer to be given: an arm and a seed."""

    arm: Arm
    seed: int

    def key(self, item: Item) -> str:
        """What tells its row from every other of the run."""
        return hashlib.sha256(f"{item.fingerprint}|{self.arm.name}|{self.seed}".encode()).hexdigest()

    def draw_seed(self, item: Item) -> int:
        """The seed of its draws: another one for every item, the same for every arm."""
        return int(hashlib.sha256(f"{item.id}|{self.seed}".encode()).hexdigest()[:15], 16)


def list_cells(study: Study) -> tuple[Cell, ...]:
    """The answers that each item gets, the full one first: every seed where something is drawn, else the first.

    An arm with a seed of its own has that one alone. The text without what an arm removed follows that arm's draws,
    seed by seed.
    """
    arms = sorted(study.expanded, key=lambda arm: not arm.is_full)
    drawing = study.sampling.temperature > 0
    seeds = {arm.name: study.seeds if arm.draws or drawing else study.seeds[:1] for arm in arms}
    seeds |= {arm.name: (arm.seed,) for arm in arms if arm.seed is not None}
    seeds |= {arm.name: seeds[arm.like] for arm in arms if arm.like is not None}
    return tuple(Cell(arm, seed) for arm in arms for seed in seeds[arm.name])
