"""What `fewer calibrate --method entroprefill` says about the settings it found."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from fewer.cli.columns import start_table
from fewer.prune.entroprefill import Calibrated

__all__ = ["describe_settings"]

GROUPS = {"all": "all", "needles": "needles", "questions": "other tasks"}
PARTS = {
    "cross_validated": "each task without it",
    "fit": "the tasks fitted on",
    "other_items": "other items of these",
    "held_out": "held-out tasks",
}


def describe_settings(calibrated: Calibrated) -> Iterator[RenderableType]:
    """The settings, what was reached with them in short, and by task; each with what its numbers are."""
    record = calibrated.fitted_on
    settings = start_table(("setting", "value"), ())
    for name, value in calibrated.settings.items():
        settings.add_row(Text(name), Text(str(value)))
    yield settings
    where = "needles" if record["fit"]["needles"]["n"] else "all tasks"
    yield Text(
        f"Monitor: after which layer, by which heads. {record['searched']['rules']:,} rules were tried; of those that "
        f"save {record['goal']['saving']:.0%} of the prefill on {where}, this one loses evidence least often.\n"
    )
    yield _summary(record)
    yield Text(
        "Survives: of the prompts that prune, those that keep every chunk with evidence; at least: its lower bound, "
        f"one-sided at {record['level']:.0%}. Saving: of the prefill's token-layers, a bypass counted as 0. Other "
        "items and held-out tasks chose nothing.\n"
    )
    yield _by_task(record)


def _summary(record: dict[str, Any]) -> Table:
    table = _start("prompts of", "group")
    for part, says in PARTS.items():
        for group, name in GROUPS.items():
            if record[part][group]["n"]:
                table.add_row(Text(says), Text(name), *_cells(record[part][group]))
    return table


def _by_task(record: dict[str, Any]) -> Table:
    table = _start("task", "")
    for part, says in (
        ("cross_validated", "left out once"),
        ("other_items", "other items"),
        ("held_out", "held out"),
    ):
        for task, found in record[part]["tasks"].items():
            table.add_row(Text(task), Text(says), *_cells(found))
    return table


def _start(first: str, second: str) -> Table:
    return start_table((first, second), ("n", "prune", "survives", "at least", "saving"))


def _cells(found: dict[str, Any]) -> Iterator[Text]:
    yield Text(str(found["n"]))
    yield Text(str(found["pruned"]))
    yield Text(f"{found['survives']}/{found['pruned']}" if found["pruned"] else "-")
    yield Text("-" if found["survives_at_least"] is None else f"{found['survives_at_least']:.2f}")
    yield Text(f"{found['saving']:.0%}")
