"""Receipts built from numbers that agree with each other, without a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from fewer.receipt import CertificateRecord, Receipt

Make = Callable[..., Receipt]
Facts = Callable[..., dict[str, Any]]


def with_revival(plain: dict[str, Any], counts: Sequence[int], aux: str = "keep") -> dict[str, Any]:
    """The same receipt with so many tokens brought back at each step, through no layer that it counts."""
    plain["revival"] = {
        "aux": aux,
        "num_revived": sum(counts),
        "revived_per_step": list(counts),
        "active_per_step": [[90, 45 + count] for count in counts],
        "token_layers_revived": 0,
        "aux_bytes": 2048 if aux == "keep" else 0,
    }
    return plain


def with_eviction(
    plain: dict[str, Any], heads: Sequence[int] = (30, 24, 30), sampled: bool = True, turns: int = 1
) -> dict[str, Any]:
    """The same receipt with every layer's heads cut down to so many rows after the prompt, and again and again."""
    size, num_seen = plain["model"]["num_layers"], plain["prompt"]["num_tokens"]
    before, after, records = (num_seen,) * len(heads), tuple(heads), []
    for turn in range(turns):
        total = size * sum(after)
        drawn = [0, 0, 6, 0, 0, 0, 0, 0, 0, 12] if sampled else None
        records.append(
            {
                "num_seen": num_seen + turn,
                "rows_before": [before] * size,
                "rows_after": [after] * size,
                "padding_per_layer": [sum(max(after) - kept for kept in after)] * size,
                "used_bytes_before": 512 * size * sum(before),
                "used_bytes_after": 512 * total,
                "bytes_before": 512 * size * len(before) * max(before),
                "bytes_after": 512 * size * len(after) * max(after),
                "evict_s": 0.0125,
                "num_certain": total - (sum(drawn) if drawn else 0),
                "rows_by_pi": drawn,
                "repeated_tokens": 0,
            }
        )
        before, after = after, tuple(kept - 1 for kept in after)
    name = "systematic:question" if sampled else "question"
    plain["settings"]["evict"] = {
        "name": name,
        "design": "systematic" if sampled else "topk",
        "estimator": "hajek" if sampled else "plug-in",
        "budget.keep": "25%",
        "budget.layers": "uniform",
        "budget.heads": "adaptive",
        "moment": "prompt",
        "every": None,
    }
    share, chunks = sum(before) / (num_seen * len(heads)), plain["prompt"]["chunks"]
    plain["eviction"] = {
        "name": name,
        "compressions": records,
        "most_bytes": records[0]["bytes_before"],
        "rows_per_chunk": [[int(share * each["num_tokens"] * len(heads))] * size for each in chunks],
    }
    plain["seconds"]["evict_s"] = 0.0125 * turns
    plain["memory"]["kv_padding_bytes_per_layer"] = [512 * records[-1]["padding_per_layer"][0]] * size
    return plain


def with_certificate(plain: dict[str, Any], steps: Sequence[float], kind: str = "estimate") -> dict[str, Any]:
    """The same receipt with these radii at its decode steps, the last layer's twice the others'; half of it clipped."""
    size = plain["model"]["num_layers"]
    by_layer = [max(steps[:6])] * (size - 1) + [2 * max(steps[:6])]
    plain["certificate"] = {
        "kind": kind,
        "delta": 0.1,
        "radius": max(steps[:6]),
        "mean": sum(steps) / len(steps),
        "largest": max(steps),
        "per_layer": by_layer,
        "steps": list(steps),
        "clipped": max(steps[:6]) / 2,
        "clipped_per_layer": [radius / 2 for radius in by_layer],
        "clipped_steps": [radius / 2 for radius in steps],
        "assumptions": ["honest draws: the draws are honest", "luck: it has no part in it"],
        "says": "relative error of attention outputs at level 0.1",
    }
    return plain


