"""Calibration of EntroPrefill: where a model's prompts may lose chunks, by which heads, and under which constraints.

    prompts.py   the lists of tasks, and which chunks hold the evidence
    tables.py    one prefill a prompt, reduced to what each head looks at by chunk
    rule.py      what a rule would do, from a table
    ledger.py    what every rule does on every task
    search.py    the rule that loses evidence least, tested by leaving tasks out
    record.py    how often the evidence survived, and what was saved
    fitting.py   settings, and what is written down about them

What it does in plain words is in docs/calibration.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path, PurePath

import torch

import fewer
from fewer.engine import Engine
from fewer.errors import BadInput, bad
from fewer.prune.entroprefill import Calibrated
from fewer.study.calibrate.entroprefill.fitting import GOAL, fit_settings
from fewer.study.calibrate.entroprefill.prompts import (
    ALSO_FIT_SEED,
    ALSO_REPORTED_SEED,
    FEWEST,
    FIT_TASKS,
    HELD_OUT_TASKS,
    LENGTHS,
    REPORTED_EACH,
    REPORTED_LENGTHS,
    REPORTED_SEED,
    Asked,
    gather,
    name_tasks,
)
from fewer.study.calibrate.entroprefill.search import Goal
from fewer.study.calibrate.entroprefill.tables import Table, tabulate
from fewer.types.number import check_number

__all__ = ["FIT_TASKS", "GOAL", "HELD_OUT_TASKS", "LENGTHS", "NUM_PROMPTS", "SEED", "calibrate_entroprefill"]

NUM_PROMPTS = 189
"""To fit on: seven a task, and of tasks in both lists fourteen."""
SEED = 301
"""Of the prompts that are fitted on. Studies begin at 0, so that their items are others."""
PROTOCOL = 3
"""Raised when another choice would be made from the same prompts."""


def calibrate_entroprefill(
    engine: Engine,
    *,
    tasks: Sequence[str] | None = None,
    data: str | Path | None = None,
    length: int | None = None,
    num_prompts: int = NUM_PROMPTS,
    seed: int = SEED,
    saving: float = GOAL.saving,
    rate: float = GOAL.rate,
    folder: Path | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> Calibrated:
    """Find settings of EntroPrefill for this engine's model: a saving, at the least loss of labelled evidence.

    tasks: to fit on, in place of `FIT_TASKS` and `ALSO_FIT_TASKS`; those of `HELD_OUT_TASKS` that are not among them
    are reported. data: a folder for the tasks that no generator makes. length: of every generated prompt in tokens, in
    place of `LENGTHS` and `REPORTED_LENGTHS`. num_prompts: to fit on, at least two a task; `REPORTED_EACH` of every
    task are reported as well. saving and rate: the `Goal`. folder: for what each prompt showed; what is there is not
    made again. progress: called with (what, done, total).

    Raises BadInput for settings out of range, for tasks without labels, and where no rule reaches the goal;
    PromptTooLong where the prompts do not fit the model. Not covered: whether the answers stay the same, prompts whose
    question comes first, other languages than the tasks', and lengths far from those fitted.
    """
    facts = engine.adapter.facts
    if facts.num_layers < 2:
        raise BadInput(f"The model {facts.name} has one layer; nothing can leave before it. Calibrate a deeper one.")
    chosen, also, held = name_tasks(tasks, data)
    least = 2 * (len(chosen) + len(also))
    check_number("num_prompts", num_prompts, int, least, None, f"Two for each of {least // 2} tasks.")
    check_number("seed", seed, int, 0, None, "Leave it out.")
    check_number("saving", saving, float, 0.0, 1.0, f"Leave it out for {GOAL.saving:g}.", open_low=True)
    check_number("rate", rate, float, 0.0, 1.0, f"Leave it out for {GOAL.rate:g}.", open_low=True)
    if length is not None and type(length) is not int:
        raise bad("length", length, "a whole number of tokens", f"Leave it out for {LENGTHS} in turn.")
    lengths, longer = (LENGTHS, REPORTED_LENGTHS) if length is None else ((length,), (length,))
    tell = progress or (lambda what, done, total: None)

    share = num_prompts * len(chosen) // (len(chosen) + len(also))
    more = tuple(task for task in also if task not in chosen)
    draws = (  # which part, of which tasks, how many prompts, with which seed
        ("fit", chosen, share, seed),
        ("fit", also, num_prompts - share, seed + ALSO_FIT_SEED),
        ("other_items", chosen, REPORTED_EACH * len(chosen), seed + REPORTED_SEED),
        ("other_items", more, REPORTED_EACH * len(more), seed + ALSO_REPORTED_SEED),
        ("held_out", held, REPORTED_EACH * len(held), seed + ALSO_REPORTED_SEED),
    )
    prompts: dict[str, list[Asked]] = {part: [] for part, *_ in draws}
    for part, names, count, drawn in draws:
        prompts[part] += gather(
            engine,
            names,
            data,
            lengths=lengths if part == "fit" else longer,
            num_prompts=count,
            seed=drawn,
            without=frozenset(asked.question for each in prompts.values() for asked in each),
            fewest=0 if part == "other_items" else FEWEST,
        )
    total = sum(len(each) for each in prompts.values())
    parts: dict[str, list[Table]] = {}
    done = 0
    for part, asked_of in prompts.items():
        parts[part] = []
        for asked in asked_of:
            tell("Reading prompts", done, total)
            parts[part].append(tabulate(engine, asked, folder))
            done += 1
    tell("Choosing heads", total, total)
    reported = {part: of for part, of in parts.items() if part != "fit"}
    settings, reached = fit_settings(parts["fit"], reported, facts.num_layers, Goal(saving, rate))
    tables = [table for of in parts.values() for table in of]
    record = {
        "protocol": PROTOCOL,
        "tasks": {
            part: {task: sum(asked.task == task for asked in each) for task in dict.fromkeys(a.task for a in each)}
            for part, each in prompts.items()
        },
        "seeds": {part: sorted({drawn for name, of, _, drawn in draws if name == part and of}) for part in prompts},
        "lengths": {"fit": list(lengths), "reported": list(longer)},
        "tokens": [min(table.size for table in tables), max(table.size for table in tables)],
        "query": [min(table.query for table in tables), max(table.query for table in tables)],
        "date": datetime.now(UTC).date().isoformat(),
        "dtype": str(engine.adapter.dtype).removeprefix("torch."),
        "fewer": fewer.__version__,
        "torch": str(torch.__version__),
    }
    return Calibrated(
        format="fewer-entroprefill",
        version=1,
        model=PurePath(facts.name).name,
        fingerprint=facts.fingerprint,
        num_layers=facts.num_layers,
        num_heads=facts.num_heads,
        settings=settings,
        fitted_on=record | reached,
    )
