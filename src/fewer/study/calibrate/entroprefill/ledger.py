"""What every rule does on every fit task, as sums, so that leaving a task out is a subtraction and not another scan."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np
from numpy.typing import NDArray

from fewer.study.calibrate.entroprefill.rule import (
    AT_MOST,
    GRID,
    SHORTEST,
    Heads,
    count_least,
    try_rules,
)
from fewer.study.calibrate.entroprefill.tables import Table

__all__ = ["RULES", "Ledger"]

RULES = tuple((*scan, share, shortest) for scan, share, shortest in product(GRID, AT_MOST, SHORTEST))
"""(tolerance, lift_at_most, min_chunks, keep, keep_at_most, shortest): all rules of one set of heads."""


class Ledger:
    """Sums by set of heads, rule and task; sets are tried when they are asked for."""

    def __init__(self, tables: Sequence[Table], num_layers: int) -> None:
        self.tables, self.num_layers = tables, num_layers
        self.tasks = tuple(dict.fromkeys(table.task for table in tables))
        layers = tables[0].layers.tolist()
        self.heads = [(layer, head) for layer in layers for head in range(tables[0].shares.shape[1])]
        self.alone = np.stack([self._rank(task) for task in self.tasks])  # [tasks, heads]
        self._sums: dict[Heads, NDArray[np.float32]] = {}  # [3, rules, tasks]: pruned, survived, saving

    @property
    def num_rules(self) -> int:
        """Tried so far."""
        return len(self._sums) * len(RULES)

    def all_but(self, task: str | None) -> NDArray[np.bool_]:
        """[tasks]: those to choose on."""
        return np.array([each != task for each in self.tasks])

    def add(self, sets: Sequence[Heads]) -> None:
        """Try these sets of heads, all of one size, on every prompt."""
        new = [heads for heads in sets if heads not in self._sums]
        if not new:
            return
        sums = np.zeros((len(new), 3, len(GRID), len(AT_MOST), len(SHORTEST), len(self.tasks)), dtype=np.float32)
        rest = 1 - np.array([max(layer for layer, _ in heads) for heads in new]) / self.num_layers
        for table in self.tables:
            removed, lost = try_rules(table, new, GRID)
            column = self.tasks.index(table.task)
            asked = np.array([table.size >= shortest for shortest in SHORTEST])
            for place, share in enumerate(AT_MOST):
                pruned = removed >= count_least(table, share)
                sums[:, 0, :, place, :, column] += pruned[..., None] * asked
                sums[:, 1, :, place, :, column] += (pruned & ~lost)[..., None] * asked
                saving = pruned * removed / table.size * rest[:, None]
                sums[:, 2, :, place, :, column] += saving[..., None] * asked
        fits = np.array([[share >= keep for share in AT_MOST] for *_, keep in GRID])
        sums[:, :, ~fits] = 0.0  # more would have to stay than may
        for heads, each in zip(new, sums, strict=True):
            self._sums[heads] = each.reshape(3, -1, len(self.tasks))

    def totals(
        self, sets: Sequence[Heads], tasks: NDArray[np.bool_]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """On these tasks, each [sets, rules]: prompts that are pruned, those whose evidence survives, mean saving."""
        sums = np.stack([self._sums[each][..., tasks].sum(axis=-1, dtype=np.float64) for each in sets])
        chosen = {task for task, wanted in zip(self.tasks, tasks, strict=True) if wanted}
        return sums[:, 0], sums[:, 1], sums[:, 2] / sum(table.task in chosen for table in self.tables)

    def _rank(self, task: str) -> NDArray[np.float64]:
        """[heads]: what a head could save at its own layer, if it were known how much of its ranking has to stay."""
        found = np.zeros(len(self.heads))
        for table in self.tables:
            if table.task == task:
                shares = table.shares.reshape(-1, len(table.sizes))
                lowest = np.where(table.supporting, shares, np.inf).min(axis=1, keepdims=True)
                found += ((shares < lowest) * table.sizes).sum(axis=1) / table.size
        left: NDArray[np.float64] = 1 - np.array([layer for layer, _ in self.heads]) / self.num_layers
        return found * left
