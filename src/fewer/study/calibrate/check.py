"""Confirmation by generation, on tasks that were not fitted on: the presets and the paper's score beside the full run.

The ratio is sum(arm) / sum(full) over all items, with a cluster-robust interval (Student's t over clusters). With a few
items a task it finds what is broken and proves nothing; a study with a registration does that. Where the full model has
a score of 0 there is no ratio.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fewer.engine import Engine, Request
from fewer.prune import LazyLLM
from fewer.prune.profile import Profile
from fewer.study.item import Item
from fewer.study.metrics import score
from fewer.study.stats.ratio import Ratio
from fewer.study.stats.sample import read_clusters
from fewer.types import Planner, Prompt, Sampling

__all__ = ["PAPER", "check"]

MAX_TOKENS = 64
"""Longest answer; longer ones of a task are cut."""
PAPER = "balanced, paper's score"
"""The arm with the balanced preset's stops and the paper's score."""


def check(
    engine: Engine, profile: Profile, items: Sequence[tuple[Item, Prompt]], progress: Callable[[], None]
) -> dict[str, dict[str, Any]]:
    """By arm: mean score, its ratio to full with an interval (None where there is none), and the share of the prefill's
    token-layers left out. `progress` is called after each item. Raises what the engine raises."""
    arms: dict[str, Planner | None] = {"full": None}
    arms |= {name: LazyLLM(name, profile=profile) for name in profile.presets}
    arms[PAPER] = LazyLLM(profile.presets["balanced"], profile=None)
    scores: dict[str, list[float]] = {name: [] for name in arms}
    left_out: dict[str, list[float]] = {name: [] for name in arms}
    for item, prompt in items:
        sampling = Sampling(max_tokens=min(item.max_tokens, MAX_TOKENS), stop=item.stop)
        outcomes = engine.fan_out([Request(prompt, sampling, planner) for planner in arms.values()])
        for name, outcome in zip(arms, outcomes, strict=True):
            if outcome.answer is None:
                assert outcome.error is not None
                raise outcome.error
            answer = outcome.answer
            rows = answer.receipt.computed.prefill_rows_per_layer
            scores[name].append(score(item.metric, answer.text, item.answers, item.meta))
            left_out[name].append(1 - sum(rows) / (len(prompt) * len(rows)))
        progress()
    clusters = [f"{item.task} {item.cluster}" for item, _ in items]
    return {
        name: {
            "score": round(float(np.mean(scores[name])), 4),
            **({} if name == "full" else _compare(scores[name], scores["full"], clusters)),
            "left_out": round(float(np.mean(left_out[name])), 4),
        }
        for name in arms
    }


def _compare(arm: list[float], full: list[float], clusters: list[str]) -> dict[str, Any]:
    """The ratio of the sums, with its interval at 95%."""
    if not sum(full):
        return {"ratio": None, "interval": None}
    ratio = Ratio.of(np.array(arm), np.array(full), read_clusters(clusters, len(arm)))
    found = ratio.interval(method="t", level=0.95, resamples=10_000, seed=0)
    ends = None if found.lower is None or found.upper is None else [round(found.lower, 4), round(found.upper, 4)]
    return {"ratio": round(ratio.estimate, 4), "interval": ends}
