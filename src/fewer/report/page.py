"""A report as one HTML page that needs nothing else: pictures inside it, and a script for pointing and sorting.

Without the script everything is there but tooltips of our own, sorting and filtering. The page's security policy allows
its one script and its one style sheet by their hashes, and no network. Everything a user wrote is escaped.
"""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from fewer.report.block import Document, Table
from fewer.report.chart.inline import write_svg
from fewer.report.chart.mark import Dot, Key, Panel
from fewer.report.chart.palette import DARK, LIGHT

__all__ = ["write_page"]

MOST_KEYS = 40
"""Series that can be switched; a study with more shows the rest without a switch that works."""


def write_page(document: Document) -> str:
    """The whole page."""
    style, script = _write_style(), _read("page.js")
    loader = PackageLoader("fewer.report", "")
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    tables = [block for block in document.all(Table) if isinstance(block, Table)]
    return environment.get_template("page.html.j2").render(
        document=document,
        anchors={table.title: table.name for table in reversed(tables)},
        style=Markup(style),
        script=Markup(script),
        style_hash=_hash(style),
        script_hash=_hash(script),
        kind=lambda block: type(block).__name__,
        draw=lambda panel: Markup(write_svg(panel)),
        symbol=_draw_key,
    )


def _draw_key(key: Key) -> Markup:
    dot = Dot(7, 7, key.shape, key.tone, 4.6)
    return Markup(write_svg(Panel("", 14, 14, (dot,), key.label)).replace('class="plot"', 'aria-hidden="true"'))


@cache
def _write_style() -> str:
    """The palette as variables and classes, and the style sheet."""
    light = "".join(f"--{tone}:{colour};" for tone, colour in LIGHT.items())
    dark = "".join(f"--{tone}:{colour};" for tone, colour in DARK.items())
    tones = "\n".join(f".f-{tone}{{fill:var(--{tone})}}.l-{tone}{{stroke:var(--{tone})}}" for tone in LIGHT)
    keys = "\n".join(
        f'figure:has(.keys input[value="{number}"]:not(:checked)) .k{number}{{display:none}}'
        for number in range(MOST_KEYS)
    )
    grounds = f":root{{{light}}}\n@media (prefers-color-scheme: dark){{:root{{{dark}}}}}"
    return f"{grounds}\n{tones}\n{keys}\n{_read('page.css')}"


def _read(name: str) -> str:
    return (Path(__file__).parent / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
