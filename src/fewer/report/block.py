"""What a report is made of, before it is a page or a file: sections of text, facts, tables and figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from fewer.report.chart.mark import Figure
from fewer.report.number import write_number
from fewer.study.stats import Interval

__all__ = [
    "Block",
    "Cell",
    "Column",
    "Document",
    "Facts",
    "Notice",
    "Paragraph",
    "Section",
    "Table",
    "estimate",
    "nothing",
    "number",
    "word",
]

Kind = Literal["text", "number", "interval"]
Tone = Literal["plain", "warn", "alarm", "good"]


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell: what is written, what sorting goes by, and the values of its columns in the CSV by their suffix."""

    text: str
    order: float | str | None
    raw: Mapping[str, object]
    note: str = ""
    """More, for those who point at it."""
    tone: Tone = "plain"


@dataclass(frozen=True, slots=True)
class Column:
    """A column. An interval has six in the CSV: the estimate, _low, _high, _n, _clusters and _method."""

    key: str
    title: str
    kind: Kind = "number"

    @property
    def suffixes(self) -> tuple[str, ...]:
        """Of its columns in the CSV."""
        return ("", "_low", "_high", "_n", "_clusters", "_method") if self.kind == "interval" else ("",)


@dataclass(frozen=True, slots=True)
class Table:
    """A table; `name` is that of its CSV. `heads` columns from the left name the row."""

    name: str
    title: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    heads: int = 1


@dataclass(frozen=True, slots=True)
class Facts:
    """Labels with values."""

    title: str
    facts: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Paragraph:
    """Plain text."""

    text: str
    muted: bool = False


@dataclass(frozen=True, slots=True)
class Notice:
    """A text that must not be overlooked."""

    title: str
    texts: tuple[str, ...]
    tone: Tone = "warn"


Block = Paragraph | Notice | Facts | Table | Figure


@dataclass(frozen=True, slots=True)
class Section:
    """Blocks under a heading; `name` is its anchor."""

    name: str
    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class Document:
    """A whole report."""

    kicker: str
    title: str
    subtitle: str
    sections: tuple[Section, ...]
    footer: str = ""

    def all(self, kind: type) -> list[Block]:
        """Its blocks of one kind, in order."""
        return [block for section in self.sections for block in section.blocks if isinstance(block, kind)]


def word(text: str, tone: Tone = "plain", note: str = "") -> Cell:
    """Text as it is; a dash for none."""
    return Cell(text, text, {"": text}, note, tone) if text else nothing(note)


def number(value: float | int | None, write: Callable[[float], str] | None = None, note: str = "") -> Cell:
    """A number without an interval; a dash for None."""
    if value is None or value != value:
        return nothing(note)
    text = f"{value:,}" if isinstance(value, int) else (write or write_number)(value)
    return Cell(text, float(value), {"": value}, note)


def estimate(
    interval: Interval | None, write: Callable[[float], str] = write_number, why: str = "", n: int = -1
) -> Cell:
    """An estimate with its interval in brackets, and its n where that is not `n`, the row's."""
    if interval is None or interval.estimate is None:
        return nothing(why or (interval.method if interval is not None else ""))
    text = write(interval.estimate)
    if interval.lower is not None and interval.upper is not None:
        text += f" [{write(interval.lower)}, {write(interval.upper)}]"
    if n >= 0 and interval.n != n:
        text += f" (n {interval.n:,})"
    raw = {
        "": interval.estimate,
        "_low": interval.lower,
        "_high": interval.upper,
        "_n": interval.n,
        "_clusters": interval.clusters,
        "_method": interval.method,
    }
    note = f"n {interval.n:,}, clusters {interval.clusters:,}; {100 * interval.level:g}%, {interval.method}"
    return Cell(text, interval.estimate, raw, note)


def nothing(why: str = "") -> Cell:
    """A dash, and why; the CSV has it where the method would be."""
    return Cell("–", None, {"_method": f"no estimate: {why.removeprefix('no interval: ')}" if why else None}, why)
