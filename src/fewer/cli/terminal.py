"""What a command says beside its result: on standard error, one line each, with moving parts only on a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.text import Text

__all__ = ["Terminal", "join_lines", "print_error", "print_result"]

LONG_S = 0.5  # a prefill that takes longer than this gets a bar
WIDE = 1000  # columns of a result that no terminal shows: nothing is folded


class Terminal:
    """Standard error. With `quiet` nothing is said at all. `moves`: whether bars and spinners can be drawn."""

    def __init__(self, quiet: bool = False) -> None:
        self.console = Console(stderr=True, quiet=quiet, highlight=False)
        self.moves = not quiet and sys.stderr.isatty() and self.console.is_interactive

    def note(self, text: str) -> None:
        """One line, never folded."""
        self.console.print(Text(join_lines(text)), soft_wrap=True)

    def show(self, renderable: RenderableType) -> None:
        """A table, after an empty line."""
        self.console.print()
        self.console.print(renderable)

    @contextmanager
    def busy(self, what: str) -> Iterator[None]:
        """A spinner beside `what` for as long as the block runs."""
        if self.moves:
            with self.console.status(Text(what)):
                yield
        else:
            yield

    @contextmanager
    def layers(self, what: str) -> Iterator[Callable[[int, int], None] | None]:
        """A function to call with (layer, number of layers), which draws a bar where that takes long; or None."""
        if not self.moves:
            yield None
            return
        columns = TextColumn(what), BarColumn(20), MofNCompleteColumn(), TextColumn("layers")
        bar, begin = Progress(*columns, console=self.console, transient=True), time.monotonic()

        def report(layer: int, num_layers: int) -> None:
            if layer < num_layers and not bar.tasks and time.monotonic() - begin > LONG_S:
                bar.add_task("", total=num_layers, completed=layer)
                bar.start()
            elif bar.tasks:
                bar.update(bar.tasks[0].id, completed=layer)
                if layer == num_layers:
                    bar.stop()

        try:
            yield report
        finally:
            if bar.tasks:
                bar.stop()


def print_error(text: str) -> None:
    """`error: ...` on standard error, on one line."""
    line = Text.assemble(("error:", "bold red"), " ", join_lines(text))
    Console(stderr=True, highlight=False).print(line, soft_wrap=True)


def print_result(renderable: RenderableType) -> None:
    """A table on standard output: as wide as the terminal, or as it needs to be where there is none."""
    if sys.stdout.isatty():
        Console(highlight=False).print(renderable)
        return
    console = Console(width=WIDE, highlight=False)
    with console.capture() as captured:
        console.print(renderable)
    print("\n".join(line.rstrip() for line in captured.get().splitlines()), flush=True)


def join_lines(text: str) -> str:
    """The text on one line, without what a terminal would obey."""
    return "".join(c if c.isprintable() else " " if c.isspace() else "\ufffd" for c in text.strip())
