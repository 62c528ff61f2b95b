"""Planners by their names on the command line and in studies."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any

from fewer.errors import bad
from fewer.prune.baselines import EndsPrune, RandomPrune, StaticPrune
from fewer.prune.lazyllm import LazyLLM
from fewer.types import Planner

__all__ = ["PLANNERS", "make_planner"]


def _make_lazyllm(
    keep: Any = "balanced",
    aux: Any = None,
    selection: Any = "per_step",
    revive: Any = None,
    revive_limit: Any = 16,
    revive_floor: Any = 1.0,
    profile: Any = "auto",
) -> LazyLLM:
    profile = None if profile == "none" else profile
    return LazyLLM(keep, aux, selection, revive, revive_limit, revive_floor, profile)


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
    known = signature(PLANNERS[name]).parameters
    for key in settings:
        if key not in known:
            raise bad(f"the setting {key} of {name}", settings[key], f"one of {', '.join(known)}", "Leave it out.")
    return PLANNERS[name](**settings)
