"""The program `fewer` and its commands."""

from __future__ import annotations

from typing import Annotated

import typer

import fewer
from fewer.cli import ask, calibrate, chat, doctor, explain, models, odds, policies, report, study, study_packaged, why
from fewer.cli.program import Program

__all__ = ["app"]

app = typer.Typer(
    name="fewer",
    cls=Program,
    add_completion=False,
    epilog="Exit codes: 0 done, 1 unexpected error, 2 bad input, 3 the model's numbers are not finite, 4 the disk "
    "refused a write, 130 interrupted.",
    invoke_without_command=True,
    context_settings={"help_option_names": ["--help", "-h"]},
)
app.command("ask")(ask.ask)
app.command("chat")(chat.chat)
app.command("why")(why.why)
app.command("odds")(odds.odds)
app.command("explain")(explain.explain)
app.add_typer(models.app, name="models")
app.command("policies")(policies.policies)
app.command("doctor")(doctor.doctor)
study.app.command("lazyllm")(study_packaged.lazyllm)
study.app.command("entroprefill")(study_packaged.entroprefill)
study.app.command("sessions")(study_packaged.sessions)
study.app.command("replay")(study_packaged.replay)
app.add_typer(study.app, name="study")
app.command("report")(report.report)
app.command("calibrate")(calibrate.calibrate)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"fewer {fewer.__version__}")
        raise typer.Exit


@app.callback()
def start(
    ctx: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", metavar="", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Run language models on fewer tokens, with a receipt for the ones left out."""
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())
