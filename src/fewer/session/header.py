"""What a saved session says beside its tensors: its policy, and what the policy has done so far, as plain JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor

from fewer.engine.keeper import Keeper
from fewer.errors import BadInput, bad
from fewer.evict import Eviction, Policy, make_policy
from fewer.types import Keep

__all__ = ["describe_keeper", "describe_policy", "remake_keeper", "remake_policy"]


def describe_policy(policy: Policy | None) -> dict[str, Any] | None:
    """What `remake_policy` needs."""
    return None if policy is None else {"describe": dict(policy.describe()), "keep": asdict(policy.budget.keep)}


def remake_policy(saved: Mapping[str, Any] | None, given: Policy | None) -> Policy | None:
    """The policy of a saved session: the one given, or one made from its description; it describes itself the same.

    Raises BadInput where it does not, or where the score or the design is not one of this library's.
    """
    if saved is None:
        if given is not None:
            raise bad("policy", given.name, "left out: the session was saved without one", "Leave it out.")
        return None
    wanted, policy = saved["describe"], given
    if policy is None:
        try:
            policy = _make(wanted, saved["keep"])
        except BadInput:
            policy = None
    if policy is None:
        way_out = "Pass the policy that the session was made with: Session.load(directory, engine, policy)."
        raise bad("policy", wanted["name"], "one that can be made from its description", way_out)
    mine = dict(policy.describe())
    if mine != wanted:
        differs = sorted(name for name in {*mine, *wanted} if mine.get(name) != wanted.get(name))
        shown = ", ".join(f"{name} {mine.get(name)} (saved: {wanted.get(name)})" for name in differs)
        raise bad("policy", shown, "the one that the session was saved with", "Pass that one, or leave it out.")
    return policy


def describe_keeper(keeper: Keeper | None) -> dict[str, Any] | None:
    """What it has done; its factors of the last audit are tensors, and stored with them."""
    if keeper is None:
        return None
    names = ("turns", "last", "rows", "seconds", "most_bytes")
    evictions = [
        {
            **{name: getattr(each, name) for name in ("num_seen", "padding", "bytes_before", "bytes_after")},
            **{name: getattr(each, name) for name in ("certain", "seconds", "repeated_tokens")},
            "rows_before": each.rows_before.tolist(),
            "rows_after": each.rows_after.tolist(),
            "pi": None if each.pi is None else each.pi.tolist(),
            "mass": _write_numbers(each.mass),
            "margin": _write_numbers(each.margin),
        }
        for each in keeper.evictions
    ]
    return {**{name: getattr(keeper, name) for name in names}, "evictions": evictions}


def remake_keeper(keeper: Keeper, saved: Mapping[str, Any]) -> None:
    """Let a new keeper know what the saved one had done."""
    for name in ("turns", "last", "rows", "seconds", "most_bytes"):
        setattr(keeper, name, saved[name])
    keeper.evictions = [
        Eviction(
            **{
                **each,
                "padding": tuple(each["padding"]),
                "rows_before": torch.tensor(each["rows_before"]),
                "rows_after": torch.tensor(each["rows_after"]),
                "pi": None if each["pi"] is None else torch.tensor(each["pi"]),
                "mass": _read_numbers(each.get("mass")),
                "margin": _read_numbers(each.get("margin")),
            }
        )
        for each in saved["evictions"]
    ]


def _write_numbers(numbers: Tensor | None) -> list[list[float | None]] | None:
    """[L, kv_heads]; what is not a number is null."""
    return None if numbers is None else [[None if one != one else one for one in row] for row in numbers.tolist()]


def _read_numbers(saved: list[list[float | None]] | None) -> Tensor | None:
    if saved is None:  # written before there were any
        return None
    return torch.tensor([[math.nan if one is None else one for one in row] for row in saved], dtype=torch.float32)


def _make(described: Mapping[str, Any], keep: Mapping[str, Any]) -> Policy | None:
    settings = {name.rpartition(".")[2]: value for name, value in described.items() if name != "budget.keep"}
    for name in ("name", "score", "design", "moment"):
        settings.pop(name, None)
    if settings.pop("certify", None) == "off":
        settings["certify"] = False
    return make_policy(described["name"], Keep(**keep), **settings)
