"""Every failure becomes one line on standard error and an exit code; with --debug the traceback comes before it."""

from __future__ import annotations

import io
import sys
import traceback
from collections.abc import Sequence
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from fewer.cli.terminal import join_lines, print_error
from fewer.errors import FewerError

__all__ = ["Debug", "Program"]

_DEBUG = "fewer.debug"


def _remember(ctx: typer.Context, value: bool) -> bool:
    ctx.meta[_DEBUG] = value
    return value


Debug = Annotated[
    bool, typer.Option("--debug", help="Show the traceback of an error.", metavar="", callback=_remember, is_eager=True)
]
"""The option of every command that can fail; `Program` acts on it."""


class Program(TyperGroup):
    """The group of all commands. Nothing but SystemExit leaves `main`, and no traceback unless asked for."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> NoReturn:
        """Run, and exit with the command's code; usage errors exit with 2."""
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="replace")  # an answer may hold what this terminal's encoding cannot say
        try:
            code = super().main(args, prog_name, complete_var, False, windows_expand_args, **extra)
        except Exception as error:
            if not _is_usage_error(error):
                raise
            print_error(_describe_usage(error))
            sys.exit(2)
        if code == 130:
            print_error("interrupted")
        sys.exit(code or 0)

    def invoke(self, ctx: Any) -> Any:
        """Run the command; what it raises on purpose exits with its own code, anything else with 1."""
        try:
            return super().invoke(ctx)
        except (typer.Exit, typer.Abort, BrokenPipeError):
            raise
        except Exception as error:
            if _is_usage_error(error):
                raise
            if ctx.meta.get(_DEBUG):
                traceback.print_exc()
            if isinstance(error, FewerError):
                print_error(str(error))
                raise typer.Exit(error.exit_code) from error
            hint = "" if ctx.meta.get(_DEBUG) else " Run the command with --debug for the traceback."
            print_error(
                f"unexpected {type(error).__name__}: {join_lines(str(error)).rstrip('.') or 'no message'}.{hint}"
            )
            raise typer.Exit(1) from error


def _is_usage_error(error: Exception) -> bool:
    """Whether Typer raised it over the arguments. Its class has no public name that all versions share."""
    return hasattr(error, "format_message") and hasattr(error, "exit_code")


def _describe_usage(error: Any) -> str:
    message = join_lines(error.format_message()).rstrip(".?")
    command = error.ctx.command_path if getattr(error, "ctx", None) else "fewer"
    end = "?" if "Did you mean" in message else "."
    return f"{message}{end} Run `{command} --help` for what there is."
