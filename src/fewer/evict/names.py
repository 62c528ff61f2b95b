"""Policies by their names on the command line and in studies."""

from __future__ import annotations

from difflib import get_close_matches
from inspect import signature
from typing import Any

from fewer.errors import bad
from fewer.evict.budget import Budget
from fewer.evict.catalogue import parse_policy_name
from fewer.evict.design import DESIGNS
from fewer.evict.policy import Policy
from fewer.evict.score import SCORES, make_score
from fewer.evict.score.spread import SPREAD
from fewer.types import Keep

__all__ = ["make_policy", "settings_of_policy"]

_PARTS = ("score", "design", "budget")  # of a policy, which are made from the name and the settings


def settings_of_policy(name: str) -> tuple[str, ...]:
    """What a policy of this name can be given beside its budget."""
    return tuple(key for part in _known(name).values() for key in part)


def make_policy(name: str | None, budget: int | float | str | Keep | None = None, **settings: Any) -> Policy | None:
    """A policy by its name: a score ("snapkv"), or a design and a score ("systematic:question"). `none` is None.

    budget: rows per key-value head, protected ones included: a count (256) or a share of the tokens (0.25, "25%").
    settings: those of the policy (sinks, recent, estimator, every, block, delta, certify), of the budget (layers,
    heads, beta, safeguard), of the score and of the design, by their names in Python. A score that wants another budget
    than the uniform one, as kvzip does, has it unless it is given. Raises BadInput.
    """
    if name is None or name == "none":
        return None
    known = _known(name)
    everything = settings_of_policy(name)
    for key, value in settings.items():
        if key not in everything:
            owners = [score for score, make in SCORES.items() if key in signature(make).parameters]
            near = get_close_matches(key, everything, 1)
            way_out = f"Did you mean {near[0]}?" if near else "Leave it out."
            way_out = f"It is a setting of {', '.join(owners)}." if owners else way_out
            raise bad(f"the setting {key} of {name}", value, f"one of {', '.join(everything)}", way_out)
    if budget is None:
        raise bad("budget", None, "a count of tokens or a share", 'Write for example budget="25%".')
    parts = {part: {key: settings[key] for key in keys if key in settings} for part, keys in known.items()}
    design, score = parse_policy_name(name)
    parts["budget"] = {**getattr(SCORES[score.removesuffix(SPREAD)], "budget", {}), **parts["budget"]}
    return Policy(
        make_score(score, **parts["score"]),
        DESIGNS[design](**parts["design"]),
        Budget(Keep.parse(budget), **parts["budget"]),
        **parts["policy"],
    )


def _known(name: str) -> dict[str, list[str]]:
    """The settings of each part of the policy of this name."""
    design, score = parse_policy_name(name)
    return {
        "score": list(signature(SCORES[score.removesuffix(SPREAD)]).parameters),
        "design": list(signature(DESIGNS[design]).parameters),
        "budget": [key for key in signature(Budget).parameters if key != "keep"],
        "policy": [key for key in signature(Policy).parameters if key not in _PARTS],
    }
