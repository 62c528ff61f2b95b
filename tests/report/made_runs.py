"""Made-up runs as they lie on disk: two needle tasks and three of questions, written without any model."""

from __future__ import annotations

import csv
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fewer.study.files import write_whole
from fewer.study.row import LOG_VERSION, SCHEMA
from fewer.study.shard import open_shard
from fewer.study.spec import Study

TASKS = {  # name: category, metric, how many items share a cluster, how well the full model does
    "needle_words": ("synthetic", "accuracy", 1, 2.4),
    "needle_numbers": ("synthetic", "accuracy", 1, 1.6),
    "contracts": ("single_doc_qa", "qa_f1", 5, 0.4),
    "hotpotqa_distractor": ("multi_hop", "qa_f1", 1, 0.2),
    "nq_multidoc_10": ("multi_doc_qa", "em", 2, 0.9),
}
LENGTHS, DEPTHS = (512, 1024, 2048), (0.0, 0.25, 0.5, 0.75, 1.0)
LOSS = {"static": 0.4, "random": 1.2, "ends": 0.9}


def make_study(**changes: Any) -> Study:
    content: dict[str, Any] = {
        "name": "made-up",
        "title": "How much of the prompt does a small model need?",
        "model": {"path": "tiny-360m", "device": "cpu", "dtype": "float32"},
        "tasks": [
            {"name": name, "lengths": LENGTHS, "depths": DEPTHS} if "needle" in name else {"name": name}
            for name in TASKS
        ],
        "arms": [
            {"name": "full"},
            {"condition": "no_context"},
            {"prune": ["static", "random", "ends"], "keep": ["50%", "25%"]},
        ],
        "seeds": [0, 1, 2],
        "outcomes": [
            {"name": "correct", "at_least": 0.5},
            {"name": "lost by pruning", "below": 0.5, "full_at_least": 0.5},
        ],
        "claims": [
            {
                "id": "C1",
                "statement": "Static pruning to half costs at most 0.1 in score",
                "kind": "difference",
                "arm": "static keep=50%",
                "at_least": -0.1,
                "kill_below": -0.15,
            },
            {
                "id": "C2",
                "statement": "Log-probability ranks what random pruning to a quarter loses",
                "kind": "auc",
                "arm": "random keep=25%",
                "outcome": "correct",
                "signal": "mean_logprob",
                "at_least": 0.7,
                "kill_below": 0.6,
            },
        ],
        "share": False,
    }
    return Study.model_validate(content | changes)


def make_items(num_items: int, tasks: Sequence[str] = tuple(TASKS)) -> list[dict[str, Any]]:
    """About `num_items` items, shared out over the tasks; needles have every length and depth equally often."""
    items = []
    for task in tasks:
        category, metric, mates, level = TASKS[task]
        grid = [(length, depth) for length in LENGTHS for depth in DEPTHS] if "needle" in task else [(None, None)]
        for number in range(max(1, round(num_items / len(tasks)))):
            length, depth = grid[number % len(grid)]
            items.append(
                {
                    "item": f"{task}-{number}",
                    "task": task,
                    "category": category,
                    "metric": metric,
                    "cluster": f"{task}-source-{number // mates}",
                    "asked_length": length,
                    "depth": depth,
                    "level": level,
                }
            )
    return items


def make_rows(
    study: Study, item: Mapping[str, Any], unit: int, rng: np.random.Generator, trouble: bool = True
) -> list[dict[str, Any]]:
    """The rows of one item under every arm and seed."""
    ability = item["level"] + rng.normal()
    ability -= 0.35 * math.log2((item["asked_length"] or 700) / 512)
    num_tokens = int(item["asked_length"] or rng.integers(350, 3000))
    answer = [int(token) for token in rng.integers(0, 5000, 6)]
    rows = []
    for arm in study.expanded:
        keep = float(str(dict(arm.settings).get("keep", "100%")).rstrip("%")) / 100
        for seed in study.seeds if arm.draws else study.seeds[:1]:
            lost = LOSS.get(arm.prune, 0.0) * (1 - keep) * rng.gamma(2.0, 0.5)
            if item["depth"] is not None and arm.prune == "ends":
                lost *= 2 * math.sin(math.pi * item["depth"])
            merit = (-2.5 if arm.condition == "no_context" else ability - 2.2 * lost) + 0.3 * rng.normal()
            right = 1 / (1 + math.exp(-2.5 * merit))
            graded = item["metric"] == "qa_f1"
            score = (
                float(np.clip(round(right + 0.1 * rng.normal(), 3), 0, 1)) if graded else float(rng.random() < right)
            )
            chance = rng.random() if trouble else 1.0
            status = "ok"
            if num_tokens > 2950:
                status = "refused"
            elif chance < 0.004:
                status = "failed"
            elif chance < 0.012 and arm.prune != "none":
                status = "bypassed"
            rows.append(
                make_row(study, item, unit, arm, seed)
                | fill_row(status, score, lost, keep, num_tokens, answer, arm.condition, study.share, rng)
            )
    return rows


