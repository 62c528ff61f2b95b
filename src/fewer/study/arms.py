"""The arms of a study: what is done to the model's prefill and cache, and what the model may see.

An arm is written as a mapping. Lists stand for every combination: `{prune: [random, static], keep: [50%, 25%]}` is four
arms. Not covered yet: eviction, and compressing the context before the question is known.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from fewer.errors import BadInput, bad
from fewer.prune import PLANNERS, make_planner
from fewer.types import ModelFacts, Planner

__all__ = ["CONDITIONS", "Arm", "check_arms", "check_name", "expand_arms"]

CONDITIONS = {
    "aware": "the question is known while the context is read",
    "no_context": "the question alone: what the model knows, or guesses",
    "removed_text": "the text without the chunks of which the arm `like` left nothing, read from the start",
}
_DRAWS = ("random",)
_OWN = ("name", "prune", "evict", "condition", "like")
_MOST = 1000


@dataclass(frozen=True)
class Arm:
    """One way to run every item. `settings` are the planner's."""

    name: str
    prune: str = "none"
    evict: str = "none"
    condition: str = "aware"
    settings: tuple[tuple[str, Any], ...] = ()
    like: str | None = None  # of removed_text: the arm whose removed chunks are taken out of the text

    @property
    def is_full(self) -> bool:
        """Whether it leaves nothing out."""
        return self.prune == "none" and self.evict == "none" and self.condition == "aware"

    @property
    def draws(self) -> bool:
        """Whether its seed matters to what it leaves out."""
        return self.prune in _DRAWS

    @property
    def planner(self) -> Planner | None:
        """A fresh planner. Raises BadInput for settings it does not take."""
        try:
            return make_planner(self.prune, **dict(self.settings))
        except TypeError as error:
            raise bad(f"arm {self.name!r}", dict(self.settings), f"settings of {self.prune}", f"{error}.") from None

    def describe(self) -> dict[str, Any]:
        """Everything that defines it, for logs and registrations."""
        own = {"name": self.name, "prune": self.prune, "evict": self.evict, "condition": self.condition}
        return own | dict(self.settings) | ({"like": self.like} if self.like is not None else {})

    @property
    def by_chunk(self) -> bool:
        """Whether it removes whole chunks."""
        return self.prune == "entroprefill" or dict(self.settings).get("grain") == "chunk"


def expand_arms(written: Sequence[Mapping[str, Any]]) -> tuple[Arm, ...]:
    """Every arm, in order; names are unique, and exactly one leaves nothing out and is called `full`.

    Raises BadInput for an unknown planner, setting or condition, an empty list, a name given twice, no full arm, or
    more than 1000 arms.
    """
    arms: list[Arm] = []
    for entry in written:
        keys = list(entry)
        choices = [list(value) if isinstance(value, (list, tuple)) else [value] for value in entry.values()]
        for key, choice in zip(keys, choices, strict=True):
            if not choice:
                raise bad(f"{key} of an arm", choice, "a value, or a list of at least one", f"Fill {key}, or drop it.")
        number = math.prod(map(len, choices))
        if len(arms) + number > _MOST:
            raise bad("the number of arms", len(arms) + number, f"at most {_MOST}", "Write shorter lists.")
        many = number > 1
        arms += [_make_arm(dict(zip(keys, values, strict=True)), many) for values in product(*choices)]
    names = [arm.name for arm in arms]
    for name in names:
        if names.count(name) > 1:
            raise bad("arm", name, "given once", "Give each arm its own name or settings.")
    full = [arm.name for arm in arms if arm.is_full]
    if full != ["full"]:
        raise bad("the arms that leave nothing out", full, "exactly one, named full", "Add {name: full} to the arms.")
    for arm in arms:
        if arm.like is not None:
            legal = [other.name for other in arms if other.by_chunk and other.condition == "aware"]
            if arm.like not in legal:
                known = f"an arm that removes chunks ({', '.join(legal) or 'there is none'})"
                raise bad(f"like of the arm {arm.name!r}", arm.like, known, "Name it.")
    return tuple(arms)


def check_arms(arms: Iterable[Arm], facts: ModelFacts) -> None:
    """Raise BadInput, naming the arm, where one does not fit the model, or has a profile that cannot be read."""
    for arm in arms:
        try:
            if planner := arm.planner:
                (planner.fitted(facts) if hasattr(planner, "fitted") else planner).layers(facts.num_layers)
        except BadInput as error:
            raise BadInput(f"The arm {arm.name!r} does not fit the model: {error}") from None


def check_name(name: str) -> str:
    """The name, if it may name a study, an arm, a task, an outcome or a claim. Raises BadInput.

    It has no spaces at its ends, no slashes, no line ends and no control characters, and is valid Unicode.
    """
    wrong = {"Cc", "Cs", "Zl", "Zp"}
    if name and name == name.strip() and not any(c in "/\\" or unicodedata.category(c) in wrong for c in name):
        return name
    legal = "a text without spaces at its ends, slashes, line ends and control characters"
    raise bad("the name", name, legal, "Rename it.")


def _make_arm(entry: dict[str, Any], many: bool) -> Arm:
    settings = {key: value for key, value in entry.items() if key not in _OWN}
    for key in _OWN:
        if key in entry and not isinstance(entry[key], str):
            raise bad(f"{key} of an arm", entry[key], "a text", f"Put it in quotes, or leave {key} out.")
    prune, evict = entry.get("prune", "none"), entry.get("evict", "none")
    condition = entry.get("condition", "aware")
    if evict != "none":
        raise bad("evict", evict, "none in this version", "Take it out of the arm.")
    if condition not in CONDITIONS:
        raise bad("condition", condition, f"one of {', '.join(CONDITIONS)}", "Leave it out for aware.")
    if prune not in ("none", *PLANNERS):
        raise bad("prune", prune, f"one of {', '.join(['none', *sorted(PLANNERS)])}", "Leave it out for the full run.")
    if prune == "none" and settings:
        legal = f"without {', '.join(settings)}, since nothing is pruned"
        raise bad("arm", entry, legal, "Add prune, or take the settings out.")
    if condition == "no_context" and prune != "none":
        raise bad("arm", entry, "without prune, since there is no context", "Take one of the two out.")
    like = entry.get("like")
    if (like is not None) != (condition == "removed_text"):
        raise bad("like of an arm", like, "given with condition removed_text, and only there", "Name an arm.")
    if condition == "removed_text" and prune != "none":
        raise bad("arm", entry, "without prune, since its text is shorter already", "Take one of the two out.")
    parts = [prune if prune != "none" else "full"] if condition == "aware" else [condition]
    parts += [f"{key}={value}" for key, value in settings.items()] + ([f"like {like}"] if like else [])
    name = entry.get("name")
    if name is not None and many:
        raise bad("the name of several arms", name, "left out", "Each gets a name from its settings.")
    title = check_name(" ".join(parts) if name is None else name)
    arm = Arm(title, prune, evict, condition, tuple(settings.items()), like)
    for key, value in settings.items():
        if isinstance(value, Mapping):
            raise bad(
                f"{key} of the arm {arm.name!r}", value, "a text, a number, true or false", "Write it as one text."
            )
    layer = settings.get("layer")
    if layer is not None and (isinstance(layer, bool) or not isinstance(layer, int) or layer < 0):
        raise bad(
            f"layer of the arm {arm.name!r}", layer, "a whole number of at least 0", "Leave it out for the usual."
        )
    try:
        _ = arm.planner
    except BadInput as error:
        raise BadInput(f"The arm {arm.name!r} cannot be: {error}") from None
    return arm
