"""`fewer models`: the models at hand. `fewer models fetch`: get the embedded one."""

from __future__ import annotations

import typer
from rich.table import Table
from rich.text import Text

from fewer.cli.program import Debug
from fewer.cli.terminal import Terminal, print_result

__all__ = ["app"]

app = typer.Typer(invoke_without_command=True)


@app.callback()
def models(ctx: typer.Context, debug: Debug = False) -> None:
    """List the models at hand: the embedded one, converted GGUF files, and the hub's cache."""
    if ctx.invoked_subcommand is not None:
        return
    with Terminal().busy("Looking"):
        from fewer.model.store import list_models
        from fewer.receipt.units import format_bytes

        found = list_models()
    table = Table(box=None, padding=(0, 1), pad_edge=False)
    for heading in ("name", "kind"):
        table.add_column(heading, overflow="fold")
    table.add_column("size", justify="right", no_wrap=True)
    table.add_column("ready", overflow="fold")
    table.add_column("where", overflow="fold")
    for entry in found:
        ready = "yes" if entry.ready else f"no: {entry.command}"
        size = format_bytes(entry.num_bytes) if entry.num_bytes else "-"
        table.add_row(*map(Text, (entry.name, entry.kind, size, ready, str(entry.path or "-"))))
    print_result(table)


@app.command()
def fetch(debug: Debug = False) -> None:
    """Install, check and convert the embedded model where it is missing or damaged."""
    terminal = Terminal()
    with terminal.busy("Fetching"):
        from fewer.model.store import fetch

        path = fetch(terminal.note)
    terminal.note(f"The embedded model is ready in {path}.")