def fill_row(
    status: str,
    score: float,
    lost: float,
    keep: float,
    num_tokens: int,
    answer: list[int],
    condition: str,
    share: bool,
    rng: np.random.Generator,
) -> dict[str, Any]:
    """What was measured on an answer."""
    reasons = {
        "refused": "the prompt has more tokens than the model has positions",
        "failed": "NonFiniteError: layer 7 produced NaN",
        "bypassed": "the prompt is shorter than the window",
    }
    base = {"status": status, "reason": reasons.get(status)}
    if status in ("refused", "failed"):
        return base | {"score": 0.0, "num_tokens": num_tokens}
    kept = 1.0 if status == "bypassed" else keep
    tokens = 40 if condition == "no_context" else num_tokens
    sure = 0.8 * score - 1.1 + 0.25 * rng.normal()
    agrees = 1.0 if lost == 0 and condition == "aware" else round(float(rng.integers(0, 7)) / 6, 4)
    computed = 1.0 if kept == 1.0 else 0.34 + 0.66 * kept
    seconds = (0.02 + tokens * computed * 4e-4) * float(rng.lognormal(0, 0.08))
    return base | {
        "score": score,
        "num_tokens": tokens,
        "num_protected": min(40, tokens),
        "truncated_tokens": 0,
        "num_chunks": 0 if condition == "no_context" else 10,
        "text": "the answer",
        "ids": answer,
        "finish_reason": "eos",
        "num_new_tokens": len(answer),
        "same_text": agrees == 1.0,
        "agreement": agrees,
        "first_margin": abs(float(rng.normal(2 + score, 0.8))),
        "min_margin": abs(float(rng.normal(0.6 + 0.7 * score, 0.3))),
        "mean_logprob": min(-0.01, sure),
        "nll": 1.2 + 0.5 * lost + (1.5 if condition == "no_context" else 0.0) + 0.1 * float(rng.normal()),
        "nll_tokens": 4,
        "computed_fraction": computed,
        "kept_fraction": kept,
        "supporting_kept": float(np.clip(kept + 0.3 * rng.normal(), 0, 1)) if condition == "aware" else None,
        "kv_bytes": int(20_000 * tokens * kept),
        "kv_bytes_full": 20_000 * tokens,
        "shared": share,
        "batch_mates": 0,
        "prefill_s": seconds,
        "first_token_s": seconds + 0.002,
        "per_output_token_s": 0.021,
        "total_s": seconds + 0.021 * len(answer),
        "receipt": "{}",
    }


def make_row(study: Study, item: Mapping[str, Any], unit: int, arm: Any, seed: int) -> dict[str, Any]:
    """A row of the schema with nothing measured yet."""
    row: dict[str, Any] = dict.fromkeys(SCHEMA.names)
    row |= {name: item[name] for name in ("item", "task", "category", "cluster", "metric", "asked_length", "depth")}
    row |= ENVIRONMENT | {
        "log_version": LOG_VERSION,
        "study": study.name,
        "study_sha256": study.sha256,
        "cell": sha_of(f"{item['item']}|{arm.name}|{seed}"),
        "unit": unit,
        "item_sha256": sha_of(item["item"]),
        "arm": arm.name,
        "prune": arm.prune,
        "evict": arm.evict,
        "condition": arm.condition,
        "settings": json.dumps(dict(arm.settings)),
        "keep": dict(arm.settings).get("keep"),
        "seed": seed,
        "ended": "2026-11-30T08:00:00Z",
    }
    return row


ENVIRONMENT = {
    "model": "tiny-360m",
    "model_sha256": "ab" * 32,
    "device": "cpu",
    "dtype": "float32",
    "weights": "float32",
    "num_threads": 2,
    "fewer": "0.2.0",
    "torch": "2.13.0",
    "transformers": "5.24.0",
    "python": "3.11.9",
}


def make_header(study: Study, items: Sequence[Mapping[str, Any]], **changes: Any) -> dict[str, Any]:
    """As the runner writes it."""
    return {
        "log_version": LOG_VERSION,
        "study": study.model_dump(mode="json"),
        "study_sha256": study.sha256,
        "environment": ENVIRONMENT,
        "setting": {
            "chat_template": True,
            "end_tokens": ["<|im_end|>"],
            "max_positions": 3000,
            "truncation": "none: too long is refused",
            "sinks": 4,
            "observation_window": "the last token of the prompt",
            "decoding": "greedy",
            "max_tokens": "each item's own",
            "share": study.share,
        },
        "units": [[item["item"], sha_of(item["item"]), item["task"], 700] for item in items],
        "left_out": {"contracts": 3, "nq_multidoc_10": 0},
        "num_cells": sum(len(study.seeds) if arm.draws else 1 for arm in study.expanded),
        "registration": {
            "kind": "registered",
            "sentence": "Registered 0123456789ab...: this run matches.",
            "differences": [],
            "notes": [],
            "registered_at": "2026-11-29T12:00:00Z",
            "sha256": "0123456789ab" + "0" * 52,
        },
        "started": "2026-11-30T08:00:00+00:00",
    } | changes


def sha_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def write_run(
    folder: Path,
    *,
    study: Study | None = None,
    num_items: int = 100,
    seed: int = 0,
    items: Sequence[Mapping[str, Any]] | None = None,
    header: Mapping[str, Any] | None = None,
    keep_row: Any = None,
    change_row: Any = None,
) -> Path:
    """Write a run. `keep_row` says which rows stay, `change_row` gives what is different in one."""
    study = study or make_study()
    items = make_items(num_items) if items is None else items
    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / "run.json", json.dumps(make_header(study, items, **(header or {}))))
    with open_shard(folder, 0, 1) as shard:
        for unit, item in enumerate(items):
            rows = make_rows(study, item, unit, rng)
            rows = [row | (change_row(row) if change_row else {}) for row in rows if not keep_row or keep_row(row)]
            if rows:
                shard.append(unit, rows)
        shard.seal()
    return folder


def read_sheet(path: Path) -> list[dict[str, str]]:
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))
