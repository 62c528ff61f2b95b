"""What the answers look like beside the full run's: how sure they are, and how long they agree."""

from __future__ import annotations

import numpy as np

from fewer.report.chart.axis import fit_axis
from fewer.report.chart.mark import Figure, Panel
from fewer.report.chart.rows import Row, plot_rows
from fewer.report.estimates import UNIT, Estimates
from fewer.report.figures.scores import list_keys, tell
from fewer.report.log import SIGNALS, Log, name_arm, read_family, read_keep
from fewer.report.number import write_count, write_number, write_share
from fewer.study.arms import Arm

__all__ = ["QUANTILES", "draw_agreement", "draw_margins", "order_arms"]

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


def draw_margins(log: Log, name: str = "") -> list[Figure]:
    """The distribution of each signal over an arm's answers."""
    panels: list[Panel] = []
    for signal, words in SIGNALS.items():
        found = {arm.name: _spread(log, arm, signal) for arm in order_arms(log)}
        ends = [end for values in found.values() if values is not None for end in values]
        if not ends:
            continue
        axis = fit_axis(f"{words}, nats", ends, include=(0,))
        rows = [
            Row(
                name_arm(arm),
                _number(log, arm),
                values[2],
                values[0],
                values[4],
                (values[1], values[3]),
                write_number(values[2], 2),
                f"{arm.name}: median {write_number(values[2], 2)}, half of the answers between "
                f"{write_number(values[1], 2)} and {write_number(values[3], 2)}, nine in ten between "
                f"{write_number(values[0], 2)} and {write_number(values[4], 2)}",
            )
            for arm in order_arms(log)
            if (values := found[arm.name]) is not None
        ]
        panels.append(plot_rows(words, axis, rows))
    if not panels:
        return []
    caption = (
        "Median as a point, the middle half as a bar, nine in ten answers as a line: the spread of answers, no "
        "interval of a mean. All tasks together; failed and refused answers have no margins and are not in it."
    )
    return [
        Figure(
            f"{name}margins",
            "How sure the answers are",
            caption,
            tuple(panels),
            list_keys(log),
            "Margins of the answers",
        )
    ]


def draw_agreement(estimates: Estimates, name: str = "") -> list[Figure]:
    """The share of the full run's answer before the first different token, a panel for each category."""
    log, panels = estimates.log, []
    for category in log.categories:
        among = log.among("category", category)
        found = [(arm, estimates.mean(log.values(arm.name, "agreement"), among, UNIT)) for arm in _sorted(log.pruned)]
        rows = [
            Row(
                name_arm(arm),
                _number(log, arm),
                agreement.estimate,
                agreement.lower,
                agreement.upper,
                None,
                write_share(agreement.estimate),
                f"{arm.name}: {tell(agreement, share=True)}",
            )
            for arm, agreement in found
            if agreement.estimate is not None
        ]
        if rows:
            items = write_count(max(interval.n for _, interval in found), "item")
            axis = fit_axis("agreement with the full run", (), include=UNIT, percent=True)
            panels.append(plot_rows(f"{category}, {items}", axis, rows))
    if not panels:
        return []
    caption = (
        "Mean share of the full run's tokens before the first different one, with 95% intervals. An answer may differ "
        "and be as good: this is closeness, not quality. Budgets stand in groups."
    )
    return [
        Figure(
            f"{name}agreement",
            "Agreement with the full run",
            caption,
            tuple(panels),
            list_keys(log),
            "Scores of the arms",
        )
    ]


def order_arms(log: Log) -> list[Arm]:
    """The full run, and the pruned arms by budget."""
    return [*(arm for arm in log.arms if arm.is_full), *_sorted(log.pruned)]


def _sorted(arms: list[Arm]) -> list[Arm]:
    budgets = list(dict.fromkeys(read_keep(arm) for arm in arms))
    return sorted(arms, key=lambda arm: budgets.index(read_keep(arm)))


def _number(log: Log, arm: Arm) -> int | None:
    return None if arm.is_full else log.families[read_family(arm)]


def _spread(log: Log, arm: Arm, signal: str) -> list[float] | None:
    values = log.numbers(signal)[log.of_arm(arm.name)]
    values = values[np.isfinite(values)]
    return [float(end) for end in np.quantile(values, QUANTILES)] if values.size else None
