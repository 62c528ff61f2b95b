"""Seeded generators of long-context tasks, exact in token length, with labelled supporting chunks."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from fewer.errors import bad
from fewer.study.item import Item
from fewer.study.tasks.generate.catalogue import GENERATORS
from fewer.study.tasks.generate.draw import Draw
from fewer.study.tasks.generate.generator import Generator, Setting, make_item
from fewer.study.tasks.generate.haystack import load_haystack
from fewer.types import Document

__all__ = ["GENERATORS", "Generator", "Setting", "generate_task"]


def generate_task(
    name: str,
    tokenizer: Any,
    *,
    length: int,
    num_items: int,
    seed: int = 0,
    depth: float | None = None,
    haystack: str | Sequence[Document] | None = None,
    **settings: Any,
) -> tuple[Item, ...]:
    """Items of a generated task, every one laid out to exactly `length` tokens by this tokenizer.

    name: one of GENERATORS. length: tokens of the whole prompt as `lay_out_item` gives it, the chat template, the
    wording and the answer prefix included, the answer not (RULER counts the room for the answer as well). seed: other
    seeds give other items; item number i is the same however many are made. depth: the place of the needle, 0 to 1, at
    the nearest sentence boundary; None spreads the items over all depths evenly. `meta["depth"]` is the one achieved:
    the share of the context's other tokens before the needle. haystack: `essay`, `noise`, a text or documents, instead
    of the task's own; read from a random paragraph on and again from its beginning where it is too short
    (`meta["haystack_passes"]` says how often it was read). settings: the generator's own, and `chat=False` for plain
    text without the chat template.

    Raises BadInput for an unknown name or setting, values out of range, a depth or a haystack where the task has no
    place for it, and a length that no item can have. Not covered: texts in other languages than English.
    """
    if not isinstance(name, str) or name not in GENERATORS:
        raise bad("task", name, f"one of {', '.join(GENERATORS)}", "Name one of them.")
    generator = GENERATORS[name]
    if not callable(tokenizer) or not hasattr(tokenizer, "chat_template"):
        raise bad("tokenizer", type(tokenizer).__name__, "a transformers tokenizer", "Pass engine.tokenizer.")
    _check_whole("length", length, 1, 2**24)
    _check_whole("num_items", num_items, 1, 10**6)
    _check_whole("seed", seed, 0, 2**63 - 1)
    if depth is not None:
        right = isinstance(depth, int | float) and not isinstance(depth, bool) and 0 <= depth <= 1
        if not generator.takes_depth or not right:
            legal = "None or a number of 0 to 1" if generator.takes_depth else f"None for {name}"
            raise bad("depth", depth, legal, "Leave it out to spread the items over all depths.")
    if haystack is not None and not generator.haystack:
        raise bad("haystack", haystack, f"None for {name}", "Leave it out: the task makes its own context.")
    known = {**generator.settings, "chat": Setting("lay out by the chat template", True, choices=(True, False))}
    for key, value in settings.items():
        if key not in known:
            raise bad("settings", key, f"among {', '.join(known)} for {name}", "Leave it out.")
        known[key].check(key, value)
    chosen = {key: settings.get(key, setting.default) for key, setting in known.items()}
    loaded = None if haystack is None else load_haystack(haystack)
    draw = partial(Draw, name, seed=seed, length=length, depth=depth, tokenizer=tokenizer, haystack=loaded)
    meters: dict[str, Any] = {}
    return tuple(make_item(generator, draw(index=index, settings=chosen, meters=meters)) for index in range(num_items))


def _check_whole(name: str, value: object, low: int, high: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise bad(name, value, f"a whole number of {low} to {high}", "Pass a number in this range.")
