"""A report as Markdown: tables with pipes, figures by their file. Everything a user wrote is escaped."""

from __future__ import annotations

import re

from fewer.report.block import Block, Document, Facts, Notice, Paragraph, Table
from fewer.report.chart.mark import Figure

__all__ = ["escape_text", "write_markdown"]

SPECIAL = re.compile(r"([\\`*\[\]<>|~])")
LIST = re.compile(r"^(\d+)([.)])(?=\s|$)")
START = re.compile(r"^([#+=-])")
MARKS = {"good": "✓ ", "warn": "! ", "alarm": "‼ "}


def write_markdown(document: Document, pictures: str | None) -> str:
    """The text. `pictures` is the ending of the figures' files, None where there are none."""
    parts = [f"# {escape_text(document.title)}", escape_line(f"{document.kicker}: {document.subtitle}")]
    for section in document.sections:
        parts.append(f"## {escape_text(section.title)}")
        parts += [_write_block(block, pictures) for block in section.blocks]
    parts.append(escape_line(document.footer))
    return "\n\n".join(part for part in parts if part) + "\n"


def escape_text(text: str) -> str:
    """One line that Markdown shows as it is, inside a line."""
    line = SPECIAL.sub(r"\\\1", " ".join(text.split())).replace("&", "&amp;")
    return re.sub(r"(?<!\w)_|_(?!\w)", r"\\_", line)


def escape_line(text: str) -> str:
    """The same, at the start of a line."""
    return START.sub(r"\\\1", LIST.sub(r"\1\\\2", escape_text(text)))


def _write_block(block: Block, pictures: str | None) -> str:
    if isinstance(block, Paragraph):
        return escape_line(block.text)
    if isinstance(block, Notice):
        lines = [f"**{MARKS.get(block.tone, '')}{escape_text(block.title)}**", *map(escape_line, block.texts)]
        return "\n>\n".join(f"> {line}" for line in lines)
    if isinstance(block, Facts):
        lines = [f"- {escape_text(label)}: {escape_text(value)}" for label, value in block.facts]
        return f"### {escape_text(block.title)}\n\n" + "\n".join(lines)
    if isinstance(block, Figure):
        return _write_figure(block, pictures)
    return _write_table(block)


def _write_table(table: Table) -> str:
    head = "| " + " | ".join(escape_text(column.title) for column in table.columns) + " |"
    rule = "|" + "|".join("---" if column.kind == "text" else "---:" for column in table.columns) + "|"
    rows = ["| " + " | ".join(escape_text(cell.text) for cell in row) + " |" for row in table.rows]
    return f"### {escape_text(table.title)}\n\n{escape_line(table.caption)}\n\n" + "\n".join([head, rule, *rows])


def _write_figure(figure: Figure, pictures: str | None) -> str:
    parts = [f"### {escape_text(figure.title)}"]
    if pictures:
        parts.append(f"![{escape_text(figure.title)}](figures/{figure.name}.{pictures})")
    parts += [escape_line(text) for text in (*figure.notes, figure.caption)]
    if figure.table:
        parts.append(f"The numbers are in the table “{escape_text(figure.table)}”.")
    return "\n\n".join(parts)
