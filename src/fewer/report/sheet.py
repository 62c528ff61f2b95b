"""A table as CSV: every number as it was computed, an interval in six columns, with its n, clusters and method."""

from __future__ import annotations

import csv
import io

from fewer.report.block import Table

__all__ = ["write_sheet"]


def write_sheet(table: Table) -> str:
    """The text, in UTF-8 and with line feeds when written. Text that a spreadsheet would run has a quote before it."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    names: list[str] = []
    for column in table.columns:
        stem = "_".join(column.key.lower().split())
        names += [f"{stem}{suffix}" for suffix in column.suffixes]
    writer.writerow(names)
    for row in table.rows:
        values: list[object] = []
        for column, cell in zip(table.columns, row, strict=True):
            values += [_guard(cell.raw.get(suffix)) for suffix in column.suffixes]
        writer.writerow(["" if value is None else value for value in values])
    return buffer.getvalue()


def _guard(value: object) -> object:
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r"):
        return f"'{value}"
    return value
