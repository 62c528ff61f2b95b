"""The rule that loses evidence least often while it saves what is asked for, tested by leaving out one task at a time.

A rule that is chosen for its saving stands at the edge of what its own tasks allow, and fails on others. So the saving
is given, on needles, and the choice is by the evidence: of the rules that save enough and reach the rate, the one with
the fewest losses, where a prompt of another task that prunes counts as `PRIOR` of a loss more, whatever becomes of its
evidence: tasks that were not seen lose it more often than those that were. Of equals the one with fewer heads, then the
one that saves more. Tasks that are left out test the choice; where they contradict the rate, nothing is chosen. Whether
the saving is reached on them is not tested. Nothing here sees what is only reported.

The search is exhaustive over the grid, and over heads as far as `POOL` goes: the best heads alone, and each of them
with every other head of the layers that were looked at. It is deterministic.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fewer.study.calibrate.entroprefill.ledger import RULES, Ledger
from fewer.study.calibrate.entroprefill.prompts import NEEDLES
from fewer.study.calibrate.entroprefill.rule import Heads, Outcome, Rule, judge
from fewer.study.calibrate.entroprefill.tables import Table
from fewer.study.stats.proportions import proportion

__all__ = ["LEVEL", "PRIOR", "Failed", "Found", "Goal", "search"]

POOL = 2
"""Heads that lead: the best by themselves. Each is tried alone, and with every other head."""
PRIOR = 0.05
"""What a prompt outside the needles counts for that prunes."""
DECIMALS = 9
"""Of the shares that are compared."""
_SHORT = 1e6  # more than losses can be
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
    leading = [ledger.heads[place] for place in ranked.tolist()]
    singles: list[Heads] = [(head,) for head in leading]
    pairs: list[Heads] = [tuple(sorted((head, more))) for head in leading for more in ledger.heads if more != head]
    pairs = list(dict.fromkeys(pairs))
    ledger.add(singles)
    ledger.add(pairs)
    sets = [*singles, *pairs]
    key, number, place = _rank(ledger, sets, tasks, goal)
    return Rule(sets[number], *RULES[place]) if key[0] < _SHORT else None


def _rank(
    ledger: Ledger, sets: Sequence[Heads], tasks: NDArray[np.bool_], goal: Goal
) -> tuple[tuple[float, ...], int, int]:
    """The best rule of these sets: its key, the smaller the better, and which set and rule it is.

    The key begins with the losses, `_SHORT` and more where the rule does not save enough or loses evidence too often.
    """
    needles = _needles(ledger, tasks)
    pruned, survived, _ = ledger.totals(sets, tasks)
    pruned_needles, _, saving = ledger.totals(sets, needles)
    losses = pruned - survived
    score = losses + PRIOR * (pruned - pruned_needles)
    often = np.round(losses / np.maximum(pruned, 1), DECIMALS) > round(1 - goal.rate, DECIMALS)
    score = np.where(often | (pruned == 0), _SHORT + losses, score)
    short = np.maximum(0.0, goal.saving - saving)
    score = np.where(short > 0, 2 * _SHORT + short, score)
    count = np.broadcast_to(np.array([len(heads) for heads in sets])[:, None], losses.shape)
    ordered = [np.round(each, DECIMALS).ravel() for each in (score, count, -saving)]
    best = int(np.lexsort(ordered[::-1])[0])
    number, place = divmod(best, losses.shape[1])
    return tuple(float(each[best]) for each in ordered), number, place


def _needles(ledger: Ledger, tasks: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Of these tasks the needle tasks, or all where there is none."""
    chosen: NDArray[np.bool_] = tasks & np.array([task in NEEDLES for task in ledger.tasks])
    return chosen if chosen.any() else tasks
