"""How well the signals of an answer rank the study's outcomes: areas within budgets, and risk against coverage."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from fewer.report.chart.axis import fit_axis
from fewer.report.chart.mark import Figure, Key, Panel
from fewer.report.chart.palette import SHAPES, tone_of
from fewer.report.chart.rows import Row, plot_rows
from fewer.report.chart.xy import Level, Point, Series, plot_xy
from fewer.report.estimates import UNIT
from fewer.report.figures.answers import order_arms
from fewer.report.log import RANKED, SHORT, Log, name_arm
from fewer.report.number import write_count, write_number, write_share
from fewer.report.ranked import Ranked
from fewer.study.arms import Arm
from fewer.study.spec import Outcome
from fewer.study.stats import risk_coverage

__all__ = ["draw_areas", "draw_coverage"]

SHOWN = ("mean_logprob", "min_margin", "certificate")
POINTS = 60
LEAST = 0.05
"""Coverage at which the curves begin: with fewer answers they are noise."""


def draw_areas(ranked: Sequence[Ranked], name: str = "") -> list[Figure]:
    """For each outcome a figure: a panel for each budget, a row for each arm and signal."""
    figures = []
    for outcome in dict.fromkeys(entry.outcome for entry in ranked):
        mine = [entry for entry in ranked if entry.outcome == outcome and entry.area is not None]
        ends = [
            end for entry in mine if entry.area for end in (entry.area.estimate, entry.area.lower, entry.area.upper)
        ]
        axis = fit_axis(
            "AUC within task and length", [end for end in ends if end is not None], include=(0.5,), within=UNIT
        )
        panels = []
        for budget in dict.fromkeys(entry.budget for entry in mine):
            rows = [_write_row(entry) for entry in mine if entry.budget == budget]
            panels.append(plot_rows(f"keep {budget}" if budget else "full run", axis, rows, (0.5, "chance")))
        if panels:
            caption = (
                "The share of pairs of answers, one with the outcome and one without, that the signal has in the right "
                "order; pairs are of the same task, length and budget. The dashed line is chance."
            )
            figures.append(
                Figure(
                    f"{name}auc-{outcome}", f"Which signal ranks: {outcome}", caption, tuple(panels),
                    _list_keys({entry.signal for entry in mine}), "Areas within a budget",
                )
            )  # fmt: skip
    return figures


def draw_coverage(log: Log, name: str = "") -> list[Figure]:
    """For each outcome a figure: the share with it among the surest answers, a panel for each arm."""
    figures = []
    for outcome in log.study.outcomes:
        curves = [(arm, *found) for arm in order_arms(log) if (found := _trace(log, arm, outcome)) is not None]
        if not curves:
            continue
        rates = [level.y for _, _, level, _ in curves]
        highs = [point.y for _, series, _, _ in curves for each in series for point in each.points]
        x_axis = fit_axis("share of answers kept, the surest first", (), include=UNIT, percent=True)
        y_axis = fit_axis(f"share that is: {outcome.name}", [*rates, *highs], within=UNIT, include=(0,), percent=True)
        panels: list[Panel] = [
            plot_xy(f"{name_arm(arm)}, {write_count(count, 'answer')}", x_axis, y_axis, series, [level])
            for arm, series, level, count in curves
        ]
        caption = (
            "Answers sorted by a signal, the surest first: the share with the outcome among those kept. The level is "
            "all answers. Tasks are pooled, so a part of each curve is telling easy tasks from hard ones; the areas "
            "above are within tasks. Curves have no intervals."
        )
        figures.append(
            Figure(
                f"{name}coverage-{outcome.name}", f"Risk against coverage: {outcome.name}", caption, tuple(panels),
                _list_keys(signal for signal in SHOWN if np.isfinite(log.numbers(signal)).any()), "Risk at coverage",
            )
        )  # fmt: skip
    return figures


def _trace(log: Log, arm: Arm, outcome: Outcome) -> tuple[list[Series], Level, int] | None:
    """The curves of an arm and its base rate; None where all or none of its answers have the outcome."""
    holds, known = log.outcomes(outcome)
    mine = log.of_arm(arm.name) & known
    series, count, rate = [], 0, 0.0
    for signal in SHOWN:
        values = log.surest(signal)
        inside = mine & np.isfinite(values)
        if not holds[inside].any() or holds[inside].all():
            continue
        curve = risk_coverage(values[inside], holds[inside].astype(float))
        count, rate = int(inside.sum()), float(holds[inside].mean())
        grid = np.linspace(max(LEAST, 1 / count), 1, min(POINTS, count))
        risks = np.interp(grid, curve.coverage, curve.risk)
        points = tuple(Point(float(x), float(y)) for x, y in zip(grid, risks, strict=True))
        series.append(Series(list(RANKED).index(signal), SHORT[signal], points, dots=False))
    if not series:
        return None
    return series, Level("all answers", rate, None, None, "muted", True, f"{arm.name}: {write_share(rate)}"), count


def _write_row(entry: Ranked) -> Row:
    area = entry.area
    assert area is not None
    tip = (
        f"{entry.arm}, {RANKED[entry.signal]}: AUC {write_number(area.estimate or 0)}, {write_count(area.n, 'answer')}"
    )
    number = list(RANKED).index(entry.signal)
    written = write_number(area.estimate or 0, 2)
    return Row(entry.label, number, area.estimate, area.lower, area.upper, None, written, tip)


def _list_keys(signals: Iterable[str]) -> tuple[Key, ...]:
    shown = set(signals)
    numbers = [(number, words) for number, (signal, words) in enumerate(RANKED.items()) if signal in shown]
    return tuple(Key(number, words, tone_of(number), SHAPES[number % len(SHAPES)]) for number, words in numbers)
