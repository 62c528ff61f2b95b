"""Small parts of the explanation's tables: numbers, user text, narrow tables, labelled lines."""

from __future__ import annotations

from math import isfinite

from rich.console import Group
from rich.table import Table
from rich.text import Text

from fewer.receipt.units import clip, format_share

__all__ = ["list_facts", "make_table", "show_text", "with_note", "write_number", "write_share"]


def write_number(value: float | None) -> str:
    """Three digits that mean something; a dash for None."""
    if value is None:
        return "-"
    if not isfinite(value):
        return "inf" if value > 0 else "-inf" if value < 0 else "nan"
    if value == 0:
        return "0"
    if abs(value) >= 999.5:
        return f"{value:,.0f}" if abs(value) < 1e7 else f"{value:.1e}"
    return f"{value:.3g}" if abs(value) >= 0.0005 else f"{value:.0e}"


def write_share(value: float | None) -> str:
    """A percentage; a dash for None."""
    return "-" if value is None else format_share(min(1.0, value), 1.0)


def show_text(text: str, size: int, encoding: str) -> Text:
    """User text on one line, without markup, in the characters that the terminal has."""
    return Text(clip(text, size).encode(encoding, "replace").decode(encoding))


def make_table(*numbers: str, texts: tuple[str, ...] = (), gap: int = 2) -> Table:
    """A table of number columns, then text columns that fold; `gap` spaces between two."""
    table = Table(box=None, padding=(0, gap, 0, 0), pad_edge=False)
    for heading in numbers:
        table.add_column(heading, justify="right", no_wrap=True)
    for heading in texts:
        table.add_column(heading, overflow="fold")
    return table


def with_note(table: Table, note: str) -> Group:
    """The table, and what its columns mean, as wide as the terminal."""
    return Group(table, Text(note, style="dim"))


def list_facts(facts: list[tuple[str, str]], encoding: str) -> Table:
    """A label and a line each."""
    table = Table.grid(padding=(0, 1))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for label, value in facts:
        table.add_row(label, show_text(value, 600, encoding))
    return table
