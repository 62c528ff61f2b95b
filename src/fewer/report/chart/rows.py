"""One row for each thing: a dot with its interval, and the number written beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fewer.report.chart.axis import Axis, fit_text
from fewer.report.chart.mark import Bar, Dot, Label, Line, Mark, Panel
from fewer.report.chart.palette import SHAPES, tone_of

__all__ = ["Row", "plot_rows"]

WIDTH, STEP = 444.0, 21.0
LEFT, RIGHT, TOP, BOTTOM = 204.0, 54.0, 8.0, 40.0


@dataclass(frozen=True, slots=True)
class Row:
    """A value with its interval; `box` are the ends of a thicker bar inside it, where there is one."""

    label: str
    number: int | None
    """Of the series, for colour and shape; None for what is no series, such as the full run."""
    value: float | None
    low: float | None = None
    high: float | None = None
    box: tuple[float, float] | None = None
    written: str = ""
    tip: str = ""


def plot_rows(
    title: str, axis: Axis, rows: Sequence[Row], mark: tuple[float, str] | None = None, says: str = ""
) -> Panel:
    """One panel, a row for each. `mark` is a value to compare with and its name, such as chance."""
    bottom = TOP + STEP * max(1, len(rows))
    marks: list[Mark] = []

    def at(value: float) -> float:
        return axis.place(value, LEFT, WIDTH - RIGHT)

    for tick, name in zip(axis.ticks, axis.names, strict=True):
        marks.append(Line(((at(tick), TOP), (at(tick), bottom)), "grid", 1.0))
        marks.append(Label(at(tick), bottom + 14, name, anchor="middle"))
    marks.append(Label((LEFT + WIDTH - RIGHT) / 2, bottom + 31, axis.title, anchor="middle"))
    if mark is not None and axis.low <= mark[0] <= axis.high:
        marks.append(Line(((at(mark[0]), TOP), (at(mark[0]), bottom)), "ink", 1.0, True, None, mark[1]))
    for index, row in enumerate(rows):
        marks += _draw_row(row, TOP + STEP * (index + 0.5), axis)
    return Panel(title, WIDTH, bottom + BOTTOM, tuple(marks), says or f"{axis.title}, a row for each of {len(rows)}")


def _draw_row(row: Row, y: float, axis: Axis) -> list[Mark]:
    number = row.number
    tone, shape = ("ink", SHAPES[0]) if number is None else (tone_of(number), SHAPES[number % len(SHAPES)])
    marks: list[Mark] = [Label(LEFT - 10, y + 4, fit_text(row.label, LEFT - 10), "ink", "end", series=number)]

    def at(value: float) -> float:
        return axis.place(value, LEFT, WIDTH - RIGHT)

    if row.low is not None and row.high is not None:
        marks.append(Line(((at(row.low), y), (at(row.high), y)), tone, 1.8, False, number, row.tip))
    if row.box is not None:
        left, right = at(row.box[0]), at(row.box[1])
        marks.append(Bar(left, y - 4, max(1.0, right - left), 8, tone, 0.45, number, row.tip))
    if row.value is not None:
        marks.append(Dot(at(row.value), y, shape, tone, 4.0, number, row.tip))
    marks.append(Label(WIDTH - RIGHT + 8, y + 4, row.written, "ink", series=number))
    return marks
