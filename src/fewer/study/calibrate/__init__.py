"""Calibration: which heads of a model point at the tokens that an answer needs, as a profile for `LazyLLM`.

    items.py     prompts, and the tokens their answers need
    capture.py   what every head looks at, from one full prefill a prompt
    recall.py    how well a score points at the labels
    half.py      one half of the prompts
    fitting.py   window, layers and heads, chosen on one half of the prompts and reported on the other
    check.py     confirmation by generation, on other tasks

What it does in plain words is in docs/calibration.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path, PurePath

import torch

import fewer
from fewer.engine import Engine
from fewer.errors import bad
from fewer.prune.profile import Head, Profile, Score
from fewer.study.calibrate.capture import Seen, capture
from fewer.study.calibrate.check import PAPER, check
from fewer.study.calibrate.fitting import Gate, fit
from fewer.study.calibrate.items import CHECK_TASKS, FIT_TASKS, gather, lay_out_all, make_items, name_tasks
from fewer.study.tasks.generate import GENERATORS
from fewer.types.number import check_number

__all__ = ["CHECK_TASKS", "FIT_TASKS", "LENGTH", "PAPER", "SEED", "calibrate", "make_presets"]

LENGTH = 1024
"""Tokens of a generated prompt."""
SEED = 101
"""Of the prompts. Studies begin at 0, so that their items are others."""


def calibrate(
    engine: Engine,
    *,
    tasks: Sequence[str] | None = None,
    data: str | Path | None = None,
    length: int | None = None,
    num_prompts: int = 32,
    seed: int = SEED,
    check_items: int = 8,
    progress: Callable[[str, int, int], None] | None = None,
) -> Profile:
    """Find the heads of this engine's model that point at what answers need.

    tasks: generators or tasks of the folder `data`, whose items say which chunks support the answer; None is all of the
    folder, or `FIT_TASKS`. length: of generated prompts in tokens, 1,024 unless given. num_prompts: in all, at
    least two a task. check_items: of each of `CHECK_TASKS` that was not fitted on, answered in full and with every
    preset afterwards; 0 for none. progress: called with (what, done, total).

    Raises BadInput for settings out of range, for tasks without labels, and where no head points at the answers;
    PromptTooLong where the prompts do not fit the model. The same input on the same machine gives the same profile.
    Not covered: prompts whose question comes first, other languages than the tasks', and lengths far from those fitted.
    """
    chosen = name_tasks(tasks, data)
    check_number("num_prompts", num_prompts, int, 2 * len(chosen), None, f"Two for each of the {len(chosen)} tasks.")
    check_number("check_items", check_items, int, 0, None, "Use 0 to check nothing.")
    check_number("seed", seed, int, 0, None, "Leave it out.")
    others = [task for task in CHECK_TASKS if task not in chosen] if check_items else []
    if check_items and not others:
        raise bad("check_items", check_items, "0, since every task to check on is fitted on", "Fit on fewer tasks.")
    if length is not None and not others and not set(chosen) & set(GENERATORS):
        raise bad("length", length, "left out, since no prompt is generated", "A folder's prompts have their own.")
    size = LENGTH if length is None else length
    tell = progress or (lambda what, done, total: None)

    labelled = gather(engine, chosen, data, length=size, num_prompts=num_prompts, seed=seed)
    asked = lay_out_all(
        engine,
        [
            item
            for task in others
            for item in make_items(engine, task, None, length=size, num_items=check_items, seed=seed)
        ],
    )
    seen: list[Seen] = []
    for prompt in labelled:
        tell("Reading prompts", len(seen), len(labelled))
        seen.append(capture(engine, prompt))
    tell("Choosing heads", len(labelled), len(labelled))
    facts = engine.adapter.facts
    found = fit(seen, facts)
    record = {
        "tasks": {task: sum(each.task == task for each in seen) for task in chosen},
        "tokens": [min(each.size for each in seen), max(each.size for each in seen)],
        "length": size,
        "seed": seed,
        "num_prompts": len(seen),
        "dtype": str(engine.adapter.dtype).removeprefix("torch."),
        "best_head": list(found.best),
        "recall_random": round(found.random, 4),
        "recall_by_place": round(found.place, 4),
        "gates": [gate.describe() for gate in found.gates],
        "fewer": fewer.__version__,
        "torch": str(torch.__version__),
    }
    profile = Profile(
        format="fewer-profile",
        version=1,
        model=PurePath(facts.name).name,
        fingerprint=facts.fingerprint,
        num_layers=facts.num_layers,
        num_heads=facts.num_heads,
        before=found.before,
        after=found.after,
        scores=tuple(_score(gate) for gate in found.gates),
        presets=make_presets([gate.layer for gate in found.gates]),
        fitted_on=record,
    )
    if not asked:
        return profile
    done = iter(range(1, len(asked) + 1))
    tell("Checking", 0, len(asked))
    arms = check(engine, profile, asked, lambda: tell("Checking", next(done), len(asked)))
    checked = {"tasks": dict.fromkeys(others, check_items), "length": size, "seed": seed, "arms": arms}
    return profile.model_copy(update={"fitted_on": record | {"checked": checked}})


def make_presets(layers: Sequence[int]) -> dict[str, str]:
    """Schedules by name, for gates after one layer or two; fractions are of the whole prompt."""
    shares = {"mild": (55, 35), "balanced": (35, 20), "aggressive": (20, 12)}
    return {
        name: ", ".join(f"{layer}:{share}%" for layer, share in zip(layers, of_gates, strict=False))
        for name, of_gates in shares.items()
    }


def _score(gate: Gate) -> Score:
    return Score(layer=gate.layer, heads=tuple(Head(layer=layer, head=head) for layer, head in gate.heads))
