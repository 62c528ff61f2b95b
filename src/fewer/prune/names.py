"""Planners by their names on the command line and in studies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fewer.errors import bad
from fewer.prune.baselines import EndsPrune, RandomPrune, StaticPrune
from fewer.prune.lazyllm import LazyLLM
from fewer.types import Planner

__all__ = ["PLANNERS", "make_planner"]


def _make_lazyllm(keep: Any = "balanced", **settings: Any) -> LazyLLM:
    return LazyLLM(keep, **settings)


PLANNERS: dict[str, Callable[..., Planner]] = {
    "random": RandomPrune,
    "static": StaticPrune,
    "ends": EndsPrune,
    "lazyllm": _make_lazyllm,
}


def make_planner(name: str, **settings: Any) -> Planner | None:
    """A planner by its name; `none` is None. `keep` is a budget, and for lazyllm a schedule."""
    if name == "none":
        return None
    if name not in PLANNERS:
        legal = "one of " + ", ".join(["none", *sorted(PLANNERS)])
        raise bad("prune", name, legal, "Leave it out to compute every token.")
    return PLANNERS[name](**settings)
