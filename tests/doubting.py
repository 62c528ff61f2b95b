"""A made-up study of sessions and its rows: certificates that know what the cache broke, and others that do not."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa

from fewer.study.answers import ByItem, read_answers
from fewer.study.cells import list_cells
from fewer.study.estimate import COLUMNS
from fewer.study.row import SCHEMA, to_table
from fewer.study.sessions.places import Place, find_places
from fewer.study.spec import Study

TASKS = ("keys", "values")
BROKEN = {"50%": 0.3, "25%": 0.5}
POISSON = [f"poisson:snapkv budget=25% seed={seed} moment=context" for seed in (0, 1)]
PIVOTAL = [f"pivotal:snapkv budget={budget} moment=context" for budget in BROKEN]
TOPK = [f"snapkv budget={budget} moment=context" for budget in BROKEN]
OUTCOMES = [
    {"name": "right", "at_least": 0.5},
    {"name": "wrong", "below": 0.5},
    {"name": "induced", "below": 0.5, "full_at_least": 0.5},
    {"name": "inherent", "below": 0.5, "full_below": 0.5},
]


def make_study(*claims: dict[str, Any], **changes: Any) -> Study:
    """Two tasks; top-k, fixed-size and Poisson in the stream condition, the latter with two draws."""
    content: dict[str, Any] = {
        "name": "sessions-made-up",
        "tasks": [{"name": task} for task in TASKS],
        "arms": [
            {"name": "full"},
            {"condition": "no_context"},
            {"evict": ["snapkv", "pivotal:snapkv"], "budget": list(BROKEN), "moment": "context"},
            {"evict": "poisson:snapkv", "budget": "25%", "seed": [0, 1], "moment": "context"},
        ],
        "signals": ["agreement", "margins", "evidence"],
        "outcomes": OUTCOMES,
        "claims": list(claims),
    }
    return Study.model_validate(content | changes)


def make_rows(study: Study, num_items: int = 60, seed: int = 0, missing: float = 0.0, radii: bool = False) -> pa.Table:
    """A finished run. The full run fails .4 of the items; a share `missing` of the answers has no certificate.

    radii: those of six layers, which know nothing.
    """
    rng, rows = np.random.default_rng(seed), []
    cells = [(cell, next(iter(cell.arm.budgets), None)) for cell in list_cells(study)]
    for unit in range(num_items):
        task, full = TASKS[unit % 2], float(rng.random() < 0.6)
        for cell, budget in cells:
            known = ":" in cell.arm.evict
            broken = budget is not None and rng.random() < BROKEN[budget]
            score = 0.0 if broken or cell.arm.condition == "no_context" else full
            doubt = BROKEN.get(budget or "", 0.0) + (0.4 if broken else 0.0) + 0.2 * rng.normal()
            rows.append(
                dict.fromkeys(SCHEMA.names)
                | {
                    "cell": f"{unit}/{cell.arm.name}/{cell.seed}",
                    "unit": unit,
                    "item": f"{task}/{unit}",
                    "item_sha256": f"{unit:064d}",
                    "task": task,
                    "category": "synthetic",
                    "cluster": f"source {unit // 4}",
                    "arm": cell.arm.name,
                    "prune": "none",
                    "evict": cell.arm.evict,
                    "condition": cell.arm.condition,
                    "keep": budget,
                    "seed": cell.seed,
                    "status": "ok",
                    "score": score,
                    "ids": rng.integers(0, 3, 4).tolist(),
                    "num_tokens": 100,
                    "num_new_tokens": 4,
                    "mean_logprob": -0.5 - (0.3 if score == 0 else 0.0) + 0.2 * rng.normal(),
                    "first_margin": float(rng.random()),
                    "min_margin": float(rng.random()),
                    "certificate": doubt if known and rng.random() >= missing else None,
                    "radii": _draw_radii(rng) if radii and known else None,
                    "shared": True,
                    "model_sha256": None,
                }
            )
    return to_table(rows)


def _draw_radii(rng: np.random.Generator) -> str:
    parts = {"question": 3, "answer": 4}
    heads = ("mean", "median", "largest")
    return json.dumps({part: {one: rng.random((6, n)).tolist() for one in heads} for part, n in parts.items()})


def answers_of(rows: pa.Table) -> dict[str, ByItem]:
    """As claims read them."""
    return read_answers(rows, COLUMNS)


def places_of(study: Study, rows: pa.Table) -> dict[tuple[str, str], Place]:
    """By policy and budget."""
    return {(place.policy, place.budget): place for place in find_places(study.expanded, answers_of(rows))}
