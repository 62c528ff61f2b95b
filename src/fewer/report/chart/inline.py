"""Panels as SVG inside a page: colours by the page's variables, words as titles, series as groups to switch."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from fewer.report.chart.mark import Bar, Dot, Label, Line, Mark, Panel
from fewer.report.chart.shape import corners_of

__all__ = ["write_svg"]


def write_svg(panel: Panel) -> str:
    """The panel as one `svg` element without a name space, for HTML. Every text is escaped."""
    says = f"{panel.title}: {panel.says}" if panel.title else panel.says
    head = f'<svg class="plot" viewBox="0 0 {panel.width:g} {panel.height:g}" role="img" aria-label="{escape(says)}">'
    return "\n".join([head, *(_write(mark) for mark in panel.marks), "</svg>"])


def _write(mark: Mark) -> str:
    series = "" if mark.series is None else f" k{mark.series}"
    if isinstance(mark, Label):
        bold = ' font-weight="600"' if mark.bold else ""
        place = f'x="{_round(mark.x)}" y="{_round(mark.y)}" text-anchor="{mark.anchor}" font-size="{mark.size:g}"'
        return f'<text class="f-{mark.tone}{series}" {place}{bold}>{escape(mark.text)}</text>'
    title = f"<title>{escape(mark.tip)}</title>" if mark.tip else ""
    if isinstance(mark, Line):
        dash = ' stroke-dasharray="4 3"' if mark.dashed else ""
        points = _join(mark.points)
        body = f'<polyline class="l-{mark.tone}{series}" points="{points}" stroke-width="{mark.width:g}"{dash}'
        return f"{body}>{title}</polyline>"
    if isinstance(mark, Bar):
        place = f'x="{_round(mark.x)}" y="{_round(mark.y)}" width="{_round(mark.width)}" height="{_round(mark.height)}"'
        opacity = "" if mark.opacity == 1 else f' fill-opacity="{mark.opacity:.3g}"'
        return f'<rect class="f-{mark.tone}{series}" {place}{opacity}>{title}</rect>'
    return _write_dot(mark, series, title)


def _write_dot(dot: Dot, series: str, title: str) -> str:
    corners = corners_of(dot)
    if corners:
        return f'<polygon class="f-{dot.tone} dot{series}" points="{_join(corners)}">{title}</polygon>'
    place = f'cx="{_round(dot.x)}" cy="{_round(dot.y)}" r="{dot.size:g}"'
    return f'<circle class="f-{dot.tone} dot{series}" {place}>{title}</circle>'


def _join(points: Iterable[tuple[float, float]]) -> str:
    return " ".join(f"{_round(x)},{_round(y)}" for x, y in points)


def _round(pixels: float) -> str:
    return f"{pixels:.1f}".removesuffix(".0")
