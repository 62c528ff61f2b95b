"""`fewer why`: of a saved receipt, whether the cache or the question stands out, and how often that has meant what."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fewer.cli import options
from fewer.cli.program import Debug
from fewer.cli.terminal import Terminal, print_result
from fewer.errors import BadInput, bad

if TYPE_CHECKING:
    from fewer.decide import Odds
    from fewer.receipt import Receipt

__all__ = ["find_table", "read_receipt_file", "why"]

_LEGAL = "a receipt, or what fewer ask --json printed"
_WAY_OUT = "Write one with fewer ask --receipt FILE, or /receipt FILE in fewer chat."


def why(
    receipt: Annotated[
        str,
        typer.Argument(
            help="A receipt's JSON file, or what fewer ask --json printed; - for standard input.",
            metavar="RECEIPT",
            show_default=False,
        ),
    ],
    odds: options.OddsFile = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object instead of the picture.", metavar="")
    ] = False,
    debug: Debug = False,
) -> None:
    """Ask of a wrong or doubted answer whether the cache may have caused it, or the question was hard.

    It says what stands out, and with measured odds how often such answers were broken by the cache in a study. It is
    never a verdict.
    """
    terminal = Terminal()
    with terminal.busy("Reading"):
        from fewer.cli.why_table import AttributionTable
        from fewer.decide import attribute, load_odds

        given = read_receipt_file(receipt)
        found = attribute(given, find_table(given, terminal) if odds is None else load_odds(odds))
    if as_json:
        print(json.dumps(found.to_object(), allow_nan=False), flush=True)
    else:
        print_result(AttributionTable(found))


def find_table(receipt: Receipt, terminal: Terminal) -> Odds | None:
    """The table that comes with the package and holds for the answer; none where its prompt was pruned as well.

    A table that cannot be read is a fault of the installation: that is said, and nothing is found.
    """
    from fewer.decide import find_odds
    from fewer.decide.reading import read_receipt

    setting = read_receipt(receipt).setting
    if setting is None or receipt.settings.prune is not None:
        return None
    try:
        return find_odds(setting)
    except BadInput as error:
        terminal.note(f"No table of odds is used, since one that comes along is broken. {error}")
        return None


def read_receipt_file(name: str) -> Receipt:
    """The receipt in a file, or on standard input. Raises BadInput where there is none, or of another version."""
    from pydantic import ValidationError

    from fewer.receipt import Receipt

    plain: Any = _read_json(name)
    if isinstance(plain, dict) and isinstance(plain.get("receipt"), dict):
        plain = plain["receipt"]
    if not isinstance(plain, dict) or "schema_version" not in plain:
        raise bad("RECEIPT", name, _LEGAL, _WAY_OUT)
    try:
        return Receipt.model_validate(plain)
    except ValidationError as error:
        first = error.errors()[0]
        own, where = first.get("ctx", {}).get("error"), ".".join(map(str, first["loc"])) or "the whole"
        says = str(own) if isinstance(own, BadInput) else f"{first['msg']}. {_WAY_OUT}"
        raise BadInput(f"The receipt {name} cannot be read: {where}: {says}") from None


def _read_json(name: str) -> Any:
    if name != "-" and Path(name).is_dir():
        if (Path(name) / "session.json").is_file():
            way_out = "A saved session holds no receipts; write the last answer's with /receipt FILE in fewer chat."
            raise bad("RECEIPT", name, _LEGAL, way_out)
        raise bad("RECEIPT", name, f"{_LEGAL}, not a folder", _WAY_OUT)
    if name == "-" and sys.stdin is None:
        raise bad("RECEIPT", "-", "a file, since standard input is closed", _WAY_OUT)
    try:
        return json.loads(sys.stdin.read() if name == "-" else Path(name).read_text("utf-8"))
    except json.JSONDecodeError as error:
        raise bad("RECEIPT", name, _LEGAL, f"Line {error.lineno}: {error.msg}. {_WAY_OUT}") from None
    except (OSError, ValueError, RecursionError) as error:  # no UTF-8, and whole numbers of thousands of digits
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise bad("RECEIPT", name, f"a file that can be read ({reason})", _WAY_OUT) from None
