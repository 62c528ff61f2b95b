"""`fewer study lazyllm`: the study of LazyLLM that comes along, part by part, and its reports."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fewer.cli.program import Debug
from fewer.cli.study import Out, parse_shard, show_standing
from fewer.cli.terminal import Terminal
from fewer.errors import bad

__all__ = ["lazyllm"]


def lazyllm(
    out: Out,
    part: Annotated[
        list[str] | None,
        typer.Option(help="needles, switches, grid or speed; may be repeated.", show_default="all of them"),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(help="Also write each finished part's report into this folder.", show_default="none"),
    ] = None,
    shard: Annotated[str, typer.Option(help="K/N: run the K-th of N parts of the items.")] = "1/1",
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.", metavar="")] = False,
    debug: Debug = False,
) -> None:
    """Study LazyLLM on the embedded model: what it keeps of the answers, and what it saves.

    Hours on two cores. Killed, the same command goes on where it was.
    """
    from fewer.study.lazyllm import PARTS, find_part

    for name in part or ():
        if name not in PARTS:
            raise bad("--part", name, f"one of {', '.join(PARTS)}", "Leave it out for all of them.")
    index, count = parse_shard(shard)
    terminal = Terminal(quiet)
    with terminal.busy("Preparing"):
        from fewer.report import write_report
        from fewer.study.run import run_study
    for name in part or PARTS:
        terminal.note(f"{name}: {PARTS[name]}.")
        with show_standing(terminal) as progress:
            done = run_study(find_part(name), out / name, shard=(index, count), note=terminal.note, progress=progress)
        if done.left:
            terminal.note(f"{done.left} items of other shards are not in the log yet.")
        elif report is not None:
            write_report([out / name], report / name)
            terminal.note(f"The report is in {report / name}.")
