"""What prefilling, decoding and storing cost on a machine: measured now, or read from an earlier run's rows.

Rates belong to one model, dtype, device and number of threads. Not covered: loading the model, tokenising and scoring
answers, which are small beside the model's work, and machines that do other work at the same time.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from statistics import mean, median
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict

from fewer.errors import bad
from fewer.study.environment import describe_environment
from fewer.study.fit import Fit, fit_seconds
from fewer.study.folder import Run
from fewer.study.row import SCHEMA
from fewer.types import Chunk, Prompt, Sampling

if TYPE_CHECKING:
    from fewer.engine import Answer, Engine

__all__ = ["Rates", "measure_rates", "rates_from_run"]

PREFILL_TERMS = ("tokens", "tokens squared")
STEP_TERMS = ("steps", "tokens chosen", "keys read")
_LONGEST = 2048  # tokens of the longest prompt measured, unless lengths are given
_MOST = 200  # rows of an earlier run that are looked at
_FEW, _MANY = 1, 9  # chunks, to see what one adds to a row


class Rates(BaseModel):
    """Costs on one machine, with the measurements behind them."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    source: str
    """Where they come from."""
    model: str
    device: str
    dtype: str
    weights: str
    num_threads: int
    num_layers: int
    max_positions: int | None
    prefill: Fit
    """Seconds of a whole prompt of so many tokens through all layers: a x tokens + b x tokens squared."""
    step: Fit | None
    """Seconds of decoding: by steps, tokens chosen in them, and keys read; None where no answer had two tokens."""
    kv_bytes_per_token: float
    """Keys and values of all layers."""
    weights_bytes: int
    overhead_bytes: int
    """The process's highest memory use beyond weights, keys and values, at the longest prompt."""
    row_bytes: float
    """One row of the log as JSON, before it is compressed."""
    chunk_bytes: float
    """What every chunk of the prompt adds to a row; 0 where it is in row_bytes."""
    new_tokens: dict[str, float] = {}
    """Tokens of an answer by task, on average, where answers were seen."""


