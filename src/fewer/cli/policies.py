"""`fewer policies`: what --evict can be, as published methods and by the parts that they are made of."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from inspect import signature
from typing import Annotated, Any

import typer
from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.text import Text

from fewer.cli.columns import start_table
from fewer.cli.program import Debug
from fewer.cli.terminal import Terminal, print_result

__all__ = ["policies"]

WIDE = 160  # columns that the table of methods takes

Settings = dict[str, Any]  # a setting's default, by its name
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of the tables.", metavar="")]


def policies(as_json: AsJson = False, debug: Debug = False) -> None:
    """List the policies of eviction: published methods, and the scores, designs and settings they are made of.

    A policy is a score (--evict snapkv) or design:score (--evict systematic:question); every design goes with every
    score. Only a design with known probabilities can have a certificate.
    """
    with Terminal().busy("Looking"):
        found = _collect()
    if as_json:
        print(json.dumps(found, allow_nan=False), flush=True)
    else:
        print_result(_tabulate(found))


def _collect() -> dict[str, Any]:
    """Everything there is, as --json prints it; defaults are those of Python."""
    from fewer.evict import DESIGNS, METHODS, SCORES, Budget, Policy

    methods = [
        {
            "name": method.name,
            "paper": method.paper or None,
            "policy": method.policy,
            "score": method.score,
            "design": method.design,
            "budget": method.budget,
            "estimator": method.estimator,
            "certificate": method.certificate,
            "differs": method.differs or None,
        }
        for method in METHODS
    ]
    parts = ("score", "design", "budget")
    return {
        "methods": methods,
        "scores": {name: _list_settings(make) for name, make in SCORES.items()},
        "designs": {
            name: {"certificate": hasattr(make(), "variance"), "settings": _list_settings(make)}
            for name, make in DESIGNS.items()
        },
        "budget": _list_settings(Budget, "keep"),
        "policy": _list_settings(Policy, *parts),
    }


def _list_settings(make: Callable[..., object], *without: str) -> Settings:
    """What it can be given, and what holds where it is not."""
    return {name: each.default for name, each in signature(make).parameters.items() if name not in without}


@dataclass(frozen=True, slots=True)
class _Methods:
    """A table where there is room for it, else two lines for each method."""

    methods: list[dict[str, Any]]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The methods in the catalogue's order."""
        wide = options.max_width >= WIDE
        table = start_table(("method", "paper", "score", "design", "budget", "estimator", "certificate"), ())
        for each in self.methods:
            certificate = "yes" if each["certificate"] else "no"
            parts = each["score"], each["design"], each["budget"], each["estimator"]
            table.add_row(*map(Text, (each["name"], each["paper"] or "-", *parts, certificate)))
            if not wide:
                yield Text(each["name"] + (f" ({each['paper']})" if each["paper"] else ""), style="bold")
                yield Text(f"  {', '.join(parts)}; certificate: {certificate}")
        if wide:
            yield table


def _tabulate(found: dict[str, Any]) -> Group:
    scores = start_table(("score", "settings (defaults)"), ())
    for name, settings in found["scores"].items():
        scores.add_row(Text(name), Text(_write(settings)))
    designs = start_table(("design", "certificate", "settings (defaults)"), ())
    for name, design in found["designs"].items():
        designs.add_row(Text(name), Text("yes" if design["certificate"] else "no"), Text(_write(design["settings"])))
    others = start_table(("of every policy", "settings (defaults)"), ())
    for name in ("budget", "policy"):
        others.add_row(Text(name), Text(_write(found[name])))
    hint = Text(
        "Write --evict SCORE for topk, or --evict DESIGN:SCORE. SCORE+spread multiplies by the spread of the values. "
        "Settings are given as --set NAME=VALUE; budgets other than uniform are --set layers=pyramid, --set "
        "heads=adaptive, or both."
    )
    return Group(_Methods(found["methods"]), Text(), scores, Text(), designs, Text(), others, Text(), hint)


def _write(settings: Settings) -> str:
    """`window (32), pool (max)`; none where there are no settings."""
    return ", ".join(f"{name} ({_say(value)})" for name, value in settings.items()) or "none"


def _say(value: Any) -> str:
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)
