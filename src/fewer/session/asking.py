"""What a session asks of the engine: everything so far as one prompt, of which only the end is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import torch

from fewer.engine import Engine
from fewer.errors import PromptTooLong, bad
from fewer.evict import Policy
from fewer.types import Chunk, Prompt, Sampling
from fewer.types.number import check_number

__all__ = ["EARLIER", "as_sampling", "check_room", "check_settings", "whole_prompt"]

EARLIER = "read earlier"  # the title of that chunk on receipts


def whole_prompt(ids: Sequence[int], num_seen: int, num_asked: int = 0) -> Prompt:
    """All tokens of a session; the first `num_seen` have been read, the last `num_asked` are the question."""
    protected = torch.ones(len(ids), dtype=torch.bool)
    seen = min(num_seen, len(ids) - 1)
    protected[:seen] = False
    chunks = (Chunk(EARLIER, 0, seen),) if seen else ()
    return Prompt(torch.tensor(ids, dtype=torch.int64), protected, chunks, (len(ids) - num_asked, len(ids)))


def check_room(num_held: int, num_more: int, max_positions: int) -> None:
    """Raise PromptTooLong where so many more tokens do not fit."""
    if num_held + num_more > max_positions:
        raise PromptTooLong(
            f"The session has {num_held} tokens and {num_more} more are asked for (max_tokens included); the model has "
            f"{max_positions} positions, which leaves {max_positions - num_held}. Evicted tokens keep their positions. "
            "Ask for fewer tokens, or begin a new session."
        )


def check_settings(engine: object, policy: object, seed: object, chat: object) -> None:
    """What a session is made from. Raises BadInput."""
    if not isinstance(engine, Engine):
        raise bad("engine", engine, "an Engine", "Make one with Engine.load().")
    if policy is not None and not isinstance(policy, Policy):
        way_out = 'Make one with fewer.evict.make_policy("systematic:snapkv", budget=512).'
        raise bad("policy", policy, "a Policy or None", way_out)
    if policy is not None and policy.moment != "prompt":
        raise bad("moment", policy.moment, "left out in a session", "Call compress() when the context is read.")
    check_number("seed", seed, int, 0, 2**63 - 1, "Pass a whole number.")
    if not isinstance(chat, bool):
        raise bad("chat", chat, "True or False", "Leave it out to follow the model's chat template.")


def as_sampling(settings: Mapping[str, Any], seed: int) -> Sampling:
    """From keywords. Raises TypeError for unknown ones, BadInput for values."""
    known = [field.name for field in fields(Sampling)]
    for name in settings:
        if name not in known:
            raise TypeError(
                f"unknown keyword {name!r}; known ones are keep, evidence, recompute, escalate, {', '.join(known)}"
            )
    return Sampling(**{"seed": seed, **settings})
