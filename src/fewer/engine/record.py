"""The receipt of a finished sequence, from what was measured on the way."""

from __future__ import annotations

import platform
from dataclasses import asdict, dataclass
from statistics import mean, median
from typing import Literal

import torch
import transformers
from torch import Tensor

import fewer
from fewer.aux_cache import Step
from fewer.engine.bypass import list_bypasses
from fewer.engine.device import measure_peak
from fewer.engine.eviction_record import write_certificate, write_eviction
from fewer.engine.sequence import Sequence
from fewer.model.adapter import Adapter
from fewer.model.store import Source
from fewer.receipt import (
    SCHEMA_VERSION,
    ChunkRecord,
    ComputedRecord,
    DecisionRecord,
    MemoryRecord,
    ModelRecord,
    OutputRecord,
    PlanRecord,
    PromptRecord,
    Receipt,
    RevivalRecord,
    RunRecord,
    SecondsRecord,
    SettingsRecord,
    SpreadRecord,
    VersionsRecord,
)
from fewer.types import Plan

__all__ = ["Setting", "write_receipt"]

_DTYPES: dict[torch.dtype, Literal["float32", "bfloat16"]] = {torch.float32: "float32", torch.bfloat16: "bfloat16"}


@dataclass(frozen=True)
class Setting:
    """What all receipts of one engine have in common."""

    source: Source
    dtype_reason: str
    load_s: float


def write_receipt(sequence: Sequence, adapter: Adapter, setting: Setting) -> Receipt:
    """What this sequence computed, left out and cost. Called once, when it has finished."""
    request = sequence.request
    size = adapter.num_layers
    rows = sequence.rows_per_layer or (0,) * size
    steps = max(0, len(sequence.ids) - 1)
    full = (len(request.prompt) - sequence.num_before + steps) * size
    aux = sequence.state.aux
    taken = aux.steps[:steps] if aux else []  # interrupted, the last pass may have given no token
    back = sum(step.token_layers for step in taken)
    repeated = sum(step.repeated for step in taken)
    computed = sum(rows) + steps * size + back
    dtype = _DTYPES[adapter.dtype]
    return Receipt(
        schema_version=SCHEMA_VERSION,
        model=ModelRecord(
            name=setting.source.name,
            family=adapter.family,
            source=setting.source.kind,
            num_layers=size,
            num_heads=adapter.num_heads,
            num_kv_heads=adapter.num_kv_heads,
            head_dim=adapter.head_dim,
            hidden_size=adapter.hidden_size,
            num_parameters=adapter.num_parameters,
            sha256=setting.source.sha256,
            fingerprint=adapter.facts.fingerprint,
        ),
        run=RunRecord(
            device=str(adapter.device),
            dtype=dtype,
            weights="int8" if adapter.weights == "int8" else dtype,
            dtype_reason=setting.dtype_reason,
            num_threads=torch.get_num_threads(),
            seed=request.sampling.seed,
            batch_mates=sequence.most_mates,
            shared_prefill=sequence.shared_prefill,
        ),
        versions=VersionsRecord(
            fewer=fewer.__version__,
            torch=torch.__version__,
            transformers=transformers.__version__,
            python=platform.python_version(),
        ),
        prompt=_prompt(sequence, size),
        settings=SettingsRecord(
            sampling=asdict(request.sampling),
            prune=None if request.prune is None else {"name": request.prune.name, **request.prune.describe()},
            evict=None if request.evict is None else {**request.evict.describe()},
        ),
        computed=ComputedRecord(
            token_layers_full=full,
            token_layers_computed=computed,
            token_layers_repeated=repeated,
            token_layers_skipped=full - (computed - repeated),
            prefill_rows_per_layer=rows,
            decode_steps=steps,
        ),
        plans=_plans(sequence),
        decisions=_decisions(sequence),
        revival=_revival(sequence, taken, steps),
        eviction=write_eviction(sequence),
        bypass=list_bypasses(sequence),
        seconds=_seconds(sequence, setting),
        memory=_memory(sequence, adapter, len(request.prompt) + steps),
        output=_output(sequence),
        certificate=write_certificate(sequence, steps),
        gate=None,
    )


def _prompt(sequence: Sequence, size: int) -> PromptRecord:
    """How many tokens of each part every layer computed in the prefill."""
    request = sequence.request
    prompt, plans = request.prompt, sequence.prefill.plans if sequence.prefill else []
    active = torch.ones(len(prompt), dtype=torch.bool)
    active[: sequence.num_before] = False  # an earlier request computed them
    if sequence.prefill is None:
        active[:] = False
    by_layer = []
    for layer in range(1, size + 1):
        for plan in plans:
            if plan.layer == layer - 1:
                active = torch.zeros_like(active)
                active[plan.keep.cpu()] = True
        by_layer.append(active)
    table = torch.stack(by_layer)  # [L, T]
    free = ~prompt.protected
    later = _computed_later(sequence, table)
    aux = sequence.state.aux
    back = torch.zeros_like(free) if aux is None else aux.revived.cpu() & free
    chunks = tuple(
        ChunkRecord(
            title=chunk.title,
            start=chunk.start,
            stop=chunk.stop,
            num_tokens=int(free[chunk.start : chunk.stop].sum()),
            kept_per_layer=tuple((table & free)[:, chunk.start : chunk.stop].sum(1).tolist()),
            num_revived=int(back[chunk.start : chunk.stop].sum()),
            revived_per_layer=tuple((later & free)[:, chunk.start : chunk.stop].sum(1).tolist()),
        )
        for chunk in prompt.chunks
    )
    return PromptRecord(
        num_tokens=len(prompt),
        num_before=sequence.num_before,
        num_protected=prompt.num_protected,
        query_len=prompt.query[1] - prompt.query[0],
        truncated_tokens=prompt.truncated,
        protected_per_layer=tuple((table & prompt.protected).sum(1).tolist()),
        chunks=chunks,
    )


