"""Two or more runs: what differs in their settings, and their scores, paired where the items are the same.

Items are the same where their fingerprints are. Runs without common items stand side by side, and no difference is
taken: it would be one of the items as much as of the runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fewer.report.block import Block, Cell, Column, Notice, Paragraph, Section, Table, estimate, number, word
from fewer.report.estimates import HOW, UNIT, Estimates
from fewer.report.log import Floats, Mask, Texts
from fewer.report.number import write_signed

__all__ = ["compare_runs"]

ABSENT = "–"
MAX_VALUE = 160


def compare_runs(runs: Sequence[Estimates], names: Sequence[str]) -> Section:
    """The section. The first run is the reference."""
    blocks: list[Block] = [_list_settings(runs, names), *_compare_scores(runs, names)]
    return Section("runs", "The runs beside each other", tuple(blocks))


def _find_renamed(runs: Sequence[Estimates]) -> list[str]:
    """Arms of one name that are not defined alike in all the runs that have them."""
    known: dict[str, Any] = {}
    arms = [arm for estimates in runs for arm in estimates.log.arms]
    return list(dict.fromkeys(arm.name for arm in arms if known.setdefault(arm.name, arm.describe()) != arm.describe()))


def _list_settings(runs: Sequence[Estimates], names: Sequence[str]) -> Block:
    flat = [_flatten(_describe(estimates)) for estimates in runs]
    keys = sorted({key for each in flat for key in each})
    differing = [key for key in keys if len({each.get(key, ABSENT) for each in flat}) > 1]
    if not differing:
        return Paragraph("The runs have the same study, environment and setting.")
    rows = tuple((word(key), *(word(_cut(each.get(key, ABSENT))) for each in flat)) for key in differing)
    columns = (Column("field", "field", "text"), *(Column(name, name, "text") for name in names))
    caption = (
        "Every field of the study, the environment and the setting in which the runs differ; the rest is the same."
    )
    return Table("settings", "What differs in setting", caption, columns, rows)


def _compare_scores(runs: Sequence[Estimates], names: Sequence[str]) -> list[Block]:
    rows, unpaired = [], []
    renamed = _find_renamed(runs)
    cells = dict.fromkeys(
        (task, arm.name)
        for estimates in runs
        for task in estimates.log.tasks
        for arm in estimates.log.arms
        if arm.name not in renamed
    )
    for task, arm in cells:
        scores = [_read(estimates, task, arm) for estimates in runs]
        if sum(bool(np.isfinite(values).any()) for _, values, _ in scores) < 2:
            continue
        row: list[Cell] = [word(task), word(arm)]
        for estimates, (_, values, inside) in zip(runs, scores, strict=True):
            row.append(estimate(estimates.mean(values, inside, UNIT), why="not in this run"))
        for score, other in zip(scores[1:], names[1:], strict=True):
            found, pairs = _pair(runs[0], scores[0], score)
            if found is None:
                unpaired.append(f"{task}, {other}")
            row += [estimate(found, write_signed, "no common items: not paired"), number(pairs)]
        rows.append(tuple(row))
    if not rows:
        text = "The runs have no task and arm in common: each stands by itself above."
        return [*_warn([], renamed, names[0]), Notice("Nothing to set side by side", (text,), "warn")]
    columns = [Column("task", "task", "text"), Column("arm", "arm", "text")]
    columns += [Column(name, name, "interval") for name in names]
    for name in names[1:]:
        columns += [Column(f"{name}_minus", f"{name} minus {names[0]}", "interval"), Column(f"{name}_pairs", "pairs")]
    caption = (
        f"Differences are paired by item, and only over items that both runs have, by fingerprint; {names[0]} is "
        "subtracted. A dash is no difference of 0: there are no common items. " + HOW
    )
    table = Table("runs", "Scores of the runs", caption, tuple(columns), tuple(rows), heads=2)
    return [*_warn(list(dict.fromkeys(unpaired)), renamed, names[0]), table]


def _warn(unpaired: list[str], renamed: list[str], first: str) -> list[Block]:
    blocks: list[Block] = []
    if renamed:
        text = f"Of one name and defined otherwise, so not compared: {', '.join(renamed)}. The settings say how."
        blocks.append(Notice("Arms that are not the same", (text,), "warn"))
    if unpaired:
        shown = "; ".join(unpaired[:6]) + (f"; and {len(unpaired) - 6} more" if len(unpaired) > 6 else "")
        text = f"The items are not the same, so only the scores are shown, for: {shown}."
        blocks.append(Notice(f"Not paired with {first}", (text,), "warn"))
    return blocks


def _read(estimates: Estimates, task: str, arm: str) -> tuple[Texts, Floats, Mask]:
    """The items' fingerprints, their scores under the arm, and which are of the task."""
    log = estimates.log
    inside = log.among("task", task)
    known = arm in {each.name for each in log.arms}
    values = log.values(arm, "score") if known else np.full(log.num_items, np.nan)
    return log.of_items("item_sha256"), np.where(inside, values, np.nan), inside


def _pair(
    reference: Estimates, first: tuple[Texts, Floats, Mask], second: tuple[Texts, Floats, Mask]
) -> tuple[Any, int]:
    """The second run's scores minus the first's over common items, and how many; None without any."""
    theirs = {sha: value for sha, value in zip(second[0], second[1], strict=True) if value == value}
    matched = np.array([theirs.get(sha, np.nan) for sha in first[0]], dtype=np.float64)
    both = np.isfinite(matched) & np.isfinite(first[1])
    if not both.any():
        return None, 0
    return reference.difference(matched, first[1], both, UNIT), int(both.sum())


def _describe(estimates: Estimates) -> dict[str, Any]:
    header = estimates.log.run.header
    study = estimates.log.study.model_dump(mode="json")
    study["arms"] = {arm.name: arm.describe() for arm in estimates.log.arms}
    study["tasks"] = {task["name"]: task for task in study["tasks"]}
    parts = {name: header.get(name) or {} for name in ("environment", "setting")}
    return {"study": study} | parts | {"registration": (header.get("registration") or {}).get("kind", "none")}


def _flatten(content: Any, place: str = "") -> dict[str, str]:
    if isinstance(content, Mapping):
        flat: dict[str, str] = {}
        for key, value in content.items():
            flat |= _flatten(value, f"{place}.{key}" if place else str(key))
        return flat
    if isinstance(content, (list, tuple)):
        return {place: ", ".join(str(value) for value in content) or "none"}
    return {place: str(content)}


def _cut(text: str) -> str:
    return text if len(text) <= MAX_VALUE else text[: MAX_VALUE - 1] + "…"
