"""Every failure becomes one line on standard error and an exit code; with --debug the traceback comes before it."""

from __future__ import annotations

import io
import signal
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from fewer.cli.settings import name_option
from fewer.cli.terminal import join_lines, print_error
from fewer.errors import BadInput, FewerError

__all__ = ["Debug", "Program"]


def _remember(ctx: typer.Context, value: bool) -> bool:
    program: Any = ctx.find_root().command
    program.debug, program.context = value, ctx
    return value


Debug = Annotated[
    bool, typer.Option("--debug", help="Show the traceback of an error.", metavar="", callback=_remember, is_eager=True)
]
"""The option of every command that can fail; `Program` acts on it."""


class Program(TyperGroup):
    """The group of all commands. Only SystemExit leaves `main`, and no traceback is shown unless asked for."""

    debug = False
    context: Any = None  # of the command that runs
    interrupted = False  # by Ctrl-C, also where a library made another error of it

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> NoReturn:
        """Run, and exit with 0, with the error's own code, or with 1 for what was not raised on purpose.

        `standalone_mode` is Typer's and has to stay on.
        """
        assert standalone_mode
        self.context = None
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="replace")  # an answer may hold what this terminal's encoding cannot say
        try:
            with self._noting_interrupts():
                code = super().main(args, prog_name, complete_var, False, windows_expand_args, **extra) or 0
        except typer.Abort:
            code = 130
        except Exception as error:
            if self.debug:
                traceback.print_exc()
            if self.interrupted:
                code = 130
            else:
                message, code = self._describe(error)
                print_error(message)
        if code == 130:
            print_error("interrupted")
        sys.exit(code)

    @contextmanager
    def _noting_interrupts(self) -> Iterator[None]:
        """Remember Ctrl-C inside the block: an import that it stops half-way may fail as something else."""

        def note(number: int, frame: object) -> None:
            self.interrupted = True
            raise KeyboardInterrupt

        before = signal.signal(signal.SIGINT, note)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    def _describe(self, error: Any) -> tuple[str, int]:
        """The error in one sentence, and the exit code."""
        if isinstance(error, BadInput) and self.context is not None:
            error = name_option(error, _list_given(self.context))
        if isinstance(error, FewerError):
            return str(error), error.exit_code
        if hasattr(error, "format_message") and hasattr(error, "exit_code"):  # Typer's own, over the arguments
            return _describe_usage(error), error.exit_code
        hint = "" if self.debug else " Run the command with --debug for the traceback."
        return f"unexpected {type(error).__name__}: {str(error).rstrip('.') or 'no message'}.{hint}", 1


def _list_given(context: Any) -> dict[str, str]:
    """The options on this command line, `--name` by the parameter's name."""
    found = {}
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name)
        long = [each for each in parameter.opts if each.startswith("--")]
        if long and source is not None and source.name == "COMMANDLINE":
            found[parameter.name] = long[0]
    return found


def _describe_usage(error: Any) -> str:
    message = join_lines(error.format_message())
    if hasattr(error.__cause__, "errors"):  # a value that pydantic refused, and does not name
        message = f"{message.rstrip('.')}; it was {error.__cause__.errors()[0]['input']!r}"
    command = error.ctx.command_path if getattr(error, "ctx", None) else "fewer"
    return f"{message}{'' if message.endswith(('.', '?')) else '.'} Run `{command} --help` for what there is."
