"""What is written down about a rule: how often the evidence survived, and what was saved, by task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fewer.study.calibrate.entroprefill.prompts import NEEDLES
from fewer.study.calibrate.entroprefill.rule import Outcome
from fewer.study.calibrate.entroprefill.search import LEVEL
from fewer.study.stats.proportions import proportion

__all__ = ["summarise", "summarise_all"]


def summarise(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """n prompts, how many prune, and in how many of these all evidence survives; None for shares of nothing.

    survives_at_least: the lower end of Clopper and Pearson's interval, one-sided at `LEVEL`, over prompts as draws from
    these tasks, independent of each other; it says nothing about other tasks. saving: the mean share of the prefill's
    token-layers left out, a bypass counted as 0. documents: the mean share of the document tokens that left, where any
    did.
    """
    pruned = [each for each in outcomes if each.pruned]
    survives = [float(each.survives) for each in pruned]
    interval = proportion(survives, None, method="clopper-pearson", level=2 * LEVEL - 1) if pruned else None
    return {
        "n": len(outcomes),
        "pruned": len(pruned),
        "survives": int(sum(survives)),
        "survives_rate": round(sum(survives) / len(pruned), 4) if pruned else None,
        "survives_at_least": None if interval is None or interval.lower is None else round(interval.lower, 4),
        "saving": round(float(np.mean([each.saving for each in outcomes])), 4) if outcomes else None,
        "documents": round(float(np.mean([each.documents for each in pruned])), 4) if pruned else None,
    }


def summarise_all(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Of all, of needles, of the other tasks, and of each task."""
    tasks = dict.fromkeys(each.task for each in outcomes)
    return {
        "all": summarise(outcomes),
        "needles": summarise([each for each in outcomes if each.task in NEEDLES]),
        "questions": summarise([each for each in outcomes if each.task not in NEEDLES]),
        "tasks": {task: summarise([each for each in outcomes if each.task == task]) for task in tasks},
    }
