"""`fewer report`: tables and figures from the logs of runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fewer.cli.program import Debug
from fewer.cli.study import require_extra
from fewer.cli.terminal import Terminal

__all__ = ["report"]


def report(
    runs: Annotated[list[Path], typer.Argument(help="Runs; two or more are compared.", metavar="RUN...")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder for the pages.", show_default=False)],
    formats: Annotated[
        list[str] | None,
        typer.Option("--format", help="md, html, png, svg or csv; may be repeated.", show_default="all of them"),
    ] = None,
    debug: Debug = False,
) -> None:
    """Write a report: Markdown, a page that stands alone, figures as PNG and SVG, tables as CSV."""
    require_extra()
    terminal = Terminal()
    with terminal.busy("Writing"):
        from fewer.report import FORMATS, write_report

        written = write_report(runs, out, formats or FORMATS)
    for path in written:
        terminal.note(str(path))
