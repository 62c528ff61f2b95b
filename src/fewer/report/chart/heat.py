"""A grid of cells, darker for more, with the number and its n written in each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fewer.report.chart.axis import fit_text
from fewer.report.chart.mark import Bar, Label, Mark, Panel
from fewer.report.chart.palette import heat_text

__all__ = ["Cell", "plot_heat", "plot_scale"]

WIDTH, STEP = 380.0, 34.0
LEFT, TOP, BOTTOM, EDGE = 66.0, 22.0, 40.0, 6.0


@dataclass(frozen=True, slots=True)
class Cell:
    """A value from 0 to 1, and how many items it is the mean of."""

    value: float
    n: int
    tip: str = ""


def plot_heat(
    title: str,
    across: tuple[str, Sequence[str]],
    down: tuple[str, Sequence[str]],
    cells: Mapping[tuple[int, int], Cell],
    says: str = "",
) -> Panel:
    """One panel. `across` and `down` are an axis title and its labels; `cells` go by (down, across)."""
    columns, rows = across[1], down[1]
    width = (WIDTH - LEFT - EDGE) / max(1, len(columns))
    bottom = TOP + STEP * len(rows)
    marks: list[Mark] = [Label(LEFT - 58, TOP - 8, down[0])]
    for row, name in enumerate(rows):
        marks.append(Label(LEFT - 8, TOP + STEP * (row + 0.5) + 4, fit_text(name, LEFT - 10), anchor="end"))
    for column, name in enumerate(columns):
        marks.append(Label(LEFT + width * (column + 0.5), bottom + 15, fit_text(name, width), anchor="middle"))
    marks.append(Label((LEFT + WIDTH - EDGE) / 2, bottom + 32, across[0], anchor="middle"))
    for row in range(len(rows)):
        for column in range(len(columns)):
            marks += _draw_cell(cells.get((row, column)), LEFT + width * column, TOP + STEP * row, width)
    return Panel(title, WIDTH, bottom + BOTTOM, tuple(marks), says or f"{len(rows)} by {len(columns)} cells")


def plot_scale(title: str) -> Panel:
    """The colours from 0 to 1, once for all panels of a figure."""
    marks: list[Mark] = [Label(LEFT - 58, 13, title)]
    width = (WIDTH - LEFT - EDGE) / 11
    for step in range(11):
        left = LEFT + width * step
        marks += _draw_ground(left, 20, width, 14, step / 10, f"{step / 10:g}")
        if step % 5 == 0:
            marks.append(Label(left + width / 2, 48, f"{step / 10:g}", anchor="middle"))
    return Panel("", WIDTH, 54, tuple(marks), f"{title}, from 0, pale, to 1, dark")


def _draw_cell(cell: Cell | None, left: float, top: float, width: float) -> list[Mark]:
    middle = left + width / 2
    if cell is None:
        return [Label(middle, top + STEP / 2 + 4, "–", anchor="middle")]
    tone = heat_text(cell.value)
    return [
        *_draw_ground(left, top, width, STEP, cell.value, cell.tip),
        Label(middle, top + STEP / 2 + 1, f"{cell.value:.2f}", tone, "middle", 11.0 if width >= 30 else 9.0, True),
        Label(middle, top + STEP / 2 + 12, f"n {cell.n}", tone, "middle", 9.0 if width >= 30 else 7.5),
    ]


def _draw_ground(left: float, top: float, width: float, height: float, value: float, tip: str) -> list[Mark]:
    return [
        Bar(left + 0.5, top + 0.5, width - 1, height - 1, "cell", 1.0, None, tip),
        Bar(left + 0.5, top + 0.5, width - 1, height - 1, "heat", value, None, tip),
    ]
