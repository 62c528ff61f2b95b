"""Our arms beside the numbers that papers have published for arms of the same kind, with what differs in words."""

from __future__ import annotations

from collections.abc import Sequence

from fewer.report.block import Cell, Column, Notice, Paragraph, Section, Table, estimate, number, word
from fewer.report.estimates import HOW, UNIT, Estimates
from fewer.report.log import read_keep
from fewer.report.number import write_share
from fewer.report.published import Published, find_published
from fewer.study.arms import Arm
from fewer.study.stats import Interval

__all__ = ["compare_with_papers"]


def compare_with_papers(estimates: Estimates, published: Sequence[Published], name: str = "") -> Section | None:
    """The section; None where no paper value has an arm and a category of this run."""
    log = estimates.log
    rows = [
        _write_row(estimates, category, arm, entry)
        for category in log.categories
        for arm in log.pruned
        for entry in find_published(arm.prune, category, published)
    ]
    if not rows:
        return None
    columns = (
        Column("category", "our category", "text"),
        Column("arm", "our arm", "text"),
        Column("keep", "keep", "text"),
        Column("score", "our score", "interval"),
        Column("of_full", "ours, of our full run", "interval"),
        Column("speedup", "our speedup", "interval"),
        Column("n", "n"),
        Column("clusters", "clusters"),
        Column("published", "published"),
        Column("published_of_full", "of their full run"),
        Column("published_speedup", "their speedup"),
        Column("source", "where", "text"),
        Column("setting", "what differs", "text"),
    )
    caption = (
        "Published values have no intervals. Only the shares of the own full run are on one scale, and they too are of "
        "other models, items and budgets: agreement is no reproduction, and a gap is no refutation. " + HOW
    )
    notice = Notice("Beside, not against", ("Two settings stand side by side here. No difference is taken.",), "plain")
    table = Table(f"{name}published", "Published beside ours", caption, columns, tuple(rows), heads=2)
    blocks = (notice, table, Paragraph(_describe_ours(estimates), True))
    return Section(f"{name}published", "Published beside ours", blocks)


def _write_row(estimates: Estimates, category: str, arm: Arm, entry: Published) -> tuple[Cell, ...]:
    log, among = estimates.log, estimates.log.among("category", category)
    score = estimates.mean(log.values(arm.name, "score"), among, UNIT)
    speedup, why = estimates.speedup(arm.name, among)
    share = entry.value / entry.beside if entry.beside else None
    return (
        word(category),
        word(arm.name),
        word(read_keep(arm)),
        estimate(score),
        estimate(_of_full(estimates, arm, category), write_share, "no full run, or it scored 0"),
        estimate(speedup, lambda value: f"{value:.2f}×", why),
        number(score.n),
        number(score.clusters),
        number(entry.value, lambda value: f"{value:.2f} of {entry.top:g}"),
        number(share, write_share),
        number(entry.speedup, lambda value: f"{value:.2f}×"),
        word(f"{entry.paper}, {entry.table}"),
        word(_tell_difference(estimates, category, entry)),
    )


def _of_full(estimates: Estimates, arm: Arm, category: str) -> Interval | None:
    """Our score as a share of our full run's, over the items that have both."""
    log = estimates.log
    mine, full = log.values(arm.name, "score"), log.values("full", "score")
    both = log.among("category", category) & (mine == mine) & (full == full)
    if not full[both].sum() > 0:
        return None
    return estimates.share(mine, full, both)


def _tell_difference(estimates: Estimates, category: str, entry: Published) -> str:
    log = estimates.log
    tasks = list(dict.fromkeys(log.of_items("task")[log.among("category", category)]))
    ours = (log.run.header.get("environment") or {}).get("model") or log.study.model.path or "the embedded model"
    named = ", ".join(tasks[:4]) + (f" and {len(tasks) - 4} more" if len(tasks) > 4 else "")
    return f"Theirs: {entry.model}, {entry.what} of {entry.benchmark}; {entry.setting}. Ours: {ours}, {named}."


def _describe_ours(estimates: Estimates) -> str:
    environment = estimates.log.run.header.get("environment") or {}
    device = environment.get("device", "a device that is not noted")
    return (
        f"Ours ran on {device}, {environment.get('dtype', 'a dtype that is not noted')}; the papers' machines, "
        "prompts, answer lengths and metrics differ, and where their settings are not printed they cannot be matched."
    )
