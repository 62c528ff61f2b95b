"""Figures as files, painted by matplotlib: PNG at twice the size, SVG with its text as text. On white ground.

The same figure gives the same bytes with the same matplotlib: no dates, and fixed names inside.
"""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Sequence
from typing import Any

from fewer.report.chart.mark import Bar, Figure, Label, Line, Mark, Panel
from fewer.report.chart.palette import LIGHT
from fewer.report.chart.shape import corners_of

__all__ = ["paint"]

EDGE, GAP, HEADING, LINE = 16.0, 22.0, 22.0, 15.0
STYLE = {
    "svg.hashsalt": "fewer",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "text.usetex": False,
    "text.parse_math": False,
    "path.simplify": False,
    "savefig.bbox": None,
}


def paint(figure: Figure, formats: Sequence[str]) -> dict[str, bytes]:
    """The figure's bytes for each of `formats`, "png" or "svg"."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Canvas

    columns = min(len(figure.panels), 3 if len(figure.panels) > 4 else 2)
    notes = [line for note in figure.notes for line in _wrap(note, columns)]
    places, width, height = _arrange(figure.panels, columns, EDGE + 26 + LINE * len(notes))
    with matplotlib.rc_context(STYLE):
        canvas = Canvas(figsize=(width / 72, height / 72), dpi=72, facecolor=LIGHT["card"])
        FigureCanvasAgg(canvas)
        axes = canvas.add_axes((0, 0, 1, 1))
        axes.set_xlim(0, width)
        axes.set_ylim(height, 0)
        axes.axis("off")
        placed: list[tuple[Mark, float, float]] = [
            (Label(EDGE, EDGE + 12, figure.title, "ink", size=15, bold=True), 0, 0)
        ]
        for index, note in enumerate(notes):
            placed.append((Label(EDGE, EDGE + 30 + LINE * index, note), 0, 0))
        for panel, (left, top) in zip(figure.panels, places, strict=True):
            placed.append((Label(8, 13, panel.title, "ink", size=12, bold=True), left, top))
            placed += [(mark, left, top + HEADING) for mark in panel.marks]
        for order, (mark, left, top) in enumerate(placed):
            _paint(axes, mark, left, top).set_zorder(order)
        return {kind: _save(canvas, kind) for kind in formats}


def _arrange(panels: Sequence[Panel], columns: int, top: float) -> tuple[list[tuple[float, float]], float, float]:
    """Where each panel's upper left corner is, and the size of the whole."""
    places: list[tuple[float, float]] = []
    for start in range(0, len(panels), columns):
        row = panels[start : start + columns]
        left = EDGE
        for panel in row:
            places.append((left, top))
            left += panel.width + GAP
        top += HEADING + max(panel.height for panel in row) + GAP
    width = EDGE + max(place[0] + panel.width for place, panel in zip(places, panels, strict=True))
    return places, width, top - GAP + EDGE


def _paint(axes: Any, mark: Mark, left: float, top: float) -> Any:
    """Draw the mark and return matplotlib's artist for it."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Circle, Polygon, Rectangle

    colour = LIGHT[mark.tone]
    if isinstance(mark, Label):
        return axes.text(
            left + mark.x,
            top + mark.y,
            "".join(letter if letter.isprintable() else "\ufffd" for letter in mark.text),
            color=colour,
            fontsize=0.92 * mark.size,
            ha={"start": "left", "middle": "center", "end": "right"}[mark.anchor],
            weight="bold" if mark.bold else "normal",
        )
    if isinstance(mark, Line):
        xs, ys = [left + x for x, _ in mark.points], [top + y for _, y in mark.points]
        style = (0, (4, 3)) if mark.dashed else "solid"
        line = Line2D(xs, ys, color=colour, linewidth=mark.width, linestyle=style, solid_capstyle="butt")
        return axes.add_line(line)
    if isinstance(mark, Bar):
        corner = (left + mark.x, top + mark.y)
        return axes.add_patch(Rectangle(corner, mark.width, mark.height, color=colour, alpha=mark.opacity, linewidth=0))
    corners = [(left + x, top + y) for x, y in corners_of(mark)]
    edge: dict[str, Any] = {"facecolor": colour, "edgecolor": LIGHT["card"], "linewidth": 0.8}
    return axes.add_patch(
        Polygon(corners, **edge) if corners else Circle((left + mark.x, top + mark.y), mark.size, **edge)
    )


def _save(canvas: Any, kind: str) -> bytes:
    buffer = io.BytesIO()
    metadata = {"Date": None, "Creator": None} if kind == "svg" else {"Software": None}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # a name in letters that the font has not
        canvas.savefig(buffer, format=kind, dpi=144 if kind == "png" else 72, metadata=metadata)
    return buffer.getvalue()


def _wrap(note: str, columns: int) -> list[str]:
    """Lines that fit into so many panels."""
    size = math.floor(62 * max(1, columns))
    lines, line = [], ""
    for word in note.split():
        if line and len(line) + 1 + len(word) > size:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}".strip()
    return [*lines, line]
