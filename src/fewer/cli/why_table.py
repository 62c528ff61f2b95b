"""An attribution in the terminal: the statement, the two numbers, and where the certificate's radius lies.

From 60 columns on. Where the terminal has only ASCII, the picture is drawn with ASCII characters.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from fewer.cli.terms import list_facts, write_number, write_share
from fewer.decide.statement import name_signal
from fewer.receipt.table import draw_marks
from fewer.receipt.units import format_count

if TYPE_CHECKING:
    from fewer.decide import Attribution

__all__ = ["AttributionTable"]

_MARKS = 36


@dataclass(frozen=True, slots=True)
class AttributionTable:
    """A rich renderable of one attribution."""

    found: Attribution

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The statement, then the facts."""
        encoding = options.encoding if options.ascii_only else "utf-8"
        yield Text(self.found.statement.encode(encoding, "replace").decode(encoding))
        yield Text()
        yield list_facts(list(_list_facts(self.found, min(_MARKS, options.max_width - 40), encoding)), encoding)


def _list_facts(found: Attribution, max_marks: int, encoding: str) -> Iterator[tuple[str, str]]:
    yield "channel", found.channel
    level = f", {found.certificate_level} in {found.odds.study}" if found.odds and found.certificate_level else ""
    yield name_signal(found.signal), f"{write_number(found.certificate)}{level}"
    level = f", {found.logprob_level} in {found.odds.study}" if found.odds and found.logprob_level else ""
    yield (
        "log-probability",
        f"{write_number(found.logprob)}{' nats a token' if found.logprob is not None else ''}{level}",
    )
    if found.layers:
        yield "by layer", _draw("layer", found.radii.per_layer, max_marks, encoding)
    if found.steps:
        yield "by step", _draw("step", found.radii.steps, max_marks, encoding)
    if found.layers:
        names = [f"layer {part.index} ({write_share(part.share)})" for part in found.layers]
        yield "most of it", _compare(names, "layer", len(found.radii.per_layer))
    if found.heads:
        names = [f"layer {part.layer} head {part.head} ({write_share(part.share)})" for part in found.heads]
        yield "", _compare(names, "head", sum(map(len, found.radii.heads)))
        large = sum(radius >= 1 for heads in found.radii.heads for radius in heads)
        yield "", f"a radius of 1 or more, an error that may be as large as the output: {format_count(large, 'head')}"
    if found.steps:
        names = [f"step {part.index} ({write_share(part.share)})" for part in found.steps]
        yield "", _compare(names, "step", len(found.radii.steps))
    for number, line in enumerate(found.missing):
        yield "" if number else "missing", line


def _draw(name: str, values: Sequence[float], max_marks: int, encoding: str) -> str:
    each = format_count(-(-len(values) // max_marks), name)
    marks = draw_marks(values, max(values), max_marks, encoding != "utf-8")
    return (
        f"{marks} one mark for {each}; highest: {write_number(max(values))} at {name} {values.index(max(values)) + 1}"
    )


def _compare(names: Sequence[str], name: str, count: int) -> str:
    """The largest parts, and what each would have if all were alike."""
    return f"{', '.join(names)}; alike, each of {format_count(count, name)} has {write_share(1 / count)}"
