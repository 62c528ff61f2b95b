"""Tables on the terminal: texts to the left, numbers to the right."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

__all__ = ["start_table"]


def start_table(texts: tuple[str, ...], numbers: tuple[str, ...]) -> Table:
    """Without rows: columns of texts, which fold, and behind them columns of numbers, which do not."""
    table = Table(box=None, padding=(0, 1), pad_edge=False)
    for name in texts:
        table.add_column(Text(name), overflow="fold")
    for name in numbers:
        table.add_column(Text(name), justify="right", no_wrap=True)
    return table
