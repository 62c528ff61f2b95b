"""Write the documents that are made from the code, or check that they are up to date.

    python docs/generate.py            writes docs/cli.md, docs/receipt.schema.json and a table in docs/entroprefill.md
    python docs/generate.py --check    writes nothing; exits with 1 and names what differs

docs/cli.md holds the help of every command, word for word, whatever the width of the terminal.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typer.main import get_command

from fewer.cli.app import app
from fewer.prune.entroprefill.settings import GENERAL, PAPER, PARAMETERS
from fewer.receipt import Receipt

HERE = Path(__file__).parent
WRITTEN = HERE / "entroprefill.md"  # by hand, but for a table
HEADER = "<!-- Made by docs/generate.py from the commands' own help; change it there. -->\n\n# The command line\n"


def main(arguments: list[str]) -> int:
    """Write or check; the exit code."""
    if arguments not in ([], ["--check"]):
        print(f"error: unknown arguments {arguments}; use none, or --check", file=sys.stderr)
        return 2
    stale = {
        path: text for path, text in make_documents().items() if not path.exists() or path.read_text("utf-8") != text
    }
    for path, text in stale.items():
        if arguments:
            print(f"{path} is not what the code says. Run `python docs/generate.py`.", file=sys.stderr)
        else:
            path.write_text(text, encoding="utf-8")
            print(f"wrote {path}")
    return int(bool(stale and arguments))


def make_documents() -> dict[Path, str]:
    """Every generated document and its text."""
    return {
        HERE / "cli.md": HEADER + "".join(_describe_commands()),
        HERE / "receipt.schema.json": json.dumps(Receipt.model_json_schema(), indent=2) + "\n",
        HERE / "entroprefill.md": _fill(WRITTEN.read_text("utf-8"), _tabulate_settings()),
    }


def _fill(text: str, table: str) -> str:
    """The text with this table between its two marks."""
    before, begin, rest = text.partition("<!-- settings:")
    mark, newline, rest = rest.partition("\n")
    _, end, after = rest.partition("<!-- end of settings -->")
    return before + begin + mark + newline + table + end + after


def _tabulate_settings() -> str:
    """EntroPrefill's settings: symbol, meaning, unit, legal values, and the presets'."""
    lines = ["| setting | symbol | | unit | legal | paper | general |", "|---|---|---|---|---|---|---|"]
    for name, each in PARAMETERS.items():
        symbol = "" if each.symbol == "-" else each.symbol
        legal = "" if each.legal == each.unit else each.legal
        cells = (f"`{name}`", symbol, each.says, each.unit, legal, f"`{PAPER[name]}`", f"`{GENERAL[name]}`")
        lines.append("| " + " | ".join(map(_escape, cells)) + " |")
    return "\n".join(lines) + "\n"


def _describe_commands() -> Iterator[str]:
    program = get_command(app)
    with program.make_context("fewer", [], resilient_parsing=True) as context:
        yield from _describe(program, context)


def _describe(command: Any, context: Any) -> Iterator[str]:
    """One command: its usage, its help, a table for each group of options; then its commands."""
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    yield f"\n## {context.command_path}\n\n```\n{usage}\n```\n\n{command.help}\n"
    panels: dict[str, list[tuple[str, str]]] = {}
    for parameter in command.get_params(context):
        default = "Arguments" if parameter.param_type_name == "argument" else "Options"
        panels.setdefault(parameter.rich_help_panel or default, []).append(parameter.get_help_record(context))
    for panel, records in sorted(panels.items(), key=lambda item: item[0] == "Options"):
        yield f"\n| {panel} | |\n|---|---|\n"
        yield from (f"| `{names}` | {_escape(text)} |\n" for names, text in records)
    if command.epilog:
        yield f"\n{command.epilog}\n"
    for name, each in getattr(command, "commands", {}).items():
        with each.make_context(name, [], parent=context, resilient_parsing=True) as inner:
            yield from _describe(each, inner)


def _escape(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
