"""Prompts to calibrate EntroPrefill on, and which of their chunks hold the evidence.

What is chosen is chosen on `FIT_TASKS` and `ALSO_FIT_TASKS`; other items of these, and `HELD_OUT_TASKS`, are reported
only. All have their own seeds, and no question of a folder's task is asked twice. The lists were not drawn blindly:
docs/calibration.md says what was seen before. Tasks that no generator makes are used where the data folder has them.
Not covered: prompts whose question comes first, other languages.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from fewer.engine import Engine
from fewer.errors import BadInput, PromptTooLong, bad
from fewer.prune.entroprefill.chunks import Candidates
from fewer.study.item import Item, lay_out_item
from fewer.study.tasks import list_tasks, load_task
from fewer.study.tasks.generate import GENERATORS, generate_task
from fewer.types import Prompt

__all__ = [
    "ALSO_FIT_SEED",
    "ALSO_FIT_TASKS",
    "ALSO_REPORTED_SEED",
    "FEWEST",
    "FIT_TASKS",
    "HELD_OUT_TASKS",
    "LENGTHS",
    "NEEDLES",
    "REPORTED_EACH",
    "REPORTED_LENGTHS",
    "REPORTED_SEED",
    "Asked",
    "gather",
    "name_tasks",
]

FIT_TASKS = (
    "ruler_niah_single_2",
    "ruler_niah_multikey_1",
    "ruler_niah_multivalue",
    "several_questions",
    "ruler_qa_1",
    "ruler_qa_2",
    "contradictory",
    "nq_multidoc_20",
    "hotpotqa_distractor",
    "hotpotqa_long40",
    "diffuse",
    "multi_hop",
    "musique",
    "rgb_conflict",
)
"""What is chosen on, unless other tasks are named."""
ALSO_FIT_TASKS = (
    "ruler_niah_single_1",
    "ruler_niah_single_3",
    "ruler_niah_multikey_2",
    "ruler_niah_multiquery",
    "passcode",
    "reordered",
    "multi_hop",
    "nq_multidoc_5",
    "nq_multidoc_10",
    "musique",
    "2wikimultihopqa",
    "ramdocs",
    "rgb_conflict",
)
"""Chosen on as well, with a seed of its own: what protocol 2 held out, and what was learnt from since."""
HELD_OUT_TASKS = ("ruler_niah_wiki", "2wikimultihopqa_long40", "babi_long_2k")
"""What is reported only."""
NEEDLES = frozenset(
    {
        "ruler_niah_single_1",
        "ruler_niah_single_2",
        "ruler_niah_single_3",
        "ruler_niah_multikey_1",
        "ruler_niah_multikey_2",
        "ruler_niah_multivalue",
        "ruler_niah_multiquery",
        "several_questions",
        "passcode",
        "ruler_qa_1",
        "reordered",
        "ruler_niah_wiki",
    }
)
"""Evidence in a few places among much else. The other tasks ask over several passages, or conflicting ones."""
LENGTHS = (2048, 1536, 3072)
"""Tokens of generated prompts to fit on, in turn."""
REPORTED_LENGTHS = (2048, 4096, 6144)
"""The same of prompts that are reported only: longer than those that choose."""
REPORTED_EACH = 4
"""Prompts of each task that are reported only."""
ALSO_FIT_SEED, REPORTED_SEED, ALSO_REPORTED_SEED = 20_000, 60_000, 70_000
"""Added to the seed: for `ALSO_FIT_TASKS`; for other items of `FIT_TASKS`; for those of the others, and what is held
out."""
FEWEST = 2


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """A prompt and its evidence. supporting: numbers among the prompt's candidate chunks."""

    task: str
    prompt: Prompt
    supporting: frozenset[int]
    question: str


