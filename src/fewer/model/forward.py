"""The loop: packed rows through the layers, fewer of them the deeper it goes.

Hidden states are `[1, rows, width]` over several segments, one per sequence. Linear layers see all rows at once;
attention walks the segments. Dropping tokens is removing rows. After a pass every sequence either holds all of the
pass or, when something was raised, none of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

from fewer.errors import bad
from fewer.kv import LayerKV, State
from fewer.model.adapter import Adapter, Angles
from fewer.types import Observation, Plan, Planner, Prompt

__all__ = ["Segment", "climb", "finish", "forward", "pack", "stops_of"]

_FAULT = "This is a fault of the planner; its protocol is fewer.types.Planner."


@dataclass(eq=False)
class Segment:
    """One sequence's share of a pass: its new tokens, and who may drop some of them on the way.

    A planner works on a whole prompt, so it needs `prompt` and an empty `state`. `logits`: of the last row, or of every
    row that reached the end. The pass fills `plans`, `released_bytes` (of each plan) and `rows_per_layer` (1..L).
    """

    state: State
    ids: Tensor  # [n] int64
    planner: Planner | None = None
    prompt: Prompt | None = None
    seed: int = 0
    logits: Literal["last", "all"] = "last"
    plans: list[Plan] = field(default_factory=list)
    released_bytes: list[int] = field(default_factory=list)
    rows_per_layer: list[int] = field(default_factory=list)

    # Set by the pass.
    rows: slice = field(default_factory=lambda: slice(0, 0), init=False)
    pos: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.int64), init=False)
    first: int | None = field(default=None, init=False)  # position of the first row while rows are consecutive
    observed: Tensor | None = field(default=None, init=False)
    stops: tuple[int, ...] = field(default=(), init=False)
    watched: frozenset[int] = field(default=frozenset(), init=False)  # layers whose last attention row is wanted

    def watches(self, layer: int) -> bool:
        """Whether somebody wants the last query's attention row of this layer."""
        return layer in self.watched

    def plan(self, layer: int) -> Plan | None:
        """Ask the planner after `layer`; None where it has nothing to say."""
        if self.planner is None or layer not in self.stops:
            return None
        assert self.prompt is not None
        generator = torch.Generator().manual_seed((self.seed * 1_000_003 + layer + 1) % 2**63)
        seen = Observation(layer, self.pos.clone(), self.prompt, generator, self.observed)
        self.observed, plan = None, self.planner.after(seen)
        if plan is not None:
            self.plans.append(_check(plan, layer, self.pos, self.prompt))
        return plan


@torch.inference_mode()
def forward(
    adapter: Adapter, segments: list[Segment], progress: Callable[[int, Tensor], None] | None = None
) -> list[Tensor]:
    """Run the segments' new tokens through the model; their states grow by them.

    Returns the logits of each segment, `[1, vocab]` or `[rows left, vocab]`, in float32 or wider. `progress` is called
    with (layer, hidden states) after each layer; the next layer may write over them.
    """
    marks = [(segment.state, [layer.num_rows for layer in segment.state.layers]) for segment in segments]
    try:
        hidden, angles = pack(adapter, segments)
        hidden = climb(adapter, hidden, angles, segments, 0, progress)
        return finish(adapter, hidden, segments)
    except BaseException:
        for state, rows in marks:
            for kv, num_rows in zip(state.layers, rows, strict=True):
                kv.truncate(num_rows)
        raise


def climb(
    adapter: Adapter,
    hidden: Tensor,
    angles: Angles,
    segments: list[Segment],
    reached: int,
    progress: Callable[[int, Tensor], None] | None = None,
) -> Tensor:
    """From the output of layer `reached`, where the planners have not yet been asked, through all layers above it."""
    for layer in range(reached, adapter.num_layers + 1):
        if layer > reached:
            for segment in segments:
                segment.rows_per_layer.append(segment.pos.numel())
            hidden = adapter.layers[layer - 1](hidden, angles, segments)
            if progress is not None:
                progress(layer, hidden)
        if plans := {i: plan for i, segment in enumerate(segments) if (plan := segment.plan(layer))}:
            hidden, angles = _drop_rows(hidden, angles, segments, plans)
    return hidden


def finish(adapter: Adapter, hidden: Tensor, segments: list[Segment]) -> list[Tensor]:
    """The logits that were asked for; the states hold the pass from here on."""
    logits = adapter.head(_wanted_rows(hidden, segments))
    layers = [_release(segment) for segment in segments]
    for segment, kept in zip(segments, layers, strict=True):
        segment.state.num_seen += segment.ids.numel()
        segment.state.layers = kept
    sizes = [segment.pos.numel() if segment.logits == "all" else 1 for segment in segments]
    return list(torch.split(logits, sizes))


