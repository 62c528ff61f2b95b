"""Planners by their names on the command line and in studies."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from inspect import signature
from typing import Any

from fewer.errors import BadInput, bad
from fewer.prune.baselines import EndsPrune, RandomPrune, StaticPrune
from fewer.prune.entroprefill import EntroPrefill
from fewer.prune.lazyllm import LazyLLM
from fewer.prune.lexical import LexicalPrune
from fewer.types import Planner

__all__ = ["PLANNERS", "make_planner", "settings_of"]

PLANNERS: dict[str, Callable[..., Planner]] = {
    "random": RandomPrune,
    "static": StaticPrune,
    "ends": EndsPrune,
    "lexical": LexicalPrune,
    "lazyllm": LazyLLM,
    "entroprefill": EntroPrefill,
}
_INTERNAL = ("facts", "schedule_name")


def settings_of(name: str) -> tuple[str, ...]:
    """What a planner can be given by name; none has no settings."""
    if name == "none":
        return ()
    known = signature(PLANNERS[name]).parameters
    return tuple("keep" if key == "schedule" else key for key in known if key not in _INTERNAL)


def make_planner(name: str, **settings: Any) -> Planner | None:
    """A planner by its name; `none` is None. `keep` is a budget, and for lazyllm its schedule; profile may be `none`.

    Raises BadInput for an unknown name or setting, and TypeError where the budget is missing.
    """
    if name == "none":
        return None
    if name not in PLANNERS:
        legal = "one of " + ", ".join(["none", *sorted(PLANNERS)])
        raise bad("prune", name, legal, "Leave it out to compute every token.")
    for key in settings:
        if key not in settings_of(name):
            legal = f"one of {', '.join(settings_of(name))}"
            near = get_close_matches("keep" if key == "schedule" else key, settings_of(name), 1)
            way_out = f"Did you mean {near[0]}?" if near else "Leave it out."
            raise bad(f"the setting {key} of {name}", settings[key], legal, way_out)
    if settings.get("profile") == "none":
        settings["profile"] = None
    if name != "lazyllm" or "keep" not in settings:
        return PLANNERS[name](**settings)
    settings["schedule"] = settings.pop("keep")
    try:
        return PLANNERS[name](**settings)
    except BadInput as error:
        raise (error.renamed("keep") if error.name == "schedule" else error) from None
