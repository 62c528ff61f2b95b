"""Settings of a method on the command line: options of their own, and `--set NAME=VALUE` for all others."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from fewer.cli.owners import find_planners, find_policies
from fewer.errors import BadInput, bad

__all__ = ["divide_settings", "name_option", "read_settings"]

_TEXTS = ("keep", "profile", "budget")  # read by the method: 1.0 is a share and 1 a token; a file may be called 3
_OTHERWISE = {"schedule": "keep", "check_items": "check", "policy": "evict"}  # other names in Python than here
_EVICT = ("budget",)  # options of their own that belong to --evict; all others belong to --prune
_WORDS = {"true": True, "false": False, "none": None}


def read_settings(named: Mapping[str, Any], given: Sequence[str]) -> dict[str, Any]:
    """What was given, by name: of the options in `named` those that are not None, and every `NAME=VALUE`.

    A value is a number, true, false or none (Python's None) where it reads as one, else a text; `keep`,
    `budget` and `profile` are texts always. Raises BadInput for a setting without a value, and for one given twice.
    """
    found = {name: value for name, value in named.items() if value is not None}
    for text in given:
        name, equals, value = (part.strip() for part in text.partition("="))
        name = name.replace("-", "_")
        if not equals or not name or not value:
            raise bad("--set", text, "NAME=VALUE", "Write for example --set tolerance=0.2.")
        if name in found:
            raise bad(f"--set {name}", value, "given once", "Leave one of the two out.")
        found[name] = value if name.rpartition(".")[2] in _TEXTS else _read(value)
    return found


def divide_settings(
    choice: Mapping[str, Any], named: Collection[str], prune: bool, evict: bool, list_known: Callable[[], Sequence[Any]]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The settings of `read_settings` that are those of --prune, and those of --evict.

    named: those that were given by options of their own. prune, evict: which of the two is asked for. A name without
    `prune.` or `evict.` before it belongs to the one that is asked for, or with both to the one that has it;
    list_known gives the names that each has, and is called for these only. Raises BadInput where both have it or
    neither, where the one meant is not asked for, and for a setting given twice.
    """
    shares: dict[str, dict[str, Any]] = {"prune": {}, "evict": {}}
    for name, value in choice.items():
        owner, dot, bare = name.partition(".")
        option = f"--{name}" if name in named else f"--set {name}"
        if name in named:
            owner, bare = "evict" if name in _EVICT else "prune", name
        elif not dot:
            bare = name
            owner = "evict" if evict or (not prune and _is_of_eviction(name)) else "prune"
            if prune and evict:
                owner = _find_owner(name, value, *list_known())
        elif owner not in shares or not bare:
            raise bad(option, value, "a setting's name, or one with prune. or evict. before it", "Leave the dot out.")
        if not (evict if owner == "evict" else prune):
            raise BadInput(_say_unused(option, value, owner, bare))
        if bare in shares[owner]:
            raise bad(option, value, "given once", "Leave one of the two out.")
        shares[owner][bare] = value
    return shares["prune"], shares["evict"]


def _find_owner(name: str, value: Any, of_prune: Collection[str], of_evict: Collection[str]) -> str:
    if name in of_prune and name in of_evict:
        raise bad(
            f"--set {name}",
            value,
            "a setting of one of the two: --prune and --evict both have it",
            f"Write --set prune.{name}={value} or --set evict.{name}={value}.",
        )
    if name not in of_prune and name not in of_evict:
        legal = f"of --prune ({', '.join(of_prune)}) or of --evict ({', '.join(of_evict)})"
        raise bad(f"--set {name}", value, legal, "Leave it out.")
    return "prune" if name in of_prune else "evict"


def _is_of_eviction(name: str) -> bool:
    """Whether policies have a setting of this name, and no planner has."""
    return find_planners(name) is None and find_policies(name) is not None


def _say_unused(option: str, value: Any, owner: str, name: str) -> str:
    """That nothing is evicted or pruned; for a setting, whose it is and how to write it."""
    done, find = ("evicted", find_policies) if owner == "evict" else ("pruned", find_planners)
    owners = find(name) if option.startswith("--set") else None
    if owners is not None:
        written = f"{option}={str(value).lower() if value is None or isinstance(value, bool) else value}"
        way_out = f"It is a setting of {owners.whose}: write {owners.example} {written}"
    elif owner == "evict":
        way_out = "Add --evict (a policy such as snapkv or systematic:question)"
    else:
        way_out = "Add --prune (random, static, ends, lexical, lazyllm or entroprefill)"
    return f"{option} is {value!r}, but nothing is {done}. {way_out}, or leave {option} out."


def name_option(error: BadInput, options: Mapping[str, str]) -> BadInput:
    """The error in the command line's words. options: of the parameters that were given, `--name` by name."""
    name = error.name
    if name is None:
        return error
    option = options.get(_OTHERWISE.get(name, name))
    if option is not None:
        return error.renamed(option)
    if "keep" in options and name == "a layer of the schedule":
        return error.renamed(f"a layer of {options['keep']}")
    if "keep" in options and name.startswith("what stays after"):
        return error.renamed(f"{name} in {options['keep']}")
    return error


def _read(text: str) -> Any:
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
