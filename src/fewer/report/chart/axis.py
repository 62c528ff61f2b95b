"""From numbers to pixels: ranges, round ticks, and labels pushed apart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from fewer.report.chart.mark import measure

__all__ = ["Axis", "fit_axis", "fit_text", "spread"]


@dataclass(frozen=True, slots=True)
class Axis:
    """A range of numbers with its ticks and what is written at them."""

    title: str
    low: float
    high: float
    ticks: tuple[float, ...]
    names: tuple[str, ...]

    def place(self, value: float, start: float, stop: float) -> float:
        """Where a value lies between two pixels; values outside go to the nearer end."""
        share = (value - self.low) / (self.high - self.low)
        return start + (stop - start) * min(1.0, max(0.0, share))


def fit_axis(
    title: str,
    values: Sequence[float],
    *,
    within: tuple[float, float] | None = None,
    include: Sequence[float] = (),
    count: int = 5,
    percent: bool = False,
) -> Axis:
    """An axis around the values with about `count` round ticks, inside `within`; values beyond its ends are cut."""
    numbers = [*values, *include] or [0.0, 1.0]
    if within is not None:
        numbers = [min(max(number, within[0]), within[1]) for number in numbers]
    low, high = min(numbers), max(numbers)
    if high - low < 1e-9:
        low, high = low - max(0.05, 0.1 * abs(low)), high + max(0.05, 0.1 * abs(high))
    step = _round_step((high - low) / count)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    if within is not None:
        first = max(first, math.ceil(within[0] / step - 1e-9))
        last = min(last, math.floor(within[1] / step + 1e-9))
    ticks = tuple(number * step for number in range(first, last + 1))
    if len(ticks) < 2:
        ticks = (low, high)
    names = tuple(_name_tick(100 * tick, 100 * step) + "%" if percent else _name_tick(tick, step) for tick in ticks)
    return Axis(title, ticks[0], ticks[-1], ticks, names)


def spread(places: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """The places, moved as little as a simple sweep can so that they are `gap` apart and inside low to high."""
    order = sorted(range(len(places)), key=lambda index: places[index])
    gap = min(gap, (high - low) / max(1, len(places) - 1))
    moved = [min(max(place, low), high) for place in places]
    for earlier, later in pairwise(order):
        moved[later] = max(moved[later], moved[earlier] + gap)
    limit = high
    for index in reversed(order):
        moved[index] = min(moved[index], limit)
        limit = moved[index] - gap
    return moved


def fit_text(text: str, width: float, size: float = 11.0, bold: bool = False) -> str:
    """One line of at most about `width` pixels, cut with an ellipsis where it is longer."""
    line = " ".join(text.split())
    line = "".join(letter if letter.isprintable() else "\ufffd" for letter in line)
    scale = 1.08 if bold else 1.0
    if scale * measure(line, size) <= width:
        return line
    while line and scale * measure(line + "…", size) > width:
        line = line[:-1]
    return line.rstrip() + "…"


def _name_tick(tick: float, step: float) -> str:
    """As many decimals as the step needs."""
    digits = next(digits for digits in range(13) if abs(step * 10**digits - round(step * 10**digits)) < 1e-6 * step)
    return f"{tick + 0.0:,.{digits}f}".replace("-", "−")


def _round_step(step: float) -> float:
    """The next of 1, 2, 2.5, 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(step))
    return next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= step * (1 - 1e-9))