def pack(adapter: Adapter, segments: list[Segment]) -> tuple[Tensor, Angles]:
    """Embed all new tokens side by side, with their rotary angles; positions go on from what a sequence has seen."""
    start = 0
    for segment in segments:
        size, seen = segment.ids.numel(), segment.state.num_seen
        if size == 0:
            raise bad("ids", [], "at least one token id", "Give every segment at least one new token.")
        if segment.planner is not None:
            if segment.prompt is None or seen or size != len(segment.prompt):
                raise bad("planner", segment.planner.name, "given with a whole prompt", "Prefill it in one pass.")
            segment.stops = stops_of(segment.planner, adapter.num_layers)
            if segment.planner.needs == "last_query":
                segment.watched = frozenset(segment.stops)
        segment.plans, segment.released_bytes, segment.rows_per_layer = [], [], []
        _reserve(adapter, segment)
        segment.rows = slice(start, start + size)
        segment.pos = torch.arange(seen, seen + size, device=adapter.device)
        segment.first = seen
        start += size
    ids = torch.cat([segment.ids.to(adapter.device) for segment in segments])
    hidden = adapter.embed(ids)
    return hidden, adapter.rope(hidden, torch.cat([segment.pos for segment in segments]))


def _reserve(adapter: Adapter, segment: Segment) -> None:
    """Make room for a new sequence in one go, in the layers that all of its rows reach; piecemeal, memory fragments."""
    if segment.state.num_seen == 0:
        like = torch.empty(2, adapter.num_kv_heads, 0, adapter.head_dim, dtype=adapter.dtype, device=adapter.device)
        for kv in segment.state.layers[: min(segment.stops, default=adapter.num_layers)]:
            if kv.buffer is None:
                kv.reserve(segment.ids.numel(), like)


def _drop_rows(
    hidden: Tensor, angles: Angles, segments: list[Segment], plans: dict[int, Plan]
) -> tuple[Tensor, Angles]:
    """Remove the rows that the plans do not keep, from the hidden states and the rotary angles."""
    kept, start = [], 0
    for i, segment in enumerate(segments):
        offset = segment.rows.start
        if plan := plans.get(i):
            keep = plan.keep.to(segment.pos.device)
            kept.append(torch.searchsorted(segment.pos, keep) + offset)
            if keep.numel() < segment.pos.numel():
                segment.pos, segment.first = keep, None
        else:
            kept.append(torch.arange(offset, segment.rows.stop, device=hidden.device))
        segment.rows = slice(start, start + segment.pos.numel())
        start = segment.rows.stop
    index = torch.cat(kept)
    if index.numel() == hidden.shape[1]:
        return hidden, angles
    return hidden[:, index], {kind: (cos[:, index], sin[:, index]) for kind, (cos, sin) in angles.items()}


def _wanted_rows(hidden: Tensor, segments: list[Segment]) -> Tensor:
    """The rows whose logits were asked for."""
    if all(segment.logits == "all" for segment in segments):
        return hidden
    index = [
        torch.arange(segment.rows.start if segment.logits == "all" else segment.rows.stop - 1, segment.rows.stop)
        for segment in segments
    ]
    return hidden[:, torch.cat(index).to(hidden.device)]


def _release(segment: Segment) -> list[LayerKV]:
    """The segment's layers without what each plan dropped, in the layers below it; changes nothing yet."""
    layers = [copy(kv) for kv in segment.state.layers] if segment.plans else segment.state.layers
    for plan in segment.plans:
        below = layers[: plan.layer] if plan.release else []
        before = sum(kv.nbytes for kv in below)
        for kv in below:
            kv.select(torch.searchsorted(kv.pos[0].contiguous(), plan.keep.to(kv.pos.device)))
        segment.released_bytes.append(before - sum(kv.nbytes for kv in below))
    return layers


def stops_of(planner: Planner, num_layers: int) -> tuple[int, ...]:
    """The layers a planner asks for, checked."""
    layers = planner.layers(num_layers)
    if not isinstance(layers, tuple) or not all(type(layer) is int and 0 <= layer <= num_layers for layer in layers):
        raise bad(f"the layers of planner {planner.name}", layers, f"a tuple of numbers 0 to {num_layers}", _FAULT)
    return layers


def _check(plan: object, layer: int, pos: Tensor, prompt: Prompt) -> Plan:
    """A plan is about this layer and keeps active positions, in order, and every protected one."""
    if not isinstance(plan, Plan):
        raise bad("plan", plan, "None or a Plan", _FAULT)
    if type(plan.layer) is not int or plan.layer != layer:
        raise bad("plan.layer", plan.layer, f"{layer}, the layer it was asked about", _FAULT)
    if type(plan.release) is not bool:
        raise bad("plan.release", plan.release, "True or False", _FAULT)
    if not isinstance(plan.reason, str):
        raise bad("plan.reason", plan.reason, "a text", _FAULT)
    for name, value in (("plan.bound", plan.bound), ("plan.dual_gap", plan.dual_gap)):
        if value is not None and not (isinstance(value, (int, float)) and math.isfinite(value)):
            raise bad(name, value, "None or a finite number", _FAULT)
    if not isinstance(plan.keep, Tensor) or plan.keep.dtype != torch.int64 or plan.keep.dim() != 1:
        raise bad("plan.keep", plan.keep, "one row of int64 positions", _FAULT)
    keep, active = plan.keep.cpu(), pos.cpu()
    if keep.numel() == 0 or not bool((keep[1:] > keep[:-1]).all()) or not bool(torch.isin(keep, active).all()):
        raise bad("plan.keep", keep.tolist()[:8], "an ascending, non-empty subset of the active positions", _FAULT)
    protected = prompt.protected.nonzero().flatten()
    if not bool(torch.isin(protected, keep).all()):
        lost = protected[~torch.isin(protected, keep)]
        raise bad("plan.keep", f"without {lost.tolist()[:8]}", "a superset of the protected positions", _FAULT)
    return plan
