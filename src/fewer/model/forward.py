"""The loop: packed rows through the layers, fewer of them the deeper it goes.

Hidden states are `[1, rows, width]` over several segments, one per sequence. Linear layers see all rows at once;
attention walks the segments. Dropping tokens is removing rows, bringing them back is adding rows. After a pass every
sequence either holds all of the pass or, when something was raised, none of it.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy

import torch
from torch import Tensor

from fewer.errors import bad
from fewer.kv import LayerKV
from fewer.model.adapter import Adapter, Angles
from fewer.model.revive import Change, change_rows, note_step, open_memory
from fewer.model.segment import Segment, looks_of, stops_of
from fewer.types import Look

__all__ = ["asked_of", "climb", "finish", "forward", "pack"]


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
        changes = {
            i: change
            for i, segment in enumerate(segments)
            if (change := change_rows(adapter, segment, layer, hidden)) is not None
        }
        if changes:
            hidden, angles = _move_rows(adapter, hidden, angles, segments, changes)
    return hidden


def finish(adapter: Adapter, hidden: Tensor, segments: list[Segment]) -> list[Tensor]:
    """The logits that were asked for; the states hold the pass from here on."""
    logits = adapter.head(_wanted_rows(hidden, segments))
    layers = [_release(segment) for segment in segments]
    memories = [open_memory(segment, adapter.num_layers) for segment in segments]
    for segment, kept, memory in zip(segments, layers, memories, strict=True):
        note_step(segment, adapter.num_layers)
        segment.state.aux = memory
        segment.state.num_seen += segment.ids.numel()
        segment.state.layers = kept
        segment.forget()
    return list(torch.split(logits, [segment.num_logits for segment in segments]))


def pack(adapter: Adapter, segments: list[Segment]) -> tuple[Tensor, Angles]:
    """Embed all new tokens side by side, with their rotary angles; positions go on from what a sequence has seen."""
    start = 0
    for segment in segments:
        size, seen = segment.ids.numel(), segment.state.num_seen
        if size == 0:
            raise bad("ids", [], "at least one token id", "Give every segment at least one new token.")
        if segment.planner is not None and (segment.prompt is None or seen or size != len(segment.prompt)):
            raise bad("planner", segment.planner.name, "given with a whole prompt", "Prefill it in one pass.")
        stops, looks = asked_of(adapter, segment)
        pos = torch.arange(seen, seen + size, device=adapter.device)
        segment.begin(pos, slice(start, start + size), stops, looks)
        _reserve(adapter, segment)
        start += size
    ids = torch.cat([segment.ids.to(adapter.device) for segment in segments])
    hidden = adapter.embed(ids)
    return hidden, adapter.rope(hidden, torch.cat([segment.pos for segment in segments]))


def asked_of(adapter: Adapter, segment: Segment) -> tuple[tuple[int, ...], tuple[Look, ...]]:
    """After which layers a planner is asked in this pass, and what it wants to see for that."""
    planner, aux = segment.planner, segment.state.aux
    if planner is not None:
        stops = stops_of(planner, adapter.num_layers)
        return stops, looks_of(planner, segment.prompt, stops, adapter.num_layers, adapter.num_heads)
    if aux is None:
        return (), ()
    return aux.stops, aux.looks if aux.planner.selection == "per_step" else ()


def _reserve(adapter: Adapter, segment: Segment) -> None:
    """Make room for a new sequence in one go, in the layers that all of its rows reach; piecemeal, memory fragments."""
    if segment.state.num_seen == 0:
        like = torch.empty(2, adapter.num_kv_heads, 0, adapter.head_dim, dtype=adapter.dtype, device=adapter.device)
        for kv in segment.state.layers[: min(segment.stops, default=adapter.num_layers)]:
            if kv.buffer is None:
                kv.reserve(segment.ids.numel(), like)


def _move_rows(
    adapter: Adapter, hidden: Tensor, angles: Angles, segments: list[Segment], changes: dict[int, Change]
) -> tuple[Tensor, Angles]:
    """Hidden states and rotary angles of the rows that go on."""
    parts, index, start = [], [], 0
    joins = any(change.joining is not None for change in changes.values())
    for i, segment in enumerate(segments):
        before = segment.rows
        segment.rows = slice(start, start + segment.pos.numel())
        start = segment.rows.stop
        change = changes.get(i)
        stay = torch.arange(before.start, before.stop, device=hidden.device)
        if change is not None:
            stay = stay[change.stay]
        index.append(stay)
        if joins:
            part = hidden[0, stay]
            if change is not None and change.joining is not None:
                part = torch.cat([part, change.joining])[change.order]
            parts.append(part)
    if joins:
        hidden = torch.cat(parts)[None]
        return hidden, adapter.rope(hidden, torch.cat([segment.pos for segment in segments]))
    rows = torch.cat(index)
    return hidden[:, rows], {kind: (cos[:, rows], sin[:, rows]) for kind, (cos, sin) in angles.items()}


def _wanted_rows(hidden: Tensor, segments: list[Segment]) -> Tensor:
    """The rows whose logits were asked for."""
    if sum(segment.num_logits for segment in segments) == hidden.shape[1]:
        return hidden
    index = [torch.arange(segment.rows.stop - segment.num_logits, segment.rows.stop) for segment in segments]
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
