"""Score by length: heat maps over length and depth for needles, and lines over length within a budget."""

from __future__ import annotations

import numpy as np

from fewer.report.chart.axis import Axis, fit_axis
from fewer.report.chart.heat import Cell, plot_heat, plot_scale
from fewer.report.chart.mark import Figure, Panel
from fewer.report.chart.xy import Level, Point, Series, plot_xy
from fewer.report.estimates import UNIT, Estimates
from fewer.report.figures.scores import list_keys, span, tell
from fewer.report.log import Log, Mask, name_arm, read_family, read_keep
from fewer.report.number import write_count, write_number
from fewer.study.arms import Arm

__all__ = ["draw_heat", "draw_lengths", "find_bins"]

Bin = tuple[str, Mask]


def draw_heat(estimates: Estimates, name: str = "") -> list[Figure]:
    """For each task with needles a figure: a map of length by depth for each arm, one colour scale for all."""
    log, figures = estimates.log, []
    for task in log.tasks:
        among = log.among("task", task) & np.isfinite(log.depths)
        lengths, depths = sorted(set(log.lengths[among].tolist())), sorted(set(log.depths[among].tolist()))
        if not among.any() or len(lengths) > 12 or len(depths) > 25:
            continue
        panels = [_map_arm(log, arm, among, lengths, depths) for arm in [*_full(log), *log.pruned]]
        drawn = [panel for panel in panels if panel is not None]
        if drawn:
            caption = (
                "Mean score in each cell with its number of items, seeds averaged; every map has the same colours. "
                "Cells have no intervals: with few items they are rough."
            )
            figures.append(
                Figure(
                    f"{name}heat-{task}", f"{task}: length by depth", caption, (*drawn, plot_scale("score")),
                    table="Scores by length and depth",
                )
            )  # fmt: skip
    return figures


def draw_lengths(estimates: Estimates, name: str = "") -> list[Figure]:
    """Score by length, a panel for each category and budget, so that budgets are never in one ranking."""
    log = estimates.log
    budgets = list(dict.fromkeys(read_keep(arm) for arm in log.pruned))
    drawn = []
    for category in log.categories:
        bins = find_bins(log, log.among("category", category))
        for budget in budgets if len(bins) > 1 else ():
            arms = [arm for arm in log.pruned if read_keep(arm) == budget]
            series = [
                Series(log.families[read_family(arm)], read_family(arm), _list_points(estimates, arm, bins))
                for arm in arms
            ]
            full = [Series(None, "full", _list_points(estimates, arm, bins)) for arm in _full(log)]
            drawn.append((f"{category}, keep {budget or 'as set'}", bins, [*series, *full]))
    drawn = [entry for entry in drawn if any(series.points for series in entry[2])]
    if not drawn:
        return []
    y_axis = fit_axis("score", span([series for entry in drawn for series in entry[2]], []), within=UNIT)
    levels: list[Level] = []
    panels = [plot_xy(title, _bin_axis(bins), y_axis, series, levels) for title, bins, series in drawn]
    caption = (
        "A panel for each category and budget. Generated tasks by the tokens asked for, others in bins of the prompt's "
        "tokens. Bars are 95% intervals. Longer items may be other items: only generated tasks hold the rest fixed."
    )
    return [
        Figure(f"{name}score-length", "Score by length", caption, tuple(panels), list_keys(log), "Scores by length")
    ]


def find_bins(log: Log, among: Mask) -> list[Bin]:
    """The asked lengths where all items have one, else powers of two of the prompt's tokens; those with items."""
    lengths = log.lengths
    known = among & np.isfinite(lengths)
    asked = np.isfinite(log.numbers("asked_length")[log.first])
    if known.any() and asked[known].all():
        return [(f"{int(length):,}", known & (lengths == length)) for length in sorted(set(lengths[known].tolist()))]
    if not known.any():
        return []
    powers = np.floor(np.log2(np.maximum(lengths, 1), where=known, out=np.full(lengths.shape, -1.0)))
    return [
        (f"{_short(2**power)}–{_short(2 ** (power + 1))}", known & (powers == power))
        for power in sorted(set(powers[known].astype(int).tolist()))
    ]


def _map_arm(log: Log, arm: Arm, among: Mask, lengths: list[float], depths: list[float]) -> Panel | None:
    scores = log.values(arm.name, "score")
    cells: dict[tuple[int, int], Cell] = {}
    for row, depth in enumerate(depths):
        for column, length in enumerate(lengths):
            inside = among & (log.depths == depth) & (log.lengths == length) & np.isfinite(scores)
            if inside.any():
                value = float(scores[inside].mean())
                where = f"{int(length):,} tokens, depth {depth:g}"
                tip = f"{arm.name}, {where}: {write_number(value)}, {write_count(int(inside.sum()), 'item')}"
                cells[row, column] = Cell(value, int(inside.sum()), tip)
    if not cells:
        return None
    across = ("prompt tokens", [f"{int(length):,}" for length in lengths])
    return plot_heat(name_arm(arm), across, ("depth", [f"{depth:g}" for depth in depths]), cells)


def _list_points(estimates: Estimates, arm: Arm, bins: list[Bin]) -> tuple[Point, ...]:
    points = []
    for place, (label, among) in enumerate(bins):
        score = estimates.mean(estimates.log.values(arm.name, "score"), among, UNIT)
        if score.estimate is not None:
            tip = f"{arm.name}, {label} tokens: {tell(score)}"
            points.append(Point(float(place), score.estimate, score.lower, score.upper, tip))
    return tuple(points)


def _bin_axis(bins: list[Bin]) -> Axis:
    ticks = tuple(float(place) for place in range(len(bins)))
    return Axis("prompt tokens", -0.25, len(bins) - 0.75, ticks, tuple(label for label, _ in bins))


def _full(log: Log) -> list[Arm]:
    return [arm for arm in log.arms if arm.is_full]


def _short(tokens: int) -> str:
    return f"{tokens // 1024}k" if tokens >= 1024 else str(tokens)
