"""What a rule would do on a prompt, from its table: the planner's proposal, scan and audit, for many rules at once.

A rule is one stop with a few heads. Of each head the observers' mean attention to the chunks is one constraint, as a
share of what the head puts on all chunks. Chunks leave by their largest share first to last, as `order` "row" has it;
those that a head looks at too much for their length (`lift_at_most`) stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from fewer.study.calibrate.entroprefill.tables import Table

__all__ = [
    "AT_MOST",
    "AUDIT_ROOM",
    "DOCUMENT_MIN",
    "GRID",
    "KEEP",
    "LIFTS",
    "MIN_CHUNKS",
    "SHORTEST",
    "TOLERANCES",
    "Heads",
    "Outcome",
    "Rule",
    "count_least",
    "judge",
    "try_rules",
]

Heads = tuple[tuple[int, int], ...]
"""Of each its layer, from 1, and its number, from 0; ascending."""

TOLERANCES = (0.25, 0.35, 0.45)
LIFTS = (0.65, 0.7, 0.75, 0.8, 0.9, 1.0, 1e6)
"""lift_at_most; the last is no limit."""
MIN_CHUNKS = (8, 5)
KEEP = (0.6, 0.5, 0.4, 0.3)
AT_MOST = (0.6, 0.65, 0.7)
"""keep_at_most: from how small a rest on a removal is accepted."""
SHORTEST = (1536, 256)
"""Tokens of the shortest prompt that is asked about. Each of the six runs from careful to bold."""
GRID = tuple(product(TOLERANCES, LIFTS, MIN_CHUNKS, KEEP))
"""(tolerance, lift_at_most, min_chunks, keep): what a scan depends on, beside the heads."""
AUDIT_ROOM = 0.05
"""What the audit allows over the tolerance: its rows are the whole query's, and each row counts the same."""
DOCUMENT_MIN = 0.05
"""Not searched: a guard that bound nowhere."""
_DECIMALS = 12  # as in the planner's order


@dataclass(frozen=True)
class Rule:
    """All that is searched. keep and keep_at_most are shares of the whole prompt, protected tokens counted."""

    heads: Heads
    tolerance: float
    lift_at_most: float
    min_chunks: int
    keep: float
    keep_at_most: float
    shortest: int

    @property
    def layer(self) -> int:
        """The stop: the earliest layer at which all heads have been seen."""
        return max(layer for layer, _ in self.heads)

    @property
    def monitor(self) -> str:
        """As the planner reads it: `9:8.7+0` is after layer 9, by head 7 of layer 8 and head 0 of layer 9."""
        named = [str(head) if layer == self.layer else f"{layer}.{head}" for layer, head in self.heads]
        return f"{self.layer}:{'+'.join(named)}"

    def describe(self) -> str:
        """In one line."""
        return (
            f"{self.monitor}, tolerance {self.tolerance:g}, lift_at_most {self.lift_at_most:g}, "
            f"min_chunks {self.min_chunks}, keep {self.keep:.0%}, keep_at_most {self.keep_at_most:.0%}, "
            f"shortest {self.shortest}"
        )


@dataclass(frozen=True, slots=True)
class Outcome:
    """On one prompt. saving: (1 - l/L)(1 - xi), the share of the prefill's token-layers left out; 0 for a bypass."""

    task: str
    pruned: bool
    survives: bool  # no chunk with evidence has left
    saving: float
    documents: float  # share of the document tokens that left


def judge(table: Table, rule: Rule, num_layers: int) -> Outcome:
    """The outcome of one rule."""
    grid = [(rule.tolerance, rule.lift_at_most, rule.min_chunks, rule.keep)]
    removed, lost = (found[0, 0] for found in try_rules(table, [rule.heads], grid))
    pruned = table.size >= rule.shortest and bool(removed >= count_least(table, rule.keep_at_most))
    gone = int(removed) if pruned else 0
    saving = (1 - rule.layer / num_layers) * gone / table.size
    return Outcome(table.task, pruned, not (pruned and bool(lost)), saving, gone / int(table.sizes.sum()))


def count_least(table: Table, keep_at_most: float) -> int:
    """Tokens that have to leave for a removal to be accepted."""
    return max(1, table.size - max(1, round(keep_at_most * table.size)))


def try_rules(
    table: Table, sets: Sequence[Heads], grid: Sequence[tuple[float, float, int, float]]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Tokens removed and whether evidence is among them, [sets, grid]; nothing where the layer or the audit refuses.

    All sets have the same number of heads.
    """
    row_of = {int(layer): row for row, layer in enumerate(table.layers)}
    rows = np.array([[row_of[layer] for layer, _ in heads] for heads in sets])  # [sets, heads]
    numbers = np.array([[head for _, head in heads] for heads in sets])
    shares = np.minimum(table.shares[rows, numbers], 1.0)  # [sets, heads, k]
    audited = table.audited[rows, numbers]
    passed_over = table.document_mass[rows.max(axis=1)] < DOCUMENT_MIN
    removed = np.zeros((len(sets), len(grid)), dtype=np.int64)
    lost = np.zeros((len(sets), len(grid)), dtype=np.bool_)
    for tolerance in sorted({each for each, *_ in grid}):
        places = [place for place, (each, *_) in enumerate(grid) if each == tolerance]
        limits = [grid[place][1:] for place in places]
        removed[:, places], lost[:, places] = _scan(table, shares, audited, tolerance, limits)
    removed[passed_over], lost[passed_over] = 0, False
    return removed, lost


def _scan(
    table: Table,
    shares: NDArray[np.float64],
    audited: NDArray[np.float64],
    tolerance: float,
    limits: Sequence[tuple[float, int, float]],
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """One pass over the chunks at one tolerance: [sets, limits]; limits are (lift_at_most, min_chunks, keep)."""
    num_sets, num_heads, count = shares.shape
    key = np.round((shares / tolerance).max(axis=1), _DECIMALS)
    ties = np.broadcast_to(-table.sizes, key.shape), np.broadcast_to(np.arange(count), key.shape)
    order = np.lexsort((ties[1], ties[0], key), axis=-1)  # [sets, k]
    room = np.array([count - min(min_chunks, count) for _, min_chunks, _ in limits])
    total = int(table.sizes.sum())
    target = np.array([min(total, max(0, table.size - max(1, round(keep * table.size)))) for *_, keep in limits])
    lifts = (shares / (table.sizes / total)).max(axis=1)  # [sets, k]
    within = np.array([lift for lift, *_ in limits])
    used = np.zeros((num_sets, len(limits), num_heads))
    audit = np.zeros_like(used)
    saving = np.zeros((num_sets, len(limits)), dtype=np.int64)
    gone = np.zeros_like(saving)
    lost = np.zeros(saving.shape, dtype=np.bool_)
    every = np.arange(num_sets)
    for place in range(count):
        chunk = order[:, place]
        after = used + shares[every, :, chunk][:, None]
        goes = (after <= tolerance).all(axis=-1) & (saving < target) & (gone < room)
        goes &= lifts[every, chunk][:, None] <= within
        used = np.where(goes[..., None], after, used)
        audit += goes[..., None] * audited[every, :, chunk][:, None]
        saving += goes * table.sizes[chunk][:, None]
        gone += goes
        lost |= goes & table.supporting[chunk][:, None]
    refused = (audit > tolerance + AUDIT_ROOM).any(axis=-1)
    saving[refused], lost[refused] = 0, False
    return saving, lost
