"""What each task is, how the full model does on it, and whether it can carry claims."""

from __future__ import annotations

import numpy as np

from fewer.report.block import Cell, Column, Paragraph, Section, Table, estimate, number, word
from fewer.report.estimates import HOW, HOW_TO_READ, Estimates
from fewer.report.number import write_seconds, write_signed
from fewer.study.eligibility import CEILING, FLOOR, MIN_ITEMS, Eligibility

__all__ = ["list_tasks"]


def list_tasks(estimates: Estimates, name: str = "") -> Section:
    """The section: a row for each task, and for each length of a generated one."""
    columns = (
        Column("task", "task", "text"),
        Column("category", "category", "text"),
        Column("length", "tokens asked for"),
        Column("eligible", "carries claims", "text"),
        Column("metric", "metric", "text"),
        Column("full", "full run", "interval"),
        Column("n", "n"),
        Column("clusters", "clusters"),
        Column("no_context", "without context", "interval"),
        Column("gain", "gain by context", "interval"),
        Column("seconds", "full run, first token"),
        Column("why", "why", "text"),
    )
    caption = (
        f"A task carries claims where the full model scores above {FLOOR:.0%} and below {CEILING:.0%} on at least "
        f"{MIN_ITEMS} items, and clearly better with the context than without. Lengths go with their task. {HOW}"
    )
    rows = tuple(_write_row(estimates, entry) for entry in estimates.eligibility)
    table = Table(f"{name}tasks", "Tasks", caption, columns, rows)
    if not rows:
        return Section(f"{name}tasks", "Tasks", (Paragraph("No task has answers yet."),))
    return Section(f"{name}tasks", "Tasks", (Paragraph(HOW_TO_READ), table))


def _write_row(estimates: Estimates, entry: Eligibility) -> tuple[Cell, ...]:
    log = estimates.log
    among = log.among("task", entry.task)
    first = int(np.flatnonzero(among)[0])
    if entry.length is not None:
        among = among & (log.lengths == entry.length)
    alone = log.timed
    seconds = log.values("full", "first_token_s", alone=alone)[among]
    timed = seconds[np.isfinite(seconds)]
    why = " ".join(f"{text.rstrip('.')}." for text in (entry.reason, entry.remark) if text and not entry.length)
    return (
        word(entry.task),
        word(str(log.of_items("category")[first])),
        number(entry.length),
        number(None) if entry.length else word(*(("yes", "good") if entry.eligible else ("no", "warn"))),
        word(str(log.of_items("metric")[first])),
        estimate(entry.full),
        number(entry.full.n),
        number(entry.full.clusters),
        estimate(entry.no_context, why="no arm without context"),
        estimate(entry.context_gain, write_signed, why="no arm without context"),
        number(float(timed.mean()) if timed.size else None, write_seconds, f"mean of {timed.size} items"),
        word(why),
    )
