"""`fewer odds`: of a finished study's answers, how often the cache had broken those with such numbers."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fewer.cli.columns import start_table
from fewer.cli.program import Debug
from fewer.cli.study import require_extra
from fewer.cli.targets import check_targets
from fewer.cli.terminal import Terminal, print_result

if TYPE_CHECKING:
    from rich.table import Table

    from fewer.decide import Odds
    from fewer.decide.odds import Share

__all__ = ["odds"]


def odds(
    run: Annotated[Path, typer.Argument(help="The folder of a finished run.", metavar="RUN", show_default=False)],
    arm: Annotated[
        str, typer.Option("--arm", help="The arm, by its name; other draws of it count with it.", show_default=False)
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The file for the table.", show_default=False)],
    signal: Annotated[
        str,
        typer.Option("--signal", help="certificate_clipped, certificate, certificate_mean or certificate_largest."),
    ] = "certificate_clipped",
    as_json: Annotated[
        bool, typer.Option("--json", help="Print what is in the file instead of a table.", metavar="")
    ] = False,
    debug: Debug = False,
) -> None:
    """Measure what certificates and log-probabilities meant in a study, for fewer why and fewer chat --odds.

    The table is for one model, policy, budget and condition, and refused for any other.
    """
    require_extra()
    check_targets({"--out": out})
    terminal = Terminal()
    with terminal.busy("Counting"):
        from fewer.study.folder import read_run
        from fewer.study.sessions.measured import measure_odds

        chosen = "" if signal == "certificate_clipped" else f" --signal {signal}"
        command = f"fewer odds {shlex.quote(str(run))} --arm {shlex.quote(arm)}{chosen}"
        found = measure_odds(read_run(run), arm, signal, command)
        found.odds.save(out)
    for reason, count in found.left_out.items():
        terminal.note(f"Left out, {reason}: {count}.")
    terminal.note(
        f"{found.odds.study}: {found.odds.condition}, budget {found.odds.budget}; 95% intervals over clusters."
    )
    if as_json:
        print(json.dumps(found.odds.model_dump(mode="json"), allow_nan=False), flush=True)
    else:
        print_result(_tabulate(found.odds))
    terminal.note(f"The table is in {out}.")


def _tabulate(found: Odds) -> Table:
    from fewer.decide.statement import name_signal

    numbers = ("answers", "broken", "wrong with both", "broken of failed")
    table = start_table((name_signal(found.signal), "log-probability"), numbers)
    levels = _name_bins(len(found.cells)), _name_bins(len(found.cells[0]))
    for row, cells in zip(levels[0], found.cells, strict=True):
        for column, cell in zip(levels[1], cells, strict=True):
            shares = (cell.broken, cell.wrong, cell.broken_of_failed)
            table.add_row(row, column, str(cell.n), *map(_write, shares))
    whole = found.whole
    table.add_row("all", "all", str(whole.n), *map(_write, (whole.broken, whole.wrong, whole.broken_of_failed)))
    return table


def _name_bins(count: int) -> list[str]:
    return ["low", *["middle"] * (count - 2), "high"]


def _write(share: Share) -> str:
    """In percent, with its interval; a dash where there are too few clusters."""
    if share.share is None or share.low is None or share.high is None:
        return f"- (n {share.n})"
    return f"{share.share:.0%} [{share.low:.0%}, {share.high:.0%}]"
