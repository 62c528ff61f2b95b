"""Made-up rows of a log: an item under an arm, with whatever a test wants of it; and a study to judge them by."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa

from fewer.study.cells import list_cells
from fewer.study.row import SCHEMA, to_table
from fewer.study.spec import Study
from fewer.study.verdict import Verdict, judge

Change = dict[str, Any]
ARMS = [
    {"name": "full"},
    {"condition": "no_context"},
    {"prune": "static", "keep": "50%"},
    {"prune": "random", "keep": "50%"},
]
STATIC, RANDOM = "static keep=50%", "random keep=50%"
ITEMS = [("a", number) for number in range(80)]
OUTCOMES = [{"name": "correct", "at_least": 0.5}, {"name": "lost", "below": 0.5, "full_at_least": 0.5}]


def claim(**changes: object) -> dict[str, Any]:
    base = {"id": "c1", "statement": "It is so.", "kind": "difference", "arm": STATIC}
    return base | {"at_least": -0.05, "kill_below": -0.1} | changes


def study(*claims: Change, **changes: object) -> Study:
    tasks = [{"name": "a"}, {"name": "b"}]
    base = {"name": "s", "tasks": tasks, "arms": ARMS, "seeds": [0, 1], "share": False, "outcomes": OUTCOMES}
    return Study.model_validate(base | {"claims": list(claims)} | changes)


def look(made: Study, rows: object, **settings: object) -> tuple[Verdict, ...]:
    return judge(made, rows, resamples=1_000, **settings)


def usual(task: str, number: int, arm: str, seed: int) -> Change:
    """Full is right on three of four, no context on one in eight; static is full; random is right on half of those."""
    right = number % 4 != 0
    if arm == "no_context":
        right = number % 8 == 1
    if arm == RANDOM:
        right = right and (number + seed) % 2 == 0
    return {"score": float(right)}


def alone(right: float, arm: str) -> Change:
    """A score that the question alone never gets, so that the task can carry claims."""
    return {"score": 0.0 if arm == "no_context" else float(right)}


def row(task: str, number: int, arm: str, seed: int = 0, **changes: Any) -> Change:
    """One answer; two items to a cluster."""
    base = {
        "cell": f"{task}/{number}/{arm}/{seed}",
        "unit": number,
        "item": f"{task}/{number}",
        "task": task,
        "cluster": f"{task}/document {number // 2}",
        "arm": arm,
        "condition": "aware",
        "seed": seed,
        "status": "ok",
        "score": 1.0,
        "shared": False,
    }
    return dict.fromkeys(SCHEMA.names) | base | changes


def answer(study: Study, items: Iterable[tuple[str, int]], say: Callable[[str, int, str, int], Change]) -> pa.Table:
    """A finished run: for each cell of each item what `say(task, number, arm, seed)` wants."""
    rows = []
    for task, number in items:
        for cell in list_cells(study):
            arm = cell.arm
            given = {"condition": arm.condition, "keep": dict(arm.settings).get("keep")}
            rows.append(row(task, number, arm.name, cell.seed, **given | say(task, number, arm.name, cell.seed)))
    return to_table(rows)
