"""How well each signal ranks failures, and induced above inherent ones; and the certificate against the rest."""

from __future__ import annotations

from collections.abc import Sequence

from fewer.report.block import Block, Cell, Column, Paragraph, Section, Table, estimate, number, word
from fewer.report.estimates import RESAMPLES
from fewer.report.number import write_signed
from fewer.report.sessions_panel import HEADS, Group, Panel
from fewer.study.sessions.areas import Area, Within, rank, rank_against
from fewer.study.sessions.outcomes import Kind, label_by

__all__ = ["list_signals"]

ASKED: tuple[tuple[str, str, Kind, Within], ...] = (
    ("any", "any failure", "any", "budget"),
    ("induced", "induced, full run right", "induced", "budget"),
    ("attribution", "attribution", "attribution", "budget"),
    ("attribution_task", "attribution within a task", "attribution", "task"),
)
"""Key, title, kind and pairs of the four areas."""
HOW = (
    "Only answers of one policy, budget and condition are compared with each other; over several budgets an area is "
    "the mean of theirs, weighted by their pairs. Intervals: BCa bootstrap over clusters of items, "
    f"{RESAMPLES:,} resamples, at 95%, for one number at a time."
)


def list_signals(panel: Panel, name: str = "") -> Section:
    """The section: areas over all budgets, by budget, and the certificate's minus each other's."""
    tables: list[Block] = [_list_areas(panel, panel.policies, f"{name}panel", "Signals, mean over budgets")]
    if panel.budgets:
        tables.append(_list_areas(panel, panel.budgets, f"{name}panel-budgets", "Signals, by budget"))
    against = _list_differences(panel, name)
    tables.append(
        against if against.rows else Paragraph("No answer has a certificate: nothing to set against the rest.")
    )
    return Section(f"{name}panel", "What the signals tell", tuple(tables))


def _list_areas(panel: Panel, groups: Sequence[Group], name: str, title: str) -> Table:
    rows = []
    for group in groups:
        for signal in panel.doubts(group):
            areas = [
                rank(group.places, label_by(kind, panel.threshold), signal, within=within, **panel.how)
                for _, _, kind, within in ASKED
            ]
            failures = areas[2]
            rows.append(
                (
                    *group.heads,
                    word(signal),
                    *(_write(area) for area in areas),
                    number(failures.positives),
                    number(failures.negatives),
                    number(areas[0].missing),
                )
            )
    caption = (
        "Areas under the ROC curve, the larger signal taken as likelier the failure; 0.5 is chance, and below it the "
        "signal ranks the other way round, which turned round would be 1 minus the number. Any failure: among all "
        "answers. Induced: among answers to items that the full run has right. Attribution: among failures, induced "
        "ones above inherent ones; also with only pairs of one task and length, so that nothing is won by knowing the "
        "task. " + HOW
    )
    columns = (
        *HEADS,
        Column("signal", "signal", "text"),
        *(Column(key, heading, "interval") for key, heading, _, _ in ASKED),
        Column("num_induced", "induced"),
        Column("num_inherent", "inherent"),
        Column("missing", "answers without it"),
    )
    return Table(name, title, caption, columns, tuple(rows), heads=4)


def _list_differences(panel: Panel, name: str) -> Table:
    rows: list[tuple[Cell, ...]] = []
    labels = label_by("attribution", panel.threshold)
    for group in (*panel.policies, *panel.budgets):
        present = panel.doubts(group)
        for signal in panel.chosen:
            for other in present if signal in present else ():
                if other != signal:
                    plain = rank_against(group.places, labels, signal, other, **panel.how)
                    turned = rank_against(group.places, labels, signal, other, turned=True, **panel.how)
                    within = rank_against(group.places, labels, signal, other, within="task", **panel.how)
                    names = (*group.heads, word(signal), word(other))
                    cells = (_write(area, signed=True) for area in (plain, turned, within))
                    rows.append((*names, *cells, number(plain.positives), number(plain.negatives)))
    caption = (
        "The attribution area of the one signal minus the other's, over failures that have both, within the same "
        "resamples. The second column is against the other turned round: where that is the smaller difference, the "
        "other signal ranks the wrong way and would be better used so. " + HOW
    )
    columns = (
        *HEADS,
        Column("signal", "signal", "text"),
        Column("other", "minus", "text"),
        Column("difference", "difference", "interval"),
        Column("turned", "from it turned round", "interval"),
        Column("within_task", "within a task", "interval"),
        Column("num_induced", "induced"),
        Column("num_inherent", "inherent"),
    )
    return Table(f"{name}panel-differences", "Against the other signals", caption, columns, tuple(rows), heads=5)


def _write(area: Area, signed: bool = False) -> Cell:
    if area.interval is None:
        return estimate(None, why=area.why)
    return estimate(area.interval, write_signed) if signed else estimate(area.interval)
