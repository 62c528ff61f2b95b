"""Points and lines over two axes: intervals as bars, every series named at its right end, levels across."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from fewer.report.chart.axis import Axis, fit_text, spread
from fewer.report.chart.mark import Bar, Dot, Label, Line, Mark, Panel
from fewer.report.chart.palette import SHAPES, Shape, tone_of

__all__ = ["Level", "Point", "Series", "plot_xy"]

WIDTH, HEIGHT = 430.0, 250.0
LEFT, RIGHT, TOP, BOTTOM = 46.0, 154.0, 12.0, 42.0
GAP = 13.0  # between labels, in pixels
DODGE = 4.0  # between intervals at one place, in pixels


@dataclass(frozen=True, slots=True)
class Point:
    """One measured point with its interval; `tip` is what a reader gets on pointing at it."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None
    tip: str = ""


@dataclass(frozen=True, slots=True)
class Series:
    """Points that belong together. `number` gives colour and shape, None is ink; without `dots` it is a plain line."""

    number: int | None
    label: str
    points: tuple[Point, ...]
    dots: bool = True


@dataclass(frozen=True, slots=True)
class Level:
    """A value across the whole picture, with its interval as a band: the full run, chance, a base rate."""

    label: str
    y: float
    low: float | None = None
    high: float | None = None
    tone: str = "ink"
    dashed: bool = False
    tip: str = ""


def plot_xy(
    title: str, x_axis: Axis, y_axis: Axis, series: Sequence[Series], levels: Sequence[Level] = (), says: str = ""
) -> Panel:
    """One panel. Series without points are left out; a title line of the y axis stands above the picture."""
    frame = _Frame(x_axis, y_axis)
    shown = [each for each in series if each.points]
    marks = _draw_axes(frame)
    for level in levels:
        marks += _draw_level(frame, level)
    dodge = DODGE if _overlap(frame, shown) else 0.0
    for index, each in enumerate(shown):
        marks += _draw_series(frame, each, dodge * (index - (len(shown) - 1) / 2) if each.dots else 0.0)
    marks += _draw_labels(frame, shown, levels)
    return Panel(title, WIDTH, HEIGHT, tuple(marks), says or f"{y_axis.title} against {x_axis.title}")


@dataclass(frozen=True, slots=True)
class _Frame:
    x_axis: Axis
    y_axis: Axis

    def x(self, value: float) -> float:
        return self.x_axis.place(value, LEFT, WIDTH - RIGHT)

    def y(self, value: float) -> float:
        return self.y_axis.place(value, HEIGHT - BOTTOM, TOP + 14)


def _draw_axes(frame: _Frame) -> list[Mark]:
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
    marks: list[Mark] = [Label(LEFT - 34, TOP, frame.y_axis.title)]
    for tick, name in zip(frame.y_axis.ticks, frame.y_axis.names, strict=True):
        height = frame.y(tick)
        marks.append(Line(((LEFT, height), (right, height)), "grid", 1.0))
        marks.append(Label(LEFT - 6, height + 4, name, anchor="end"))
    for tick, name in zip(frame.x_axis.ticks, frame.x_axis.names, strict=True):
        place = frame.x(tick)
        marks.append(Line(((place, bottom), (place, bottom + 4)), "muted", 1.0))
        marks.append(Label(place, bottom + 17, name, anchor="middle"))
    marks.append(Line(((LEFT, bottom), (right, bottom)), "muted", 1.0))
    marks.append(Label((LEFT + right) / 2, bottom + 34, frame.x_axis.title, anchor="middle"))
    return marks


def _draw_level(frame: _Frame, level: Level) -> list[Mark]:
    marks: list[Mark] = []
    height = frame.y(level.y)
    if level.low is not None and level.high is not None:
        top, bottom = frame.y(level.high), frame.y(level.low)
        width = WIDTH - RIGHT - LEFT
        marks.append(Bar(LEFT, top, width, max(1.0, bottom - top), level.tone, 0.08, None, level.tip))
    marks.append(Line(((LEFT, height), (WIDTH - RIGHT, height)), level.tone, 1.2, level.dashed, None, level.tip))
    return marks


def _overlap(frame: _Frame, shown: Sequence[Series]) -> bool:
    """Whether bars of two series would lie over each other."""
    places = sorted((frame.x(point.x), index) for index, each in enumerate(shown) if each.dots for point in each.points)
    return any(right - left < DODGE and one != other for (left, one), (right, other) in pairwise(places))


def _draw_series(frame: _Frame, series: Series, shift: float) -> list[Mark]:
    number = series.number
    tone, shape = _look(number)
    dashed = not series.dots and bool(number and number % 2)  # lines without dots are told apart by more than colour
    places = [(frame.x(point.x) + (shift if series.dots else 0.0), frame.y(point.y)) for point in series.points]
    marks: list[Mark] = []
    if len(places) > 1:
        marks.append(Line(tuple(places), tone, 1.3 if series.dots else 1.8, dashed, number))
    if not series.dots:
        return marks
    for point, (x, y) in zip(series.points, places, strict=True):
        if point.low is not None and point.high is not None:
            marks.append(Line(((x, frame.y(point.low)), (x, frame.y(point.high))), tone, 1.8, False, number, point.tip))
        marks.append(Dot(x, y, shape, tone, 4.0, number, point.tip))
    return marks


def _draw_labels(frame: _Frame, series: Sequence[Series], levels: Sequence[Level]) -> list[Mark]:
    """The names at the right end, pushed apart, with a thin line to where each belongs."""
    ends: list[tuple[float, float, str, str, int | None]] = [
        (WIDTH - RIGHT, frame.y(level.y), level.label, level.tone, None) for level in levels
    ]
    for each in series:
        last = max(each.points, key=lambda point: point.x)
        ends.append((frame.x(last.x), frame.y(last.y), each.label, _look(each.number)[0], each.number))
    heights = spread([end[1] for end in ends], GAP, TOP + 14, HEIGHT - BOTTOM)
    marks: list[Mark] = []
    for (x, y, label, tone, number), height in zip(ends, heights, strict=True):
        start = WIDTH - RIGHT + 12
        if x < WIDTH - RIGHT or abs(height - y) > 2:
            marks.append(Line(((x + 8 if x < start - 20 else x, y), (start - 2, height)), tone, 0.6, True, number))
        marks.append(
            Label(start, height + 4, fit_text(label, WIDTH - start, bold=True), tone, series=number, bold=True)
        )
    return marks


def _look(number: int | None) -> tuple[str, Shape]:
    return ("ink", SHAPES[0]) if number is None else (tone_of(number), SHAPES[number % len(SHAPES)])
