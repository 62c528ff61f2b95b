"""Which summary of the radii attributes best: shown for studies without claims, whose answers may choose one."""

from __future__ import annotations

from fewer.report.block import Block, Column, Section, Table, estimate, number, word
from fewer.report.sessions_panel import Group, Panel
from fewer.study.sessions.areas import rank, rank_against
from fewer.study.sessions.outcomes import label_by
from fewer.study.sessions.search import Found, average_parts, search_summaries

__all__ = ["list_search"]

SHOWN = 20
RIVALS = ("certificate", "logprob")


def list_search(panel: Panel, name: str = "") -> Section | None:
    """The section, a pair of tables for each policy and condition with both kinds of failure; None without any."""
    if panel.estimates.log.study.claims:
        return None
    blocks: list[Block] = []
    for group in panel.policies:
        if "certificate" in group.doubts and (found := search_summaries(group.places, panel.threshold)):
            blocks += [_list_best(panel, group, found, name), _list_parts(group, found, name)]
    return Section(f"{name}search", "Summaries of the radii", tuple(blocks)) if blocks else None


def _list_best(panel: Panel, group: Group, found: list[Found], name: str) -> Table:
    labels = label_by("attribution", panel.threshold)
    rows = []
    for one in found[:SHOWN]:
        signal = one.summary.name
        area = rank(group.places, labels, signal, **panel.how)
        against = [rank_against(group.places, labels, signal, rival, **panel.how).interval for rival in RIVALS]
        rows.append((word(signal), estimate(area.interval), number(one.within_tasks), *map(estimate, against)))
    caption = (
        f"The {SHOWN} best of {len(found):,} summaries by attribution area, mean over budgets, under {group.policy}, "
        f"{group.condition}. The best of so many is best by luck too: these areas, and their intervals, are too high, "
        "and are here to choose a summary by. What it is worth is what a claim about it says on other items."
    )
    columns = (
        Column("summary", "summary", "text"),
        Column("attribution", "attribution", "interval"),
        Column("within_task", "within a task"),
        *(Column(f"over_{rival}", f"minus {rival}", "interval") for rival in RIVALS),
    )
    title = f"The best summaries: {group.policy}, {group.condition}"
    return Table(f"{name}search-{group.condition}-{group.policy}", title, caption, columns, tuple(rows))


def _list_parts(group: Group, found: list[Found], name: str) -> Table:
    rows = tuple(
        (word(part), word(choice), number(mean), number(best)) for part, choice, mean, best in average_parts(found)
    )
    caption = (
        "Of all summaries that have one part in common: the mean of their attribution areas, and the best. The means "
        "lean on no single summary. No intervals."
    )
    columns = (
        Column("part", "part", "text"),
        Column("choice", "choice", "text"),
        Column("mean", "mean area"),
        Column("best", "best area"),
    )
    title = f"What the parts are worth: {group.policy}, {group.condition}"
    return Table(f"{name}parts-{group.condition}-{group.policy}", title, caption, columns, rows, heads=2)
