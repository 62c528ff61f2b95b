"""The rows of a log as answers: by arm and item, with scores that have no holes, and averages over seeds.

A refused or failed answer counts with score 0. Seeds are averaged within an item, so that an item weighs the same
however often an arm drew for it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from fewer.errors import bad

__all__ = ["Answer", "ByItem", "average", "read_answers"]

_COLUMNS = ("item", "task", "cluster", "arm", "condition", "keep", "seed", "status", "score", "asked_length")


@dataclass(frozen=True, slots=True)
class Answer:
    """One item under one arm and seed. `values` has the further columns that were asked for."""

    item: str
    task: str
    cluster: str
    arm: str
    condition: str
    keep: str | None
    seed: int
    status: str
    score: float
    asked_length: int | None
    values: dict[str, Any]

    @property
    def came(self) -> bool:
        """Whether there is an answer at all."""
        return self.status in ("ok", "bypassed")


ByItem = dict[str, list[Answer]]


def read_answers(rows: pa.Table, columns: Iterable[str] = ()) -> dict[str, ByItem]:
    """Answers by arm, then by item, in the order of the log.

    Raises BadInput for a score that is missing or not from 0 to 1, and for one seed of an item given twice.
    """
    columns = tuple(columns)
    arms: dict[str, ByItem] = {}
    for row in rows.select(list(dict.fromkeys([*_COLUMNS, *columns]))).to_pylist():
        fields = {name: row[name] for name in _COLUMNS}
        if row["status"] in ("refused", "failed"):
            fields["score"] = 0.0
        where = f"of item {row['item']!r} under {row['arm']!r}"
        if fields["score"] is None or not 0 <= fields["score"] <= 1:
            raise bad(f"the score {where}", fields["score"], "from 0 to 1", "Score the answer again.")
        answers = arms.setdefault(row["arm"], {}).setdefault(row["item"], [])
        if any(answer.seed == row["seed"] for answer in answers):
            raise bad(f"seed {where}", row["seed"], "there once", "Join runs of different items only.")
        answers.append(Answer(**fields, values={name: row[name] for name in columns}))
    return arms


def average(values: Iterable[float]) -> float:
    """The mean, rounded once."""
    numbers = list(values)
    return math.fsum(numbers) / len(numbers)