def measure_rates(
    engine: Engine,
    *,
    lengths: Sequence[int] = (),
    together: int = 4,
    steps: int = 8,
    repeats: int = 2,
    seed: int = 0,
) -> Rates:
    """Measure this machine on random tokens: prompts of some `lengths`, answered alone and `together` times at once.

    Without `lengths` they are an eighth, a quarter, a half and the whole of 2,048 tokens, or of what the model has room
    for. Each is measured `repeats` times over `steps` decoding steps, after a warm-up. Raises BadInput for settings
    below 1 and lengths that do not fit.
    """
    for name, value in (("together", together), ("steps", steps), ("repeats", repeats)):
        if value < 1:
            raise bad(name, value, "at least 1", "Leave it out for the usual.")
    room = engine.adapter.max_positions - steps - 1
    longest = min(_LONGEST, room)
    lengths = sorted(lengths or {max(1, longest // part) for part in (8, 4, 2, 1)})
    if lengths[0] < 1 or lengths[-1] > room:
        legal = f"from 1 to {room}, what the model has room for with {steps} steps"
        raise bad("lengths", lengths, legal, "Leave them out for the usual ones.")
    sizes = []
    for num_chunks in (_FEW, _MANY):  # these warm up as well
        prompt = _random_prompt(engine, max(lengths[0], _MANY + 1), num_chunks, seed)
        sizes.append(_row_bytes(_answer(engine, prompt, together, steps)[0]))
    prefill: list[tuple[Sequence[float], float]] = []
    step: list[tuple[Sequence[float], float]] = []
    for length in lengths:
        for count in sorted({1, together}):
            for repeat in range(repeats):
                prompt = _random_prompt(engine, length, _FEW, seed + repeat)
                last = _answer(engine, prompt, count, steps)[0].receipt
                seconds = last.seconds
                prefill.append(((length, length**2), seconds.prefill_s))
                if seconds.per_output_token_s is not None:
                    step.append(((1, count, count * (length + steps / 2)), seconds.per_output_token_s.median))
    memory, adapter = last.memory, engine.adapter
    kv_bytes = 2 * adapter.num_kv_heads * adapter.head_dim * adapter.dtype.itemsize * adapter.num_layers
    held = kv_bytes * (together + 1) * lengths[-1]
    setting = {name: describe_environment(engine)[name] for name in ("model", "device", "dtype", "weights")}
    return Rates(
        source=f"measured on random tokens, prompts of {', '.join(f'{length:,}' for length in lengths)} tokens",
        **setting,
        num_threads=last.run.num_threads,
        num_layers=adapter.num_layers,
        max_positions=adapter.max_positions,
        prefill=fit_seconds(PREFILL_TERMS, prefill),
        step=fit_seconds(STEP_TERMS, step) if step else None,
        kv_bytes_per_token=kv_bytes,
        weights_bytes=memory.weights_bytes,
        overhead_bytes=max(0, memory.peak_bytes - memory.weights_bytes - held),
        row_bytes=sizes[0],
        chunk_bytes=max(0.0, (sizes[1] - sizes[0]) / (_MANY - _FEW)),
    )


def rates_from_run(run: Run) -> Rates:
    """Rates from the rows of an earlier run, at most 200 of its items, spread evenly over it.

    Prefill is that of the full arm; decoding that of all. Raises BadInput where no full answer is whole.
    """
    rows = [row for row in run.rows.to_pylist() if row["status"] in ("ok", "bypassed") and row["receipt"]]
    full = [row for row in rows if row["arm"] == "full" and row["prefill_s"]]
    if not full:
        raise bad("the run's full answers", 0, "at least one that is ok", "Measure this machine instead.")
    every = -(-len(full) // _MOST)
    units = {row["unit"] for row in full[::every]}
    sample = [row for row in rows if row["unit"] in units]
    groups: dict[Any, list[dict[str, Any]]] = defaultdict(list)
    for row in sample:
        groups[row["unit"], row["condition"], None if row["shared"] else row["cell"]].append(row)
    step = [point for group in groups.values() if (point := _step_point(group))]
    receipts = [json.loads(row["receipt"]) for row in sample]
    per_token = median(row["kv_bytes_full"] / (row["num_tokens"] + max(0, row["num_new_tokens"] - 1)) for row in full)
    held = max(sum(map(_kept, group)) + group[0]["num_tokens"] for group in groups.values())
    weights = max(receipt["memory"]["weights_bytes"] for receipt in receipts)
    answers: dict[str, list[int]] = defaultdict(list)
    for row in rows:
        answers[row["task"]].append(row["num_new_tokens"])
    return Rates(
        source=f"from the run {run.folder.name}, {len(units)} items",
        **{name: full[0][name] for name in ("model", "device", "dtype", "weights", "num_threads")},
        num_layers=receipts[0]["model"]["num_layers"],
        max_positions=run.header.get("setting", {}).get("max_positions"),
        prefill=fit_seconds(
            PREFILL_TERMS,
            [((row["num_tokens"], row["num_tokens"] ** 2), row["prefill_s"]) for row in full if row["unit"] in units],
        ),
        step=fit_seconds(STEP_TERMS, step) if step else None,
        kv_bytes_per_token=per_token,
        weights_bytes=weights,
        overhead_bytes=max(
            0, max(receipt["memory"]["peak_bytes"] for receipt in receipts) - weights - round(per_token * held)
        ),
        row_bytes=mean(len(json.dumps(row)) for row in sample),
        chunk_bytes=0.0,
        new_tokens={task: mean(counts) for task, counts in sorted(answers.items())},
    )


def _step_point(group: list[dict[str, Any]]) -> tuple[Sequence[float], float] | None:
    """The terms and the seconds of one step of answers that were decoded together, as if none had ended early."""
    times = [row["per_output_token_s"] for row in group if row["per_output_token_s"]]
    if not times:
        return None
    keys = sum(_kept(row) + row["num_new_tokens"] / 2 for row in group)
    return (1, len(group), keys), median(times)


def _kept(row: dict[str, Any]) -> float:
    """Tokens of the prompt that was run whose keys are read; a shorter text's shares are of the whole one."""
    if row["condition"] == "removed_text":
        return float(row["num_tokens"])
    share = row["kept_fraction"] if row["kv_kept_fraction"] is None else row["kv_kept_fraction"]
    return float(share * row["num_tokens"])


def _random_prompt(engine: Engine, length: int, num_chunks: int, seed: int) -> Prompt:
    """Random tokens, the last one protected, the others in equal chunks."""
    import torch

    ids = torch.randint(engine.adapter.vocab_size, (length,), generator=torch.Generator().manual_seed(seed))
    protected = torch.zeros(length, dtype=torch.bool)
    protected[-1] = True
    ends = [(length - 1) * part // num_chunks for part in range(num_chunks + 1)]
    chunks = tuple(Chunk("", start, stop) for start, stop in pairwise(ends) if start < stop)
    return Prompt(ids, protected, chunks, (length - 1, length))


def _answer(engine: Engine, prompt: Prompt, count: int, steps: int) -> list[Answer]:
    """As a run does it: the prompt prefilled once, then `count` answers decoded together."""
    from fewer.engine import Request

    request = Request(prompt, Sampling(max_tokens=steps + 1, ignore_eos=True, logprobs=0))
    answers = []
    for outcome in engine.fan_out([request] * count):
        if outcome.answer is None:
            assert outcome.error is not None
            raise outcome.error
        answers.append(outcome.answer)
    return answers


def _row_bytes(answer: Answer) -> int:
    """About what a row with this answer takes: its receipt, text and ids as they are, the rest by type."""
    sizes = {"string": "x" * 16, "int64": 1000, "double": 0.12345678901234567, "bool": True}
    row: dict[str, Any] = {field.name: sizes.get(str(field.type)) for field in SCHEMA}
    row |= dict.fromkeys(("cell", "item_sha256", "study_sha256", "model_sha256"), "x" * 64)
    row |= {"receipt": answer.receipt.model_dump_json(), "text": answer.text, "ids": list(answer.ids)}
    return len(json.dumps(row))
