"""From tables to settings: chosen on the fit tasks alone, then reported on both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fewer.errors import BadInput
from fewer.study.calibrate.entroprefill import rule as grid
from fewer.study.calibrate.entroprefill.record import summarise_all
from fewer.study.calibrate.entroprefill.rule import Rule, judge
from fewer.study.calibrate.entroprefill.search import LEVEL, POOL, PRIOR, Failed, Goal, search
from fewer.study.calibrate.entroprefill.tables import OBSERVERS, Table

__all__ = ["GOAL", "fit_settings"]

GOAL = Goal(saving=0.25, rate=0.95)
"""A quarter of the prefill, on needles; longer prompts than those fitted on save more."""


def fit_settings(
    fit: Sequence[Table], reported: Mapping[str, Sequence[Table]], num_layers: int, goal: Goal = GOAL
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The settings, and what was reached with them. What is `reported`, by name, is judged after they are there.

    Raises BadInput where no rule saves that much and keeps the evidence at the rate, also on tasks left out.
    """
    found = search(fit, num_layers, goal)
    if isinstance(found, Failed):
        reached = "no rule does, on all tasks or without one of them"
        if found.reached is not None:
            reached = f"{found.reached:.0%} on tasks that were left out"
        raise BadInput(
            f"No heads save {goal.saving:.0%} of the prefill and keep the evidence of {goal.rate:.0%} of the prompts "
            f"that prune ({reached}). No file was made. Ask for a lower saving or rate."
        )
    settings = _write(found.rule)
    record = {
        "goal": {"saving": goal.saving, "rate": goal.rate},
        "level": LEVEL,
        "cross_validated": summarise_all(found.crossed),
        "fit": summarise_all([judge(table, found.rule, num_layers) for table in fit]),
        **{
            name: summarise_all([judge(table, found.rule, num_layers) for table in of]) for name, of in reported.items()
        },
        "without": {task: each.describe() for task, each in found.folds.items()},
        "document_share": round(sum(float(table.sizes.sum()) / table.size for table in fit) / len(fit), 4),
        "searched": _describe_search(fit) | {"rules": found.num_rules},
    }
    return settings, record


def _write(rule: Rule) -> dict[str, Any]:
    return {
        "shortest": rule.shortest,
        "monitor": rule.monitor,
        "rows": "mean",
        "order": "row",
        "mass": "document",
        "observers": OBSERVERS,
        "choose_observers": "suffix",
        "tolerance": rule.tolerance,
        "audit_tolerance": round(rule.tolerance + grid.AUDIT_ROOM, 9),
        "min_chunks": rule.min_chunks,
        "lift_at_most": rule.lift_at_most,
        "keep": f"{rule.keep:.0%}",
        "keep_at_most": f"{rule.keep_at_most:.0%}",
        "document_min": grid.DOCUMENT_MIN,
    }


def _describe_search(fit: Sequence[Table]) -> dict[str, Any]:
    layers = fit[0].layers.tolist()
    return {
        "layers": [min(layers), max(layers)],
        "heads": f"1 or 2: the best {POOL}, and each with every other",
        "tolerance": list(grid.TOLERANCES),
        "lift_at_most": list(grid.LIFTS),
        "min_chunks": list(grid.MIN_CHUNKS),
        "keep": list(grid.KEEP),
        "keep_at_most": list(grid.AT_MOST),
        "shortest": list(grid.SHORTEST),
        "prior": PRIOR,
    }
