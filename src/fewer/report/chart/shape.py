"""The outlines of the points, as corners; a circle has none."""

from __future__ import annotations

from fewer.report.chart.mark import Dot

__all__ = ["corners_of"]

OUTLINES: dict[str, tuple[tuple[float, float], ...]] = {
    "square": ((-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)),
    "triangle": ((0, -1.15), (1.1, 0.85), (-1.1, 0.85)),
    "down": ((0, 1.15), (1.1, -0.85), (-1.1, -0.85)),
    "diamond": ((0, -1.25), (1.25, 0), (0, 1.25), (-1.25, 0)),
    "plus": ((-0.35, -1.2), (0.35, -1.2), (0.35, -0.35), (1.2, -0.35), (1.2, 0.35), (0.35, 0.35),
             (0.35, 1.2), (-0.35, 1.2), (-0.35, 0.35), (-1.2, 0.35), (-1.2, -0.35), (-0.35, -0.35)),
    "cross": ((-1.1, -0.7), (-0.7, -1.1), (0, -0.4), (0.7, -1.1), (1.1, -0.7), (0.4, 0),
              (1.1, 0.7), (0.7, 1.1), (0, 0.4), (-0.7, 1.1), (-1.1, 0.7), (-0.4, 0)),
}  # fmt: skip


def corners_of(dot: Dot) -> list[tuple[float, float]]:
    """Its corners in pixels, in order; [] for a circle."""
    return [(dot.x + dot.size * x, dot.y + dot.size * y) for x, y in OUTLINES.get(dot.shape, ())]
