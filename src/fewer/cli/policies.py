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

WIDE = 100  # columns that the table of methods takes

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
    from fewer.evict.catalogue import BUDGETS

    methods = []
    for method in METHODS:
        layers, heads = BUDGETS[method.budget]
        divided = (("layers", layers, "uniform"), ("heads", heads, "equal"))
        methods.append(
            {
                "name": method.name,
                "paper": method.paper or None,
                "policy": method.policy,
                "set": {name: value for name, value, usual in divided if value != usual},
                "score": method.score,
                "design": method.design,
                "budget": method.budget,
                "estimator": method.estimator,
                "certificate": method.certificate,
                "differs": method.differs or None,
            }
        )
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
    """A table where there is room for it, else lines for each method."""

    methods: list[dict[str, Any]]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The methods in the catalogue's order."""
        wide = options.max_width >= WIDE
        table = start_table(("method", "--evict", "certificate", "what the publication does otherwise"), ())
        table.columns[0].max_width = 31  # a publication folds before a policy does
        table.columns[1].no_wrap = table.columns[2].no_wrap = True
        for each in self.methods:
            certificate, differs = "yes" if each["certificate"] else "no", each["differs"] or "-"
            sets = [f"--set {name}={value}" for name, value in each["set"].items()]
            if wide:
                name = Text.assemble((each["name"], "bold"), "\n", each["paper"] or "not published")
                table.add_row(name, Text("\n".join([each["policy"], *sets])), Text(certificate), Text(differs))
            else:
                yield Text(each["name"] + (f" ({each['paper']})" if each["paper"] else ""), style="bold")
                yield Text(f"  --evict {' '.join([each['policy'], *sets])}; certificate: {certificate}")
                if each["differs"]:
                    yield Text(f"  the publication: {each['differs']}")
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
        "Settings are given as --set NAME=VALUE; where no default is shown, the setting is off or follows the design."
    )
    return Group(_Methods(found["methods"]), Text(), scores, Text(), designs, Text(), others, Text(), hint)


def _write(settings: Settings) -> str:
    """`window (32), pool (max), every`; a dash where there are no settings."""
    return ", ".join(map(_say, settings.items())) or "-"


def _say(setting: tuple[str, Any]) -> str:
    """`window (32)`; without the default where that is None."""
    name, value = setting
    if value is None:
        return name
    return f"{name} ({str(value).lower() if isinstance(value, bool) else value})"
