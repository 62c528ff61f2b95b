"""The loop: packed rows through the layers, fewer of them the deeper it goes.

Hidden states are `[1, rows, width]` over several segments, one per sequence. Linear layers see all rows at once;
attention walks the segments. Dropping tokens is removing rows. After a pass every sequence either holds all of the
pass or, when something was raised, none of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

from fewer.errors import bad
from fewer.kv import State
from fewer.model.adapter import Adapter
from fewer.types import Observation, Plan, Planner, Prompt

__all__ = ["Segment", "forward"]


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

    def watches(self, layer: int) -> bool:
        """Whether the planner wants the last query's attention row of this layer."""
        return self.planner is not None and self.planner.needs == "last_query" and layer in self.stops

    def plan(self, layer: int) -> Plan | None:
        """Ask the planner after `layer`; None where it has nothing to say."""
        if self.planner is None or layer not in self.stops:
            return None
        assert self.prompt is not None
        generator = torch.Generator().manual_seed((self.seed * 1_000_003 + layer + 1) % 2**63)
        plan = self.planner.after(Observation(layer, self.pos, self.prompt, generator, self.observed))
        self.observed = None
        if plan is not None:
            _check(plan, self.pos, self.prompt)
            self.plans.append(plan)
        return plan


@torch.inference_mode()
def forward(
    adapter: Adapter, segments: list[Segment], progress: Callable[[int, Tensor], None] | None = None
) -> list[Tensor]:
    """Run the segments' new tokens through the model; their states grow by them.

    Returns the logits of each segment, `[1, vocab]` or `[rows left, vocab]`, in float32 or wider. `progress` is called
    with (layer, hidden states) after each layer.
    """
    marks = [(segment.state, [layer.num_rows for layer in segment.state.layers]) for segment in segments]
    try:
        hidden, pos = _pack(adapter, segments)
        angles = adapter.rope(hidden, pos)
        for layer in range(adapter.num_layers + 1):
            if layer:
                for segment in segments:
                    segment.rows_per_layer.append(segment.pos.numel())
                hidden = adapter.layers[layer - 1](hidden, angles, segments)
                if progress is not None:
                    progress(layer, hidden)
            if plans := {i: plan for i, segment in enumerate(segments) if (plan := segment.plan(layer))}:
                hidden, angles = _drop_rows(hidden, angles, segments, plans)
        logits = adapter.head(_wanted_rows(hidden, segments))
    except BaseException:
        for state, rows in marks:
            for kv, num_rows in zip(state.layers, rows, strict=True):
                kv.truncate(num_rows)
        raise
    for segment in segments:
        segment.state.num_seen += segment.ids.numel()
        _release(segment)
    sizes = [segment.pos.numel() if segment.logits == "all" else 1 for segment in segments]
    return list(torch.split(logits, sizes))


def _pack(adapter: Adapter, segments: list[Segment]) -> tuple[Tensor, Tensor]:
    """Embed all new tokens side by side; positions go on from what each sequence has seen."""
    start = 0
    for segment in segments:
        size, seen = segment.ids.numel(), segment.state.num_seen
        if size == 0:
            raise bad("ids", [], "at least one token id", "Give every segment at least one new token.")
        if segment.planner is not None:
            if segment.prompt is None or seen or size != len(segment.prompt):
                raise bad("planner", segment.planner.name, "given with a whole prompt", "Prefill it in one pass.")
            segment.stops = segment.planner.layers(adapter.num_layers)
        segment.plans, segment.released_bytes, segment.rows_per_layer = [], [], []
        _reserve(adapter, segment)
        segment.rows = slice(start, start + size)
        segment.pos = torch.arange(seen, seen + size, device=adapter.device)
        segment.first = seen
        start += size
    ids = torch.cat([segment.ids.to(adapter.device) for segment in segments])
    return adapter.embed(ids), torch.cat([segment.pos for segment in segments])


def _reserve(adapter: Adapter, segment: Segment) -> None:
    """Make room for a new sequence in one go, in the layers that all of its rows reach; piecemeal, memory fragments."""
    if segment.state.num_seen == 0:
        like = torch.empty(2, adapter.num_kv_heads, 0, adapter.head_dim, dtype=adapter.dtype, device=adapter.device)
        for kv in segment.state.layers[: min(segment.stops, default=adapter.num_layers)]:
            if kv.buffer is None:
                kv.reserve(segment.ids.numel(), like)


def _drop_rows(
    hidden: Tensor, angles: dict[str, tuple[Tensor, Tensor]], segments: list[Segment], plans: dict[int, Plan]
) -> tuple[Tensor, dict[str, tuple[Tensor, Tensor]]]:
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


def _release(segment: Segment) -> None:
    """Free the keys and values, in the layers before a plan, of the tokens that it dropped."""
    for plan in segment.plans:
        layers = segment.state.layers[: plan.layer] if plan.release else []
        before = sum(kv.nbytes for kv in layers)
        for kv in layers:
            kv.select(torch.searchsorted(kv.pos[0].contiguous(), plan.keep.to(kv.pos.device)))
        segment.released_bytes.append(before - sum(kv.nbytes for kv in layers))


def _check(plan: Plan, pos: Tensor, prompt: Prompt) -> None:
    """A plan keeps active positions, in order, and every protected one."""
    keep, active = plan.keep.cpu(), pos.cpu()
    way_out = "This is a fault of the planner; every plan keeps a sorted subset with all protected positions."
    if keep.numel() == 0 or not bool((keep[1:] > keep[:-1]).all()) or not bool(torch.isin(keep, active).all()):
        raise bad("plan.keep", keep.tolist()[:8], "an ascending, non-empty subset of the active positions", way_out)
    protected = prompt.protected.nonzero().flatten()
    if not bool(torch.isin(protected, keep).all()):
        lost = protected[~torch.isin(protected, keep)]
        raise bad("plan.keep", f"without {lost.tolist()[:8]}", "a superset of the protected positions", way_out)
