"""Prompts to calibrate on, and which of their tokens an answer needs.

A prompt's labels are the tokens that spell one of its answers, as whole words and in any case, inside the chunks that
are known to hold the evidence. Not covered: evidence in other words than the answer's, and answers such as "yes", which
a chunk may hold without meaning it.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fewer.engine import Engine
from fewer.errors import BadInput, PromptTooLong, bad
from fewer.study.item import Item, lay_out_item
from fewer.study.tasks import list_tasks, load_task
from fewer.study.tasks.generate import GENERATORS, generate_task
from fewer.types import Prompt

__all__ = ["CHECK_TASKS", "FIT_TASKS", "Labelled", "find_answers", "gather", "lay_out_all", "make_items", "name_tasks"]

FIT_TASKS = ("ruler_niah_multikey_1", "ruler_niah_multivalue", "ruler_niah_single_2", "ruler_qa_1")
"""What is fitted on, unless other tasks are named: generated, with labels."""
CHECK_TASKS = ("passcode", "ruler_niah_multiquery", "reordered", "several_questions")
"""What is checked on by generation: generated, and other tasks than those."""
FEWEST = 2
"""Prompts of a task, one for each half."""


@dataclass(frozen=True, slots=True, eq=False)
class Labelled:
    """A prompt and the tokens its answer needs. answer: [T] bool, at least one of them unprotected."""

    task: str
    prompt: Prompt
    answer: Tensor


def name_tasks(tasks: Sequence[str] | None, data: str | Path | None) -> tuple[str, ...]:
    """The tasks to fit on: those named, or else all of the folder, or else `FIT_TASKS`. Raises BadInput."""
    in_folder = () if data is None else list_tasks(data)
    chosen = tuple(in_folder if data is not None else FIT_TASKS) if not tasks else tuple(tasks)
    for task in chosen:
        if task not in in_folder and task not in GENERATORS:
            where = f"in {data} ({', '.join(in_folder)}), or " if data is not None else ""
            legal = f"{where}one of {', '.join(GENERATORS)}"
            raise bad("task", task, legal, "Give the data folder for tasks with rows.")
        if chosen.count(task) > 1:
            raise bad("task", task, "named once", "Name each task once.")
    if data is not None and not set(chosen) & set(in_folder):
        legal = f"a folder with {' or '.join(chosen) or 'tasks in it'}"
        raise bad("data", str(data), legal, "Name one of its tasks, or leave it out.")
    return chosen


def make_items(
    engine: Engine, task: str, data: str | Path | None, *, length: int, num_items: int, seed: int
) -> tuple[Item, ...]:
    """Items of one task: all of the folder's, or so many that are generated. Raises BadInput."""
    if data is not None and task in list_tasks(data):
        return load_task(task, data, seed=seed)
    return generate_task(task, engine.tokenizer, length=length, num_items=num_items, seed=seed)


def gather(
    engine: Engine, tasks: Sequence[str], data: str | Path | None, *, length: int, num_prompts: int, seed: int
) -> list[Labelled]:
    """`num_prompts` labelled prompts, as evenly from all tasks as it goes; fewer of a folder's task that has fewer.

    Raises BadInput where a task has less than two prompts with labels, PromptTooLong where none fits the model.
    """
    found: list[Labelled] = []
    for index, task in enumerate(tasks):
        wanted = num_prompts // len(tasks) + (index < num_prompts % len(tasks))
        items = make_items(engine, task, data, length=length, num_items=wanted, seed=seed)
        of_task: list[Labelled] = []
        too_long = False
        for item in items:
            if len(of_task) == wanted:
                break
            try:
                prompt = lay_out_item(engine.tokenizer, item, engine.adapter.max_positions)
            except PromptTooLong:
                too_long = True
                continue
            answer = find_answers(engine.tokenizer, item, prompt)
            if bool((answer & ~prompt.protected).any()):
                of_task.append(Labelled(task, prompt, answer))
        if len(of_task) < FEWEST and too_long:
            raise _too_long(task, engine)
        if len(of_task) < FEWEST:
            raise BadInput(
                f"The task {task!r} has {len(of_task)} prompts with supporting labels; it takes at least {FEWEST} "
                "whose supporting chunks hold the answer in its own words. Name another task."
            )
        found += of_task
    return found


def lay_out_all(engine: Engine, items: Iterable[Item]) -> list[tuple[Item, Prompt]]:
    """Every item with its prompt. Raises PromptTooLong, with the task's name."""
    found = []
    for item in items:
        try:
            found.append((item, lay_out_item(engine.tokenizer, item, engine.adapter.max_positions)))
        except PromptTooLong:
            raise _too_long(item.task, engine) from None
    return found


def find_answers(tokenizer: Any, item: Item, prompt: Prompt) -> Tensor:
    """The tokens inside supporting chunks that spell an answer: [T] bool."""
    found = torch.zeros(len(prompt), dtype=torch.bool)
    missing = len(item.chunks) - len(prompt.chunks)  # swallowed by the sinks
    answers = [re.escape(answer.strip()) for answer in item.answers if answer.strip()]
    if not answers:
        return found
    pattern = re.compile("|".join(rf"(?<!\w){answer}(?!\w)" for answer in answers), re.IGNORECASE)
    for index in item.supporting or ():
        if index < missing:
            continue
        chunk = prompt.chunks[index - missing]
        for start, stop in _find_tokens(tokenizer, prompt.ids[chunk.start : chunk.stop].tolist(), pattern):
            found[chunk.start + start : chunk.start + stop] = True
    return found


def _find_tokens(tokenizer: Any, ids: list[int], pattern: re.Pattern[str]) -> list[tuple[int, int]]:
    """Where the matches are, in tokens: [start, stop). By the lengths of beginnings, which every tokenizer decodes."""

    @cache
    def spell(count: int) -> str:
        return str(tokenizer.decode(ids[:count], skip_special_tokens=False, clean_up_tokenization_spaces=False))

    def length(count: int) -> int:
        return len(spell(count))

    counts = range(len(ids) + 1)
    found = []
    for match in pattern.finditer(spell(len(ids))):
        reached, passed = (bisect(counts, match.end(), key=length) for bisect in (bisect_left, bisect_right))
        found.append((bisect_right(counts, match.start(), key=length) - 1, max(reached, passed - 1)))
    return found


def _too_long(task: str, engine: Engine) -> PromptTooLong:
    return PromptTooLong(
        f"The prompts of {task}, with room for the answers, do not fit into the {engine.adapter.max_positions} "
        "positions of the model. Calibrate at a smaller length, or on shorter rows."
    )
