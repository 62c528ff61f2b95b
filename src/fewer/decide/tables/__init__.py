"""The tables of odds that come with the package, and the one that holds for a setting.

Each is a JSON file in this folder, written by `fewer odds`; which study and command made it is in the file. They are
found by the exact match that `Odds.check` asks for. Not covered: number formats of the same weights, which share a
fingerprint, and tables over signals that no receipt has.
"""

from __future__ import annotations

from pathlib import Path

from fewer.decide.odds import Odds, Setting, load_odds
from fewer.decide.reading import ON_RECEIPTS

__all__ = ["SHIPPED", "find_odds"]

SHIPPED = Path(__file__).parent


def find_odds(setting: Setting, folder: Path | None = None) -> Odds | None:
    """The table that holds for answers under this setting, of several the first by file name; None where none does.

    folder: where to look; the package's own if None.

    Raises BadInput, with the file's name, where a table cannot be read, whatever it would have been for.
    """
    for path in sorted((SHIPPED if folder is None else folder).glob("*.json")):
        odds = load_odds(path)
        if odds.signal in ON_RECEIPTS and not odds.compare(setting):
            return odds
    return None
