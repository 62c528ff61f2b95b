"""The colours, light and dark. Text reaches a contrast of 4.5 on the card in both; a series is a shape as well.

Tones are names, so that a picture is laid out once and painted on either ground. `s0` to `s6` are the series in the
order of their first appearance; they stay apart for the common kinds of colour blindness, in the order blue, orange,
green, purple, ochre, crimson, slate.
"""

from __future__ import annotations

from typing import Literal

__all__ = ["DARK", "LIGHT", "NUM_SERIES", "SHAPES", "Shape", "heat_text", "tone_of"]

Shape = Literal["circle", "square", "triangle", "diamond", "down", "plus", "cross"]

NUM_SERIES = 7
SHAPES: tuple[Shape, ...] = ("circle", "square", "triangle", "diamond", "down", "plus", "cross")

LIGHT = {
    "page": "#f4f6f8",
    "card": "#ffffff",
    "ink": "#18212b",
    "muted": "#596673",
    "grid": "#dde3e9",
    "cell": "#e7ecf1",
    "heat": "#084c66",
    "heat-low": "#000000",
    "heat-mid": "#000000",
    "heat-high": "#ffffff",
    "s0": "#0f6a8b",
    "s1": "#b4480f",
    "s2": "#2c7a45",
    "s3": "#7a4aa8",
    "s4": "#856404",
    "s5": "#b0264f",
    "s6": "#4a5a78",
}
DARK = {
    "page": "#0e1318",
    "card": "#161d24",
    "ink": "#e7edf3",
    "muted": "#98a6b4",
    "grid": "#2a343f",
    "cell": "#232d37",
    "heat": "#a5dcf2",
    "heat-low": "#ffffff",
    "heat-mid": "#000000",
    "heat-high": "#000000",
    "s0": "#58b9dc",
    "s1": "#f0955c",
    "s2": "#6cc48a",
    "s3": "#bd97e8",
    "s4": "#d9b44a",
    "s5": "#f2809f",
    "s6": "#9fb0d0",
}


def tone_of(series: int) -> str:
    """The tone of a series by its number; after the seventh the colours start again, with other shapes beside them."""
    return f"s{series % NUM_SERIES}"


def heat_text(value: float) -> Literal["heat-low", "heat-mid", "heat-high"]:
    """The tone of a number written on a cell of this value, 0 to 1, so that its contrast is 4.5 on both grounds."""
    return "heat-low" if value < 0.45 else "heat-mid" if value < 0.7 else "heat-high"
