"""One row of a run's log: one item under one arm and seed. The schema is the published interface of the logs.

Numbers carry their unit in the name; `_s` is seconds. A refused or failed answer has a row too: its score is 0, its
`status` and `reason` say why, and it stays in every denominator. Columns of `LATER` came when there were logs already:
they are null in rows that were written before them, and are no new version.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

__all__ = ["LATER", "LOG_VERSION", "SCHEMA", "STATUSES", "read_table", "to_table"]

LOG_VERSION = "1"
STATUSES = {
    "ok": "answered, and what the arm asks for was done",
    "bypassed": "answered by a full run, since the arm's method declined; the reason says why",
    "refused": "not run: the prompt does not fit into the model's positions",
    "failed": "an error while running; the reason is its message",
}

_TEXT, _INT, _FLOAT, _BOOL = pa.string(), pa.int64(), pa.float64(), pa.bool_()

SCHEMA = pa.schema(
    [
        ("log_version", _TEXT),
        ("study", _TEXT),
        ("study_sha256", _TEXT),
        ("cell", _TEXT),  # SHA-256 over item, arm and seed: unique in a run
        ("unit", _INT),  # the item's number in the run's order
        ("item", _TEXT),
        ("item_sha256", _TEXT),
        ("task", _TEXT),
        ("category", _TEXT),
        ("cluster", _TEXT),
        ("metric", _TEXT),
        ("arm", _TEXT),
        ("prune", _TEXT),
        ("evict", _TEXT),
        ("condition", _TEXT),  # "stream" where the cache was compressed before the question was read
        ("settings", _TEXT),  # JSON: the planner's and the policy's settings
        ("keep", _TEXT),  # of the settings keep and budget, as written; null where the arm has none
        ("seed", _INT),
        ("status", _TEXT),
        ("reason", _TEXT),  # null where status is ok
        ("asked_length", _INT),  # of generated items: tokens of the prompt that were asked for
        ("depth", _FLOAT),  # where the needle lies, 0 to 1
        ("num_tokens", _INT),  # of the prompt that was run
        ("num_protected", _INT),
        ("truncated_tokens", _INT),
        ("num_chunks", _INT),
        ("text", _TEXT),  # the answer
        ("ids", pa.list_(pa.int32())),
        ("finish_reason", _TEXT),
        ("num_new_tokens", _INT),
        ("score", _FLOAT),  # 0 to 1 by the metric; 0 where nothing came
        ("same_text", _BOOL),  # as the full run's answer
        ("agreement", _FLOAT),  # of the full run's tokens: the share before the first different one
        ("first_margin", _FLOAT),  # nats between the likeliest and the second token, at the first step
        ("min_margin", _FLOAT),  # the smallest over the answer's tokens
        ("mean_logprob", _FLOAT),  # nats a token, of the answer
        ("nll", _FLOAT),  # nats a token, of the first reference answer
        ("nll_tokens", _INT),
        ("computed_fraction", _FLOAT),  # token-layers computed in the prefill over tokens x layers
        ("kept_fraction", _FLOAT),  # tokens that reached the last layer over tokens
        ("supporting_kept", _FLOAT),  # the same, of the supporting chunks' tokens; null where none is labelled
        ("kv_bytes", _INT),  # held at the answer's end, with the rows reserved for tokens that may come
        ("kv_bytes_full", _INT),
        ("kv_used_bytes", _INT),  # of kv_bytes: the rows that are there, with what fills up shorter heads
        ("kv_kept_fraction", _FLOAT),  # rows held once the prompt was read, of a full run's; null unless the arm evicts
        ("supporting_rows", _FLOAT),  # of the supporting chunks' rows, held at the end; null unless the arm evicts
        ("kv_most_bytes", _INT),  # the most held before or after a compression; null where there was none
        ("evict_s", _FLOAT),  # compressing; null unless the arm evicts
        ("certificate", _FLOAT),  # the largest of the first six steps, each a mean over layers and heads; or null
        ("certificate_mean", _FLOAT),  # the mean over all steps
        ("certificate_largest", _FLOAT),  # the largest of all steps
        ("certificate_median", _FLOAT),  # from here to logprob_min, signals: larger = more doubt; see docs/signals.md
        ("certificate_clipped", _FLOAT),
        ("certificate_question", _FLOAT),
        ("certificate_question_median", _FLOAT),
        ("certificate_question_clipped", _FLOAT),
        ("entropy", _FLOAT),
        ("entropy_question", _FLOAT),
        ("evicted_mass", _FLOAT),
        ("boundary_margin", _FLOAT),
        ("logprob", _FLOAT),
        ("logprob_min", _FLOAT),
        ("radii", _TEXT),  # JSON: of question rows and steps, over the heads of each layer; see docs/signals.md
        ("shared", _BOOL),  # the prefill shared layers with other arms: prefill_s is a sum of measured parts
        ("batch_mates", _INT),  # others in the same steps, at most; they slow its decoding
        ("prefill_s", _FLOAT),
        ("first_token_s", _FLOAT),
        ("per_output_token_s", _FLOAT),  # the median
        ("total_s", _FLOAT),
        ("receipt", _TEXT),  # JSON; null where there is none
        ("model", _TEXT),
        ("model_sha256", _TEXT),
        ("device", _TEXT),
        ("dtype", _TEXT),
        ("weights", _TEXT),
        ("num_threads", _INT),
        ("fewer", _TEXT),
        ("torch", _TEXT),
        ("transformers", _TEXT),
        ("python", _TEXT),
        ("ended", _TEXT),  # UTC, ISO 8601
    ]
)


LATER = (
    "kv_used_bytes",
    "kv_kept_fraction",
    "supporting_rows",
    "kv_most_bytes",
    "evict_s",
    "certificate",
    "certificate_mean",
    "certificate_largest",
    "certificate_median",
    "certificate_clipped",
    "certificate_question",
    "certificate_question_median",
    "certificate_question_clipped",
    "entropy",
    "entropy_question",
    "evicted_mass",
    "boundary_margin",
    "logprob",
    "logprob_min",
    "radii",
)


def to_table(rows: list[dict[str, Any]]) -> pa.Table:
    """Rows as a table of the schema. A missing key, an unknown one or a wrong type is an error (ArrowInvalid)."""
    names = set(SCHEMA.names)
    for row in rows:
        if set(row) != names:
            raise pa.ArrowInvalid(f"a row differs from the schema in {sorted(set(row) ^ names)}")
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def read_table(found: list[Mapping[str, Any]] | pa.Table) -> pa.Table:
    """Stored rows as a table of the schema, null for columns of `LATER` that they lack. Errors are as of `to_table`.

    A table with further columns loses them; one that lacks another column is a KeyError.
    """
    if not isinstance(found, pa.Table):
        return to_table([dict.fromkeys(LATER) | dict(row) for row in found])
    for name in LATER:
        if name not in found.column_names:
            found = found.append_column(name, pa.nulls(found.num_rows, SCHEMA.field(name).type))
    return found.select(SCHEMA.names).cast(SCHEMA)
