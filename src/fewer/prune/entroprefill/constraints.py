"""The constraint rows of one layer by name: those that matter for a reader, and the table in full."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fewer.prune.entroprefill.dual import Bound
from fewer.prune.entroprefill.monitor import name_head
from fewer.prune.entroprefill.screening import Removal, Screen
from fewer.prune.entroprefill.situation import Situation

__all__ = ["Constraints", "RowLine", "list_rows", "name_row", "tabulate"]

_FEW = 5  # rows shown for their slack


@dataclass(frozen=True, slots=True)
class RowLine:
    """One constraint row: a head (`8.7` is head 7 of layer 8) at a query position, or its mean over the observers."""

    head: str
    position: int | None
    token: str
    used: float  # mass that leaves
    tolerance: float
    slack: float
    price: float  # tokens for a unit of mass; 0: the row does not limit the bound


@dataclass(frozen=True, slots=True)
class Constraints:
    """(14) in full. Of each row its head, position (None: the mean over the observers), tolerance, slack and price."""

    chunks: tuple[int, ...]  # the candidates, as numbers among the prompt's, from 0
    heads: tuple[str, ...]
    positions: tuple[int | None, ...]
    tolerances: tuple[float, ...]
    slacks: tuple[float, ...]
    prices: tuple[float, ...]
    masses: tuple[tuple[float, ...], ...]  # of each row, its mass on each of `chunks`


def name_row(situation: Situation, layer: int, row: int) -> tuple[str, int | None]:
    """Head and position of a constraint row: heads in order, each with its observers, or with their mean."""
    heads, each = situation.protocol.heads(layer), situation.rows_a_head
    position = situation.observers[row % each] if situation.settings.rows == "each" else None
    return name_head(heads[row // each]), position


def tabulate(situation: Situation, layer: int, screen: Screen, removal: Removal, bound: Bound) -> Constraints:
    """Every row of the screen."""
    names = [name_row(situation, layer, row) for row in range(len(screen.mass))]
    return Constraints(
        situation.candidates.index,
        tuple(head for head, _ in names),
        tuple(position for _, position in names),
        tuple(screen.tolerance.tolist()),
        tuple(removal.slack.tolist()),
        tuple(bound.prices.rows.tolist()),
        tuple(map(tuple, screen.mass.tolist())),
    )


def list_rows(
    situation: Situation, layer: int, screen: Screen, removal: Removal, bound: Bound, decode: Callable[[int], str]
) -> tuple[RowLine, ...]:
    """Rows with a price, and those closest to their tolerance."""
    order = np.argsort(removal.slack, kind="stable")
    wanted = set(order[:_FEW].tolist()) | set(np.flatnonzero(bound.prices.rows).tolist())
    lines = []
    for row in (row for row in order.tolist() if row in wanted):
        head, position = name_row(situation, layer, row)
        tolerance, slack = float(screen.tolerance[row]), float(removal.slack[row])
        token = "mean" if position is None else decode(int(situation.prompt.ids[position]))
        lines.append(RowLine(head, position, token, tolerance - slack, tolerance, slack, float(bound.prices.rows[row])))
    return tuple(lines)
