"""`fewer study lazyllm` and `fewer study entroprefill`: studies that come along, part by part, and their reports."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fewer.cli.program import Debug
from fewer.cli.study import Out, parse_shard, show_standing
from fewer.cli.terminal import Terminal
from fewer.errors import bad

__all__ = ["entroprefill", "lazyllm"]

Parts = Annotated[
    list[str] | None, typer.Option("--part", help="One of its parts; may be repeated.", show_default="all of them")
]
Report = Annotated[
    Path | None, typer.Option(help="Also write each finished part's report into this folder.", show_default="none")
]
Shard = Annotated[str, typer.Option(help="K/N: run the K-th of N parts of the items.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.", metavar="")]


def lazyllm(
    out: Out,
    part: Parts = None,
    report: Report = None,
    shard: Shard = "1/1",
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Study LazyLLM on the embedded model: what it keeps of the answers, and what it saves.

    Its parts are needles, switches, grid and speed. Hours on two cores. Killed, the same command goes on where it was.
    """
    _run("lazyllm", out, part, report, shard, quiet)


def entroprefill(
    out: Out,
    part: Parts = None,
    report: Report = None,
    shard: Shard = "1/1",
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Study EntroPrefill on the embedded model: what it removes, what that costs, and why it refuses.

    Its parts are needles, documents and speed. Hours on two cores. Killed, the same command goes on where it was.
    """
    _run("entroprefill", out, part, report, shard, quiet)


def _run(study: str, out: Path, chosen: list[str] | None, report: Path | None, shard: str, quiet: bool) -> None:
    from fewer.study.packaged import STUDIES, find_part

    parts = STUDIES[study]
    for name in chosen or ():
        if name not in parts:
            raise bad("--part", name, f"one of {', '.join(parts)}", "Leave it out for all of them.")
    index, count = parse_shard(shard)
    terminal = Terminal(quiet)
    with terminal.busy("Preparing"):
        from fewer.report import write_report
        from fewer.study.run import run_study
    for name in chosen or parts:
        terminal.note(f"{name}: {parts[name]}.")
        file, folder = find_part(study, name), out / name
        with show_standing(terminal) as progress:
            done = run_study(file, folder, shard=(index, count), note=terminal.note, progress=progress)
        if done.left:
            terminal.note(f"{done.left} items of other shards are not in the log yet.")
        elif report is not None:
            write_report([folder], report / name)
            terminal.note(f"The report is in {report / name}.")
