"""Whose a setting is: for those who wrote `--set NAME=VALUE` without the method that has it."""

from __future__ import annotations

from inspect import signature
from typing import NamedTuple

__all__ = ["Owners", "find_planners", "find_policies"]


class Owners(NamedTuple):
    """Those that have a setting, and how to ask for one of them."""

    whose: str  # `--evict h2o, snapkv or question`
    example: str  # `--evict h2o --budget 25%`


def find_planners(name: str) -> Owners | None:
    """The planners that have a setting of this name; None where none has."""
    from fewer.prune import PLANNERS
    from fewer.prune.names import settings_of

    names = [planner for planner in PLANNERS if name in settings_of(planner)]
    if not names:
        return None
    needed = [each.name for each in signature(PLANNERS[names[0]]).parameters.values() if each.default is each.empty]
    return Owners(f"--prune {_join(names)}", f"--prune {names[0]}{' --keep 25%' if 'keep' in needed else ''}")


def find_policies(name: str) -> Owners | None:
    """The scores that have it, or the designs, or policies as such; None where none has."""
    from fewer.evict import DESIGNS, SCORES, Budget, Policy

    scores = [score for score, make in SCORES.items() if name in signature(make).parameters]
    designs = [f"{design}:SCORE" for design, make in DESIGNS.items() if name in signature(make).parameters]
    if scores or designs:
        names = scores or designs
        return Owners(f"--evict {_join(names)}", f"--evict {names[0].replace('SCORE', 'question')} --budget 25%")
    of_all = {*signature(Policy).parameters, *signature(Budget).parameters} - {"score", "design", "budget", "keep"}
    return Owners("--evict, whatever the score", "--evict pivotal:question --budget 25%") if name in of_all else None


def _join(names: list[str]) -> str:
    return ", ".join(names[:-1]) + f" or {names[-1]}" if len(names) > 1 else "".join(names)