def name_tasks(
    tasks: Sequence[str] | None, data: str | Path | None
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Those to fit on, those also fitted on, and those held out: of the lists, what can be made or is in the folder.

    tasks: to fit on, in place of both lists; what is named is not held out. At least two, since one is left out at a
    time. Raises BadInput.
    """
    in_folder = () if data is None else list_tasks(data)
    there = {*in_folder, *GENERATORS}
    chosen = tuple(tasks) if tasks else tuple(task for task in FIT_TASKS if task in there)
    for task in chosen:
        if task not in there:
            where = f"in {data} ({', '.join(in_folder)}), or " if data is not None else ""
            raise bad(
                "task", task, f"{where}one of {', '.join(GENERATORS)}", "Give the data folder for tasks with rows."
            )
        if chosen.count(task) > 1:
            raise bad("task", task, "named once", "Name each task once.")
    if len(chosen) < FEWEST:
        raise bad("task", ", ".join(chosen), "at least two tasks", "One is left out at a time to test the others on.")
    also = () if tasks else tuple(task for task in ALSO_FIT_TASKS if task in there)
    held_out = tuple(task for task in HELD_OUT_TASKS if task in there and task not in chosen)
    if data is not None and not {*chosen, *also, *held_out} & set(in_folder):
        known = [task for task in (*FIT_TASKS, *ALSO_FIT_TASKS, *HELD_OUT_TASKS) if task not in GENERATORS]
        raise bad("data", str(data), f"a folder with {' or '.join(known)}", "Or name its tasks to fit on.")
    return chosen, also, held_out


def gather(
    engine: Engine,
    tasks: Sequence[str],
    data: str | Path | None,
    *,
    lengths: Sequence[int],
    num_prompts: int,
    seed: int,
    without: frozenset[str] = frozenset(),
    fewest: int = FEWEST,
) -> list[Asked]:
    """`num_prompts` prompts, as evenly from all tasks as it goes; fewer of a folder's task that has fewer.

    lengths: of generated prompts in tokens, in turn. without: questions that a folder's task may not ask; those of a
    generator come over other documents with another seed, and some ask the same each time. Raises BadInput where a task
    has less than `fewest` prompts with labels, PromptTooLong where none fits the model.
    """
    in_folder = () if data is None else list_tasks(data)
    found: list[Asked] = []
    for index, task in enumerate(tasks):
        wanted = num_prompts // len(tasks) + (index < num_prompts % len(tasks))
        if task in in_folder:
            items: Iterator[Item] = iter(load_task(task, data, seed=seed))
        else:
            items = _generate(engine, task, lengths, wanted, seed)
        of_task: list[Asked] = []
        too_long = False
        for item in items:
            if len(of_task) == wanted:
                break
            if not item.supporting or (task in in_folder and item.question in without):
                continue
            try:
                asked = _lay_out(engine, task, item)
            except PromptTooLong:
                too_long = True
                continue
            if asked is not None:
                of_task.append(asked)
        if len(of_task) < fewest and too_long:
            raise PromptTooLong(
                f"The prompts of {task}, with room for the answers, do not fit into the {engine.adapter.max_positions} "
                "positions of the model. Calibrate at a smaller length, or on shorter rows."
            )
        if len(of_task) < fewest:
            raise BadInput(
                f"The task {task!r} has {len(of_task)} prompts with labelled evidence among chunks that may leave; it "
                f"takes at least {fewest}. Name another task."
            )
        found += of_task
    return found


def _generate(engine: Engine, task: str, lengths: Sequence[int], wanted: int, seed: int) -> Iterator[Item]:
    """Items without end, near enough: twice as many as are wanted, their lengths in turn."""
    each = 2 * (wanted // len(lengths) + 1)
    columns = [
        generate_task(task, engine.tokenizer, length=length, num_items=each, seed=seed + number)
        for number, length in enumerate(lengths)
    ]
    for row in zip(*columns, strict=True):
        yield from row


def _lay_out(engine: Engine, task: str, item: Item) -> Asked | None:
    """None where nothing of the prompt may leave, or none of the evidence is in what may."""
    prompt = lay_out_item(engine.tokenizer, item, engine.adapter.max_positions)
    missing = len(item.chunks) - len(prompt.chunks)  # swallowed by the sinks
    evidence = {index - missing for index in item.supporting or ()}
    candidates = Candidates.of(prompt)
    supporting = frozenset(place for place, index in enumerate(candidates.index) if index in evidence)
    if not supporting or prompt.query[0] == prompt.query[1]:
        return None
    return Asked(task, prompt, supporting, item.question)
