"""Whose each setting of an arm is: the planner's, the policy's, or the arm's own seed.

A name that only one of them knows goes to that one. `prune.NAME` and `evict.NAME` say whose it is, and have to where
both know it. `seed` is the arm's own wherever the planner has none.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from fewer.errors import bad
from fewer.evict import settings_of_policy
from fewer.evict.catalogue import parse_policy_name
from fewer.prune import settings_of

__all__ = ["Parts", "split_settings"]


class Parts(NamedTuple):
    """Settings by whose they are; `seed` is None where the arm has none of its own."""

    planner: dict[str, Any]
    policy: dict[str, Any]
    seed: Any


def split_settings(prune: str, evict: str, settings: Iterable[tuple[str, Any]]) -> Parts:
    """Sort the settings. Where only one of the two is there, it gets what nobody knows, and refuses it.

    Raises BadInput where both or, with two of them, neither know a name, for a prefix of one that is not there, for a
    setting given twice, and for an unknown policy.
    """
    names: dict[str, tuple[str, ...]] = {"prune": settings_of(prune), "evict": ()}
    if evict != "none":
        samples = parse_policy_name(evict)[0] != "topk"
        names["evict"] = ("budget", *settings_of_policy(evict), *(["seed"] if samples else []))
    there = [owner for owner, name in (("prune", prune), ("evict", evict)) if name != "none"]
    found: dict[str, dict[str, Any]] = {"prune": {}, "evict": {}}
    for written, value in settings:
        prefix, dot, rest = written.partition(".")
        if dot and prefix in found:
            if prefix not in there:
                raise bad("the setting", written, f"without {prefix}., since the arm has no {prefix}", "Take it out.")
            owners, key = [prefix], rest
        else:
            owners, key = [owner for owner in there if written in names[owner]], written
            if written == "seed" and "prune" not in owners:
                owners = ["evict"]
            owners = owners or (there if len(there) == 1 else [])
        if len(owners) != 1:
            both = f"prune.{key} or evict.{key}, since {prune} and {evict} both know it"
            known = f"one of {', '.join(sorted({*names['prune'], *names['evict']}))}"
            raise bad("the setting", written, both if owners else known, "Write whose it is." if owners else "Drop it.")
        if key in found[owners[0]]:
            raise bad(f"the setting {key} of {owners[0]}", value, "given once", "Take one of the two out.")
        found[owners[0]][key] = value
    seed = found["evict"].pop("seed", None)
    return Parts(found["prune"], found["evict"], seed)