def _computed_later(sequence: Sequence, table: Tensor) -> Tensor:
    """Which token went through which layer after the prefill, of a table [L, T] of those that did before."""
    aux = sequence.state.aux
    if aux is None:
        return torch.zeros_like(table)
    layers = torch.arange(1, table.shape[0] + 1)
    return (layers[:, None] <= aux.reached.cpu()) & ~table


def _revival(sequence: Sequence, steps: list[Step], num_steps: int) -> RevivalRecord | None:
    """None for planners that never bring anything back, and where nothing was chosen.

    One that could, but keeps to the prefill's choice, is not asked at later steps: they see that choice.
    """
    aux = sequence.state.aux
    if aux is None:
        plans = sequence.prefill.plans if sequence.prefill else []
        if not plans or getattr(sequence.request.prune, "aux", None) != "off":
            return None
        seen = (tuple(plan.keep.numel() for plan in plans),) * num_steps
        return RevivalRecord(
            aux="off",
            num_revived=0,
            revived_per_step=(0,) * num_steps,
            active_per_step=seen,
            token_layers_revived=0,
            aux_bytes=0,
        )
    return RevivalRecord(
        aux=aux.planner.aux,
        num_revived=min(int(aux.revived.sum()), sum(step.revived for step in steps)),
        revived_per_step=tuple(step.revived for step in steps),
        active_per_step=tuple(step.active for step in steps),
        token_layers_revived=sum(step.token_layers for step in steps),
        aux_bytes=aux.nbytes,
    )


def _plans(sequence: Sequence) -> tuple[PlanRecord, ...]:
    if sequence.prefill is None:
        return ()
    before = len(sequence.request.prompt)
    records = []
    for plan, released in zip(sequence.prefill.plans, sequence.prefill.released_bytes, strict=True):
        kept = plan.keep.numel()
        records.append(_plan(plan, kept, before - kept, released))
        before = kept
    return tuple(records)


def _plan(plan: Plan, kept: int, dropped: int, released: int) -> PlanRecord:
    return PlanRecord(
        layer=plan.layer,
        num_kept=kept,
        num_dropped=dropped,
        reason=plan.reason,
        released_bytes=max(0, released),
        bound=plan.bound,
        dual_gap=plan.dual_gap,
    )


def _decisions(sequence: Sequence) -> tuple[DecisionRecord, ...]:
    decisions = sequence.prefill.decisions if sequence.prefill else []
    return tuple(
        DecisionRecord(
            layer=each.layer,
            outcome=each.outcome,
            says=each.says,
            numbers={name: float(value) for name, value in each.numbers.items()},
        )
        for each in decisions
    )


def _seconds(sequence: Sequence, setting: Setting) -> SecondsRecord:
    times, layout = sequence.token_times, sequence.request.layout_s
    gaps = sequence.step_s[1:]
    return SecondsRecord(
        load_s=setting.load_s,
        layout_s=layout,
        queue_s=max(0.0, sequence.started - sequence.arrived) if sequence.prefill else 0.0,
        prefill_s=sequence.prefill_s,
        evict_s=sequence.evict_s,
        first_token_s=times[0] - sequence.arrived + layout if times else None,
        per_output_token_s=SpreadRecord(mean=mean(gaps), median=median(gaps), max=max(gaps)) if gaps else None,
        total_s=sequence.ended - sequence.arrived + layout,
    )


def _memory(sequence: Sequence, adapter: Adapter, num_rows: int) -> MemoryRecord:
    held = tuple(layer.nbytes for layer in sequence.state.layers)
    row = 2 * adapter.num_kv_heads * adapter.head_dim * adapter.dtype.itemsize
    peak, scope = measure_peak(adapter.device)
    return MemoryRecord(
        kv_bytes_per_layer=held,
        kv_used_bytes_per_layer=tuple(row * layer.num_rows for layer in sequence.state.layers),
        kv_padding_bytes_per_layer=tuple(
            row // adapter.num_kv_heads * layer.num_padding for layer in sequence.state.layers
        ),
        kv_bytes_full_estimate=(row * num_rows,) * adapter.num_layers,
        kv_total_bytes=sum(held),
        weights_bytes=adapter.weights_bytes,
        peak_bytes=peak,
        peak_scope=scope,
    )


def _output(sequence: Sequence) -> OutputRecord:
    margins, logprobs = sequence.sampler.margins, sequence.sampler.logprobs
    return OutputRecord(
        num_tokens=len(sequence.ids),
        finish_reason=sequence.finish_reason,  # type: ignore[arg-type]
        mean_logprob=mean(entry.logprob for entry in logprobs) if logprobs else None,
        first_token_margin=margins[0] if margins else None,
        min_margin=min(margins) if margins else None,
    )