def make_facts(
    chunks: Sequence[tuple[str, int]] = (("Alpha", 40), ("Beta", 60)),
    num_layers: int = 6,
    kept: Callable[[int, int, int], int] | None = None,
    num_protected: int = 20,
    decode_steps: int = 9,
) -> dict[str, Any]:
    """A whole receipt as plain data. `kept(chunk number, its tokens, layer)` says what the prefill computed."""
    layers = range(1, num_layers + 1)
    keep = kept or (lambda number, tokens, layer: tokens)
    start, parts = 5, []
    for number, (title, tokens) in enumerate(chunks):
        row = [keep(number, tokens, layer) for layer in layers]
        parts.append(
            {
                "title": title,
                "start": start,
                "stop": start + tokens,
                "num_tokens": tokens,
                "kept_per_layer": row,
                "num_revived": 0,
                "revived_per_layer": [0] * num_layers,
            }
        )
        start += tokens
    rows = [num_protected + sum(part["kept_per_layer"][index] for part in parts) for index in range(num_layers)]
    num_tokens = num_protected + sum(tokens for _, tokens in chunks)
    full, done = (num_tokens + decode_steps) * num_layers, sum(rows) + decode_steps * num_layers
    kv = [768 * (row + decode_steps) for row in rows]
    steps = [
        {
            "layer": index + 1,
            "num_kept": rows[index + 1],
            "num_dropped": rows[index] - rows[index + 1],
            "reason": "lowest attention from the last query",
            "released_bytes": 768 * (index + 1) * (rows[index] - rows[index + 1]),
            "bound": None,
            "dual_gap": None,
        }
        for index in range(num_layers - 1)
        if rows[index + 1] < rows[index]
    ]
    return {
        "schema_version": "6",
        "model": {
            "name": "SmolLM2-135M-Instruct",
            "family": "llama",
            "source": "embedded",
            "num_layers": num_layers,
            "num_heads": 9,
            "num_kv_heads": 3,
            "head_dim": 64,
            "hidden_size": 576,
            "num_parameters": 134_515_008,
            "sha256": None,
            "fingerprint": "0123456789abcdef" * 2,
        },
        "run": {
            "device": "cpu",
            "dtype": "bfloat16",
            "weights": "bfloat16",
            "dtype_reason": "measured 2.1 times as fast as float32 here",
            "num_threads": 2,
            "seed": 0,
            "batch_mates": 0,
            "shared_prefill": False,
        },
        "versions": {"fewer": "0.1.0", "torch": "2.13.0", "transformers": "5.24.0", "python": "3.11.9"},
        "prompt": {
            "num_tokens": num_tokens,
            "num_before": 0,
            "num_protected": num_protected,
            "query_len": 11,
            "truncated_tokens": 0,
            "protected_per_layer": [num_protected] * num_layers,
            "chunks": parts,
        },
        "settings": {
            "sampling": {"max_tokens": 64, "temperature": 0.0, "stop": ()},
            "prune": {"name": "lazyllm", "keep": "50%"} if kept else None,
            "evict": None,
        },
        "computed": {
            "token_layers_full": full,
            "token_layers_computed": done,
            "token_layers_repeated": 0,
            "token_layers_skipped": full - done,
            "prefill_rows_per_layer": rows,
            "decode_steps": decode_steps,
        },
        "plans": steps,
        "decisions": [
            {"layer": 1, "outcome": "target not met", "says": "12 of 40 tokens", "numbers": {"saving": 12.0}}
        ],
        "revival": None,
        "eviction": None,
        "bypass": [],
        "seconds": {
            "load_s": 1.25,
            "layout_s": 0.004,
            "queue_s": 0.0,
            "prefill_s": 0.482,
            "evict_s": 0.0,
            "first_token_s": 0.5,
            "per_output_token_s": {"mean": 0.019, "median": 0.018, "max": 0.041} if decode_steps else None,
            "total_s": 1.42,
        },
        "memory": {
            "kv_bytes_per_layer": [count + 768 * 8 for count in kv],
            "kv_used_bytes_per_layer": kv,
            "kv_padding_bytes_per_layer": [0] * num_layers,
            "kv_bytes_full_estimate": [768 * (num_tokens + decode_steps)] * num_layers,
            "kv_total_bytes": sum(kv) + 768 * 8 * num_layers,
            "weights_bytes": 269_030_016,
            "peak_bytes": 1_288_490_189,
            "peak_scope": "process resident set since start",
        },
        "output": {
            "num_tokens": decode_steps + 1,
            "finish_reason": "stop",
            "mean_logprob": -0.31,
            "first_token_margin": 4.2,
            "min_margin": 0.07,
        },
        "certificate": CertificateRecord.none().model_dump(),
        "gate": None,
    }


@pytest.fixture
def facts() -> Facts:
    return make_facts


@pytest.fixture
def make() -> Make:
    return lambda **changes: Receipt.model_validate(make_facts(**changes))


@pytest.fixture
def bring_back() -> Callable[..., dict[str, Any]]:
    return with_revival


@pytest.fixture
def evict() -> Callable[..., dict[str, Any]]:
    return with_eviction


@pytest.fixture
def certify() -> Callable[..., dict[str, Any]]:
    return with_certificate
