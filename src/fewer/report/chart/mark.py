"""The shapes that every picture is made of, in pixels from the upper left corner, and the picture itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from fewer.report.chart.palette import Shape

__all__ = ["Bar", "Dot", "Figure", "Key", "Label", "Line", "Mark", "Panel", "measure"]

Anchor = Literal["start", "middle", "end"]


@dataclass(frozen=True, slots=True)
class Line:
    """A line through points. `series` is the number of the key that switches it, None for what always stays."""

    points: tuple[tuple[float, float], ...]
    tone: str
    width: float = 1.5
    dashed: bool = False
    series: int | None = None
    tip: str = ""


@dataclass(frozen=True, slots=True)
class Bar:
    """A filled rectangle."""

    x: float
    y: float
    width: float
    height: float
    tone: str
    opacity: float = 1.0
    series: int | None = None
    tip: str = ""


@dataclass(frozen=True, slots=True)
class Dot:
    """A point as a shape, `size` pixels from its middle to its edge."""

    x: float
    y: float
    shape: Shape
    tone: str
    size: float = 4.0
    series: int | None = None
    tip: str = ""


@dataclass(frozen=True, slots=True)
class Label:
    """Text; (x, y) is at the height of its base line."""

    x: float
    y: float
    text: str
    tone: str = "muted"
    anchor: Anchor = "start"
    size: float = 11.0
    bold: bool = False
    series: int | None = None


Mark = Line | Bar | Dot | Label


@dataclass(frozen=True, slots=True)
class Panel:
    """One picture of a figure. `says` is what it shows, in words."""

    title: str
    width: float
    height: float
    marks: tuple[Mark, ...]
    says: str


@dataclass(frozen=True, slots=True)
class Key:
    """A series that can be switched off."""

    series: int
    label: str
    tone: str
    shape: Shape


@dataclass(frozen=True, slots=True)
class Figure:
    """Panels under one title. `name` is that of its files; `table` is the title of the table with its numbers."""

    name: str
    title: str
    caption: str
    panels: tuple[Panel, ...]
    keys: tuple[Key, ...] = ()
    table: str = ""
    notes: tuple[str, ...] = field(default=())


def measure(text: str, size: float = 11.0) -> float:
    """About how wide a text is, in pixels; a little too wide rather than too narrow."""
    narrow, wide = set("iljtfrI.,:;'|!()[] -"), set("mwMW%@")
    return size * sum(0.36 if letter in narrow else 0.92 if letter in wide else 0.6 for letter in text)
