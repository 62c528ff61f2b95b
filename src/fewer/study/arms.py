"""The arms of a study: what is done to the model's prefill and cache, and what the model may see.

An arm is written as a mapping. Lists stand for every combination: `{prune: [random, static], keep: [50%, 25%]}` is four
arms, and `{evict: [snapkv, "systematic:question"], budget: [25%, 12.5%]}` too. An arm may prune and evict.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from fewer.errors import BadInput, bad
from fewer.evict import Policy, make_policy
from fewer.model.segment import asks_again
from fewer.prune import PLANNERS, make_planner
from fewer.study.settings import Parts, split_settings
from fewer.types import ModelFacts, Planner

__all__ = ["CONDITIONS", "Arm", "check_arms", "check_name", "expand_arms", "name_by_settings"]

CONDITIONS = {
    "aware": "the question is known while the context is read",
    "no_context": "the question alone: what the model knows, or guesses",
    "removed_text": "the text without the chunks of which the arm `like` left nothing, read from the start",
}
_DRAWS = ("random",)
_OWN = ("name", "prune", "evict", "condition", "like")
_MOST = 1000
_LONG = 10**9  # tokens of a prompt in which every budget that is a share has room


@dataclass(frozen=True)
class Arm:
    """One way to run every item. `settings` are the planner's, the policy's and `seed`, as written."""

    name: str
    prune: str = "none"
    evict: str = "none"
    condition: str = "aware"  # one of CONDITIONS; "stream" where the cache is compressed before the question is read
    settings: tuple[tuple[str, Any], ...] = ()
    like: str | None = None  # of removed_text: the arm whose removed chunks are taken out of the text

    @property
    def is_full(self) -> bool:
        """Whether it leaves nothing out."""
        return self.prune == "none" and self.evict == "none" and self.condition == "aware"

    @property
    def draws(self) -> bool:
        """Whether its seed matters to what it leaves out."""
        return self.prune in _DRAWS or (self.policy is not None and self.policy.known)

    @property
    def seed(self) -> int | None:
        """The seed that it draws with, where it has its own and not the study's."""
        seed: int | None = self.parts.seed
        return seed

    @property
    def planner(self) -> Planner | None:
        """A fresh planner. Raises BadInput for settings it does not take."""
        settings = self.parts.planner
        try:
            return make_planner(self.prune, **settings)
        except TypeError as error:
            raise bad(f"arm {self.name!r}", settings, f"settings of {self.prune}", f"{error}.") from None

    @property
    def policy(self) -> Policy | None:
        """What evicts. Raises BadInput for settings it does not take."""
        try:
            return make_policy(self.evict, **self.parts.policy)
        except BadInput as error:
            raise (error.renamed("budget") if error.name == "keep" else error) from None

    @property
    def parts(self) -> Parts:
        """Its settings, by whose they are."""
        return split_settings(self.prune, self.evict, self.settings)

    @property
    def way(self) -> str:
        """How it leaves things out, without its settings."""
        return " + ".join(name for name in (self.prune, self.evict) if name != "none") or "full"

    @property
    def budgets(self) -> tuple[str, ...]:
        """What stays, as written: of the prompt's tokens (`keep`), and of the cache's rows for each head (`budget`)."""
        both = (self.parts.planner.get("keep"), self.parts.policy.get("budget"))
        return tuple(str(budget) for budget in both if budget is not None)

    def describe(self) -> dict[str, Any]:
        """Everything that defines it, for logs and registrations."""
        own = {"name": self.name, "prune": self.prune, "evict": self.evict, "condition": self.condition}
        return own | dict(self.settings) | ({"like": self.like} if self.like is not None else {})

    @property
    def by_chunk(self) -> bool:
        """Whether it removes whole chunks."""
        return self.prune == "entroprefill" or self.parts.planner.get("grain") == "chunk"


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
    prune, evict, like = entry.get("prune", "none"), entry.get("evict", "none").strip(), entry.get("like")
    condition = entry.get("condition", "aware")
    _check_entry(entry, settings, condition)
    arm = Arm("", prune, evict, condition, tuple(settings.items()), like)
    default = name_by_settings(arm)
    name = entry.get("name")
    if name is not None and many:
        raise bad("the name of several arms", name, "left out", "Each gets a name from its settings.")
    arm = replace(arm, name=check_name(default if name is None else name))
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
        planner, policy = arm.planner, arm.policy
        if policy is None:
            _check_seed(arm)
            return arm
        policy.check(_LONG)
        _check_pair(planner, policy)
        arm = replace(arm, evict=policy.name, condition="stream" if policy.moment == "context" else condition)
        _check_seed(arm)
    except BadInput as error:
        raise BadInput(f"The arm {arm.name!r} cannot be: {error}") from None
    return arm if name is not None else replace(arm, name=name_by_settings(arm))


def name_by_settings(arm: Arm) -> str:
    """The name of an arm that was given none."""
    parts = [arm.way if arm.condition in ("aware", "stream") else arm.condition]
    parts += [f"{key}={value}" for key, value in arm.settings] + ([f"like {arm.like}"] if arm.like else [])
    return " ".join(parts)


def _check_entry(entry: dict[str, Any], settings: dict[str, Any], condition: str) -> None:
    """Refuse parts of an arm that do not go together."""
    prune, evict = entry.get("prune", "none"), entry.get("evict", "none")
    if condition not in CONDITIONS:
        raise bad("condition", condition, f"one of {', '.join(CONDITIONS)}", "Leave it out for aware.")
    if prune not in ("none", *PLANNERS):
        raise bad("prune", prune, f"one of {', '.join(['none', *sorted(PLANNERS)])}", "Leave it out for the full run.")
    if prune == evict == "none" and settings:
        legal = f"without {', '.join(settings)}, since nothing is pruned or evicted"
        raise bad("arm", entry, legal, "Add prune or evict, or take the settings out.")
    if prune == "none" and "keep" in settings:
        raise bad("keep of an arm", settings["keep"], "left out where nothing is pruned", "Write budget, for evict.")
    does = " and ".join(part for part, value in (("prune", prune), ("evict", evict)) if value != "none")
    if condition == "no_context" and does:
        raise bad("arm", entry, f"without {does}, since there is no context", "Take one of the two out.")
    like = entry.get("like")
    if (like is not None) != (condition == "removed_text"):
        raise bad("like of an arm", like, "given with condition removed_text, and only there", "Name an arm.")
    if condition == "removed_text" and does:
        raise bad("arm", entry, f"without {does}, since its text is shorter already", "Take one of the two out.")


def _check_pair(planner: Planner | None, policy: Policy) -> None:
    """Refuse what the engine would refuse of a planner and a policy in one request."""
    for name, value, off in (("block", policy.block, None), ("moment", policy.moment, "prompt")):
        if planner is not None and value != off:
            raise bad(name, value, "left out with prune", "A planner needs the whole prompt at once.")
    if asks_again(planner):
        legal = "left out where pruned tokens can come back"
        raise bad("evict", policy.name, legal, "Prune with lazyllm, aux: 'off' and selection: prefill, or another way.")


def _check_seed(arm: Arm) -> None:
    seed = arm.seed
    if seed is None:
        return
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**63:
        raise bad("seed", seed, "a whole number of at least 0, below 2^63", "Leave it out for the study's seeds.")
    if not arm.draws:
        raise bad("seed", seed, f"left out, since {arm.way} draws nothing by it", "Take a design that samples.")
