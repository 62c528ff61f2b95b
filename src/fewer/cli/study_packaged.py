"""`fewer study lazyllm`, `entroprefill`, `sessions` and `replay`: studies that come along, and their reports."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fewer.cli.program import Debug
from fewer.cli.study import Out, parse_shard, show_standing
from fewer.cli.terminal import Terminal
from fewer.errors import bad

__all__ = ["entroprefill", "lazyllm", "replay", "sessions"]

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

    Its parts are speed, needles, switches, matched and grid. Hours on two cores. Killed, the same command goes on where
    it was. Reports of the others show the seconds of speed beside their scores, once it is there.
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


def sessions(
    out: Out,
    part: Parts = None,
    report: Report = None,
    shard: Shard = "1/1",
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Study sessions on the embedded model: whether an answer's own signals tell cache damage from hard questions.

    Its parts are pilot and needles. Hours on two cores. Killed, the same command goes on where it was.
    """
    _run("sessions", out, part, report, shard, quiet)


def replay(
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The run's folder.", metavar="RUN", show_default=False)
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(help="A folder of tasks with rows: replay documents as well.", show_default="generated prompts"),
    ] = None,
    report: Annotated[
        Path | None, typer.Option(help="Also write the report into this folder.", show_default="none")
    ] = None,
    most: Annotated[
        int | None, typer.Option(help="Replay at most so many prompts now.", min=0, show_default="all that are left")
    ] = None,
    register: Annotated[
        Path | None,
        typer.Option(help="Freeze and hash study, prompts and model in this file, and run nothing.", metavar="JSON"),
    ] = None,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Study eviction's error and certificate on real keys, values and decode queries of the embedded model.

    Every design against the full cache, layer by layer and head by head; no answer is generated from a compressed one.
    About an hour on one core. Killed, the same command goes on where it was.
    """
    if (out is None) == (register is None):
        raise bad("--out", str(out), "given, unless --register is", "Give one of the two.")
    terminal = Terminal(quiet)
    with terminal.busy("Preparing"):
        from fewer.engine import Engine
        from fewer.report.replay import write_replay_report
        from fewer.study.replay.registered import register_replay
        from fewer.study.replay.run import run_replay
        from fewer.study.replay.spec import load_replay

        study = load_replay()
        engine = Engine.load(dtype="bfloat16", progress=terminal.note)
    if register is not None:
        print(register_replay(study, engine, data, register).sha256)
        return
    assert out is not None
    with show_standing(terminal) as progress:
        left = run_replay(study, engine, out, data=data, most=most, progress=progress)
    if left:
        terminal.note(f"{left} prompts are left; the same command goes on.")
    if report is not None:
        with terminal.busy("Estimating"):
            write_replay_report(out, report, f"fewer study replay --out RUN{'' if data is None else ' --data DIR'}")
        terminal.note(f"The report is in {report}.")


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
            timed = out / "speed"
            other = timed if name != "speed" and timed.is_dir() else None
            write_report([folder], report / name, timed=other)
            terminal.note(f"The report is in {report / name}.")
