"""The rule that loses evidence least often while it saves what is asked for, tested by leaving out one task at a time.

A rule that is chosen for its saving stands at the edge of what its own tasks allow, and fails on others. So the saving
is given, and the choice is by the evidence: of the rules that save enough, first the one that loses it least often,
then the one that would lose it least often one step of the grid bolder in everything, then two steps; of equals the one
with fewer heads, then the one that saves more. Tasks that are left out test the choice; where they contradict the rate,
nothing is chosen. Whether the saving is reached on them is not tested. Nothing here sees a held-out task.

The search is exhaustive over the grid, and over heads as far as `POOL` goes: the best heads alone, all pairs of them,
and the best pairs with a third. It is deterministic.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from fewer.study.calibrate.entroprefill.ledger import RULES, Ledger, find_bolder
from fewer.study.calibrate.entroprefill.prompts import NEEDLES
from fewer.study.calibrate.entroprefill.rule import Heads, Outcome, Rule, judge
from fewer.study.calibrate.entroprefill.tables import Table
from fewer.study.stats.proportions import proportion

__all__ = ["LEVEL", "STEPS", "Failed", "Found", "Goal", "search"]

POOL = 16
"""Heads that are combined: the best by themselves."""
EXTENDED = 6
"""Pairs that are tried with a third head: the best."""
STEPS = (0, 1, 2)
"""How many steps bolder a rule is judged at, in this order."""
DECIMALS = 9
"""Of the shares that are compared."""
LEVEL = 0.95
"""Of the one-sided test (Clopper and Pearson's) whether tasks that were left out contradict the rate."""


@dataclass(frozen=True)
class Goal:
    """saving: the mean share of the prefill's token-layers on the needle tasks (on all, where there are none), a bypass
    counted as 0. rate: in so many of the prompts that prune all evidence has to survive, on all tasks together."""

    saving: float
    rate: float


@dataclass(frozen=True)
class Found:
    """The rule, and what the search that found it does on tasks that it does not see."""

    rule: Rule
    folds: dict[str, Rule]  # by the task that was left out
    crossed: tuple[Outcome, ...]  # each prompt under the rule that was chosen without its task
    num_rules: int  # tried in all


@dataclass(frozen=True)
class Failed:
    """The rate that tasks left out reached; None where no rule saves enough at the rate on all tasks or without one of
    them, or where nothing prunes."""

    reached: float | None


def search(tables: Sequence[Table], num_layers: int, goal: Goal) -> Found | Failed:
    """tables: of the fit tasks, two or more."""
    ledger = Ledger(tables, num_layers)
    rule = _choose(ledger, ledger.all_but(None), goal)
    folds = {task: _choose(ledger, ledger.all_but(task), goal) for task in ledger.tasks}
    found = {task: each for task, each in folds.items() if each is not None}
    if rule is None or len(found) < len(folds):
        return Failed(None)
    crossed = tuple(judge(table, found[table.task], num_layers) for table in tables)
    survives = [float(each.survives) for each in crossed if each.pruned]
    if not survives:
        return Failed(None)
    interval = proportion(survives, None, method="clopper-pearson", level=2 * LEVEL - 1)
    if interval.upper is None or interval.upper < goal.rate:
        return Failed(sum(survives) / len(survives))
    return Found(rule, found, crossed, ledger.num_rules)


def _choose(ledger: Ledger, tasks: NDArray[np.bool_], goal: Goal) -> Rule | None:
    """The best rule on these tasks, or None where none reaches the goal."""
    ranked = np.argsort(-ledger.alone[tasks].sum(axis=0), kind="stable")[:POOL]
    pool = sorted(ledger.heads[place] for place in ranked.tolist())
    singles: list[Heads] = [(head,) for head in pool]
    pairs: list[Heads] = list(combinations(pool, 2))
    ledger.add(singles)
    ledger.add(pairs)
    best = sorted(pairs, key=lambda heads: _rank(ledger, [heads], tasks, goal)[0])[:EXTENDED]
    triples: list[Heads] = [tuple(sorted({*heads, more})) for heads in best for more in pool if more not in heads]
    triples = list(dict.fromkeys(triples))
    ledger.add(triples)
    sets = [*singles, *pairs, *triples]
    key, number, place = _rank(ledger, sets, tasks, goal)
    return Rule(sets[number], *RULES[place]) if key[0] <= round(1 - goal.rate, DECIMALS) else None


def _rank(
    ledger: Ledger, sets: Sequence[Heads], tasks: NDArray[np.bool_], goal: Goal
) -> tuple[tuple[float, ...], int, int]:
    """The best rule of these sets: its key, the smaller the better, and which set and rule it is.

    The key has the share of pruned prompts that lose evidence, as the rule is and as it would be bolder; 2 and more
    where it does not save enough.
    """
    pruned, survived, _ = ledger.totals(sets, tasks)
    lost = np.where(pruned > 0, 1 - survived / np.maximum(pruned, 1), 1.0)
    saving = ledger.totals(sets, _needles(ledger, tasks))[2]
    keys = []
    for steps in STEPS:
        bolder, there = find_bolder(steps)
        keys.append(np.where(there, lost[:, bolder], 1.0))
    short = np.maximum(0.0, goal.saving - saving)
    keys[0] = np.where(short > 0, 2 + short, keys[0])
    count = np.broadcast_to(np.array([len(heads) for heads in sets])[:, None], lost.shape)
    ordered = [np.round(each, DECIMALS).ravel() for each in (*keys, count, -saving)]
    best = int(np.lexsort(ordered[::-1])[0])
    number, place = divmod(best, lost.shape[1])
    return tuple(float(each[best]) for each in ordered), number, place


def _needles(ledger: Ledger, tasks: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Of these tasks the needle tasks, or all where there is none."""
    chosen: NDArray[np.bool_] = tasks & np.array([task in NEEDLES for task in ledger.tasks])
    return chosen if chosen.any() else tasks
