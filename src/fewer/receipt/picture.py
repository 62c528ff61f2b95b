"""What the page draws with: rows of cells over the layers, and bars."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fewer.receipt.units import clip, format_count, format_share

MAX_TITLE = 160
MAX_LABELS = 8
MAX_STEPS = 120


@dataclass(frozen=True, slots=True)
class Cell:
    """One layer of a row: `depth` 0 to 1 is how dark, or how high, it is drawn."""

    depth: float
    says: str
    later: float = 0.0  # the share computed after the prefill


@dataclass(frozen=True, slots=True)
class Row:
    """One part of the prompt, or one head, over the layers."""

    title: str
    tokens: str
    share: str
    cells: list[Cell]
    says: str


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar of a chart: measured height and, behind it, the height of a full run; 0 to 1."""

    measured: float
    full: float
    says: str


def list_labels(size: int) -> list[int]:
    """The layers that get a number under the picture: the first, the last, and a round step between."""
    step = next(step for step in (1, 2, 5, 10, 20, 50, 100, size) if size <= step * MAX_LABELS)
    middle = [layer for layer in range(step, size, step) if layer > 1 and size - layer >= step / 2]
    return sorted({1, *middle, size})


def draw_part(title: str, num_tokens: int, kept: Sequence[int], revived: Sequence[int] | None = None) -> Row:
    """A part of the prompt: of its tokens, how many each layer computed, and how many of them later."""
    cells = [
        Cell(
            count / num_tokens if num_tokens else 0.0,
            f"layer {layer}: {count:,} of {format_count(num_tokens, 'token')} ({format_share(count, num_tokens)})"
            + (f", {later:,} later" if later else ""),
            later / num_tokens if later else 0.0,
        )
        for layer, (count, later) in enumerate(zip(kept, revived or [0] * len(kept), strict=True), 1)
    ]
    share = format_share(sum(kept), num_tokens * len(kept))
    first, last = format_share(kept[0], num_tokens), format_share(kept[-1], num_tokens)
    says = f"{format_count(num_tokens, 'token')}: {first} computed at layer 1, {last} at layer {len(kept)}"
    return Row(clip(title, MAX_TITLE), f"{num_tokens:,}", share, cells, says)


def draw_steps(values: Sequence[float], say: Callable[[Sequence[float]], str]) -> list[Bar]:
    """A bar for each step or for the mean of several, as high as its share of the largest; none where all are 0.

    say: what a bar says of the values it stands for.
    """
    most = max(values, default=0.0)
    if not most:
        return []
    block, bars = -(-len(values) // MAX_STEPS), []
    for begin in range(0, len(values), block):
        part = values[begin : begin + block]
        where = f"step {begin + 1}" if len(part) == 1 else f"steps {begin + 1} to {begin + len(part)}"
        bars.append(Bar(sum(part) / len(part) / most, 0.0, f"{where}: {say(part)}"))
    return bars
