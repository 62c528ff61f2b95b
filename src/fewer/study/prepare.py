"""From a study's tasks to its units of work: the items in their order, with the length of each prompt.

The order does not depend on the machine or the number of shards: tasks take turns, so that a run that is still going on
has some of each. Not covered: loading a model; a tokenizer is enough.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from fewer.errors import BadInput, DocumentError, PromptTooLong, bad
from fewer.study.item import Item, lay_out_item
from fewer.study.metrics import score
from fewer.study.spec import Study, TaskChoice
from fewer.study.tasks import load_task
from fewer.study.tasks.generate import GENERATORS, generate_task
from fewer.study.tasks.rows import UNSCORED, check_meta

__all__ = ["Prepared", "Unit", "prepare"]

_ENDLESS = 10**9


@dataclass(frozen=True, slots=True)
class Unit:
    """One item, at its place in the run's order. num_tokens: of the whole prompt, however long the model is."""

    number: int
    item: Item
    num_tokens: int


@dataclass(frozen=True, slots=True)
class Prepared:
    """A study's units, and how many items of each task were left out: longer than `max_length`, or open-ended."""

    units: tuple[Unit, ...]
    left_out: dict[str, int]


def prepare(study: Study, tokenizer: Any, base: Path) -> Prepared:
    """Load and generate every item. Folders are relative to `base`.

    Raises BadInput or DocumentError for unknown tasks, broken rows, settings that no generator takes, and items that
    come twice.
    """
    columns: list[list[tuple[Item, int]]] = []
    left_out: dict[str, int] = {}
    for choice in study.tasks:
        column: list[tuple[Item, int]] = []
        long = open_ended = 0
        for item in _find_items(choice, study.task_seed, tokenizer, base):
            for name, legal in check_meta(item.meta).items():
                raise bad(f"meta.{name} of the item {item.id}", item.meta[name], legal, "Correct it.")
            if item.metric == UNSCORED:
                open_ended += 1
                continue
            _check_metric(item)
            size = _count(tokenizer, item)
            if choice.max_length is not None and size > choice.max_length:
                long += 1
                continue
            column.append((item, size))
            if not choice.lengths and len(column) == choice.num_items:
                break
        if not column:
            why = f"{long} items are longer than max_length, {open_ended} have no reference"
            raise BadInput(f"The task {choice.name} gives nothing to run: {why}. Take it out, or allow longer prompts.")
        columns.append(column)
        left_out[choice.name] = left_out.get(choice.name, 0) + long + open_ended
    pairs = [pair for row in zip_longest(*columns) for pair in row if pair is not None]
    seen: dict[str, str] = {}
    for item, _ in pairs:
        if item.id in seen:
            legal = f"given once; the tasks {seen[item.id]} and {item.task} both have it"
            raise bad("the id of an item", item.id, legal, "Take one of the two out.")
        seen[item.id] = item.task
    return Prepared(tuple(Unit(number, item, size) for number, (item, size) in enumerate(pairs)), left_out)


def _find_items(choice: TaskChoice, seed: int, tokenizer: Any, base: Path) -> Iterator[Item]:
    if choice.name in GENERATORS and choice.data is None and not choice.lengths:
        raise bad(f"lengths of {choice.name}", (), "at least one length in tokens", "Add lengths: [2048].")
    if choice.lengths:
        if choice.name not in GENERATORS:
            legal = f"left out: {choice.name} is not generated"
            raise bad("lengths", choice.lengths, legal, "Use max_length to leave long items out.")
        if choice.num_items is None:
            raise bad(f"num_items of {choice.name}", None, "a whole number", "Say how many to generate.")
        settings = dict(choice.settings)
        if choice.data is not None and "source" not in GENERATORS[choice.name].settings:
            legal = f"left out: {choice.name} makes its items from nothing that lies in a folder"
            raise bad(f"data of {choice.name}", choice.data, legal, "This generator takes no data; take it out.")
        if choice.data is not None:
            settings["source"] = base / choice.data
        for length in choice.lengths:
            for depth in choice.depths or (None,):
                try:
                    yield from generate_task(
                        choice.name,
                        tokenizer,
                        length=length,
                        num_items=choice.num_items,
                        seed=seed,
                        depth=depth,
                        **settings,
                    )
                except TypeError as error:
                    raise bad(f"settings of {choice.name}", choice.settings, "its own", f"{error}.") from None
        return
    for name in ("depths", "settings"):
        if getattr(choice, name):
            legal = "left out without lengths: nothing is generated"
            raise bad(name, getattr(choice, name), legal, "Add lengths, or take it out.")
    folder = None if choice.data is None else base / choice.data
    try:
        items = load_task(choice.name, folder, seed=seed)
    except BadInput as error:
        if folder is None or str(folder) in str(error):
            raise
        raise BadInput(f"The task {choice.name} in {folder}: {error}") from None
    yield from items


def _check_metric(item: Item) -> None:
    """Score the item's own answer, so that a metric it has no fields for is found before anything runs."""
    try:
        score(item.metric, item.answers[0], item.answers, item.meta)
    except Exception as error:
        why = str(error) if isinstance(error, BadInput) else f"{type(error).__name__}: {error}"
        raise BadInput(f"The item {item.id} cannot be scored: {why}") from None


def _count(tokenizer: Any, item: Item) -> int:
    try:
        return len(lay_out_item(tokenizer, item, _ENDLESS))
    except (PromptTooLong, DocumentError) as error:
        raise BadInput(f"The item {item.id} cannot be laid out: {error}") from error
