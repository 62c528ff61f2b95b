"""Which rows of a segment go on after a stop: in the prefill fewer, at later steps also prompt tokens that come back.

A later step begins with its new tokens alone. At each stop the planner chooses among the prompt tokens that are active
there. Those that it keeps and that have no keys and values above come in with their stored state, and go on as rows of
the pass until a stop leaves them out again. Every row sees the kept prompt tokens up to its own position, and the
tokens generated before it. No token passes a layer twice, except where states are not kept (`aux="recompute"`).

LazyLLM, section 3.2. Not covered: planners that bring back what they released, several new tokens at a step as if they
had come one by one (they see what the last of them chose).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fewer.aux_cache import AuxCache, Step
from fewer.errors import bad
from fewer.kv import State
from fewer.model.adapter import Adapter
from fewer.model.segment import Segment, asks_again, check_decision, check_plan
from fewer.model.visible import Visible
from fewer.types import Decision, Look, Observation

__all__ = ["Change", "change_rows", "note_step", "open_memory"]

_FAULT = "This is a fault of the planner; its protocol is fewer.types.StepPlanner."


@dataclass(frozen=True, slots=True)
class Change:
    """How a segment's rows go on: `stay` [s] (indices into its rows) and the states [j, width] of those that join.

    order: [s + j], which of both in turn is each row afterwards; None where nobody joins.
    """

    stay: Tensor
    joining: Tensor | None = None
    order: Tensor | None = None


def change_rows(adapter: Adapter, segment: Segment, layer: int, hidden: Tensor) -> Change | None:
    """Ask after `layer`; None where all rows go on and nobody joins. hidden: [1, rows of all segments, width]."""
    if layer not in segment.stops:
        return None
    if segment.planner is not None:
        return _leave_out(adapter, segment, layer, hidden)
    return _bring_back(adapter, segment, layer, hidden)


def open_memory(segment: Segment, num_layers: int) -> AuxCache | None:
    """The memory of a prefill that left tokens out; what there is for a later step. Changes nothing yet."""
    if segment.planner is None:
        return segment.state.aux
    return _open(segment, num_layers) if asks_again(segment.planner) and segment.plans else None


def note_step(segment: Segment, num_layers: int) -> None:
    """Keep what a finished pass after the prefill means for the tokens left out."""
    aux = segment.state.aux
    if segment.planner is not None or aux is None:
        return
    if segment.pos.numel() > segment.ids.numel():  # prompt tokens came all the way
        aux.arrive(segment.pos[segment.pos < len(aux.prompt)], num_layers)
    for pos, layer, states in segment.leaving:
        aux.leave(pos, layer, states)
    computed = sum(segment.rows_per_layer) - segment.ids.numel() * num_layers
    active = tuple(int(pos.numel()) for _, pos in segment.active)
    for pos in segment.joined:
        aux.revived[pos] = True
    revived = sum(pos.numel() for pos in segment.joined)
    aux.steps.append(Step(revived, computed + segment.num_repeated, segment.num_repeated, active))


def _leave_out(adapter: Adapter, segment: Segment, layer: int, hidden: Tensor) -> Change | None:
    """The prefill: some rows go no deeper."""
    assert segment.planner is not None
    seen = segment.observe(layer, adapter.num_layers)
    answer = segment.planner.after(seen)
    if answer is None:
        return None
    if isinstance(answer, Decision):
        segment.decisions.append(check_decision(answer, seen))
        return None
    plan, kept = check_plan(answer, seen)
    segment.plans.append(plan)
    if plan.decision is not None:
        segment.decisions.append(check_decision(plan.decision, seen))
    inside = kept.index_select(0, segment.pos)
    gone = (~inside).nonzero().flatten()
    if asks_again(segment.planner):
        if plan.release:
            raise bad("plan.release", True, "False, for a planner that brings tokens back", _FAULT)
        stowed = hidden[0, gone + segment.rows.start] if segment.planner.aux == "keep" else None
        segment.leaving.append((segment.pos[gone], layer, stowed))
    if gone.numel() == 0:
        return None
    if getattr(segment.planner, "acts_once", False):
        segment.looks = {}
    stay = inside.nonzero().flatten()
    segment.pos, segment.first = segment.pos[stay], None
    return Change(stay)


def _open(segment: Segment, num_layers: int) -> AuxCache:
    """The memory of a prefill that left tokens out."""
    planner, prompt = segment.planner, segment.prompt
    assert asks_again(planner)
    assert prompt is not None
    size, device = len(prompt), segment.pos.device
    looks = tuple(look for some in segment.looks.values() for look in some)
    reached = torch.full((size,), num_layers, device=device)
    aux = AuxCache(planner, prompt, segment.seed, segment.stops, looks, reached)
    aux.revived = torch.zeros(size, dtype=torch.bool, device=device)
    active = torch.arange(size, device=device)
    for plan in segment.plans:
        if plan.score is not None:
            table = torch.full((size,), float("-inf"), device=device)
            table[active] = plan.score.to(device, torch.float32)
            aux.scores[plan.layer] = table
        active = plan.keep.to(device)
    left = torch.zeros(size, dtype=torch.bool, device=device)
    for pos, layer, _ in segment.leaving:
        aux.reached[pos], left[pos] = layer, True
    if planner.aux == "keep" and segment.leaving:
        first = segment.leaving[0][2]
        assert first is not None
        aux.reserve(left, first)
        for pos, layer, states in segment.leaving:
            aux.leave(pos, layer, states)
    return aux


def _bring_back(adapter: Adapter, segment: Segment, layer: int, hidden: Tensor) -> Change | None:
    """A later step: choose anew among the prompt tokens that are active here."""
    aux = segment.state.aux
    assert aux is not None
    seen = _look(segment, aux, layer, adapter.num_layers)
    plan = aux.planner.after(seen)
    if plan is None:
        assert seen.ready is not None
        keep = seen.pos[seen.ready] if aux.planner.aux == "off" else seen.pos
        kept = torch.zeros(len(aux.prompt), dtype=torch.bool, device=keep.device)
        kept[keep] = True
    else:
        plan, kept = check_plan(plan, seen)
        keep = plan.keep.to(seen.pos.device)
    segment.active.append((layer, keep))
    late = kept & aux.behind(layer)
    joining = (late & (aux.reached == layer)).nonzero().flatten() if bool(late.any()) else keep[:0]
    if joining.numel() and aux.planner.aux == "off":
        raise bad("plan.keep", joining.tolist()[:8], "tokens that are ready, with aux off", _FAULT)
    change = _move(adapter, segment, aux, layer, hidden, kept, joining)
    segment.visible = None if layer == adapter.num_layers else _see(segment, aux, layer, kept, segment.pos, True)
    return change


def _move(
    adapter: Adapter, segment: Segment, aux: AuxCache, layer: int, hidden: Tensor, kept: Tensor, joining: Tensor
) -> Change | None:
    """Let rows that are not kept leave, and the joining come in."""
    size = len(aux.prompt)
    pos = segment.pos
    if joining.numel() == 0 and pos.numel() == segment.ids.numel():
        return None
    prompt_rows = pos < size
    inside = ~prompt_rows | kept[pos.clamp(max=size - 1)]
    gone = (~inside).nonzero().flatten()
    if gone.numel():
        stowed = hidden[0, gone + segment.rows.start] if aux.planner.aux == "keep" else None
        segment.leaving.append((pos[gone], layer, stowed))
    stay = inside.nonzero().flatten()
    if joining.numel() == 0:
        segment.pos = pos[stay]
        return Change(stay) if gone.numel() else None
    segment.joined.append(joining)
    states = aux.take(joining) if aux.planner.aux == "keep" else _recompute(adapter, segment, aux, joining, layer)
    both = torch.cat([pos[stay], joining])
    order = both.argsort()
    segment.pos, segment.first = both[order], None
    return Change(stay, states, order)


def _look(segment: Segment, aux: AuxCache, layer: int, num_layers: int) -> Observation:
    """What the planner may see at a later step."""
    step = len(aux.steps) + 1
    generator = torch.Generator().manual_seed((aux.seed * 1_000_003 + layer + 1 + step * 7_919) % 2**63)
    first, newest = aux.scores.get(layer), segment.looked.get(Look(layer))
    ready = ~aux.behind(layer)
    if segment.active:
        pos = segment.active[-1][1]
        ready = ready.index_select(0, pos)
        first = None if first is None else first.index_select(0, pos)
    else:
        pos = torch.arange(len(aux.prompt), device=segment.pos.device)
    return Observation(
        layer,
        pos,
        aux.prompt,
        generator,
        None if newest is None else newest.rows[:, 0],
        num_layers,
        step,
        ready,
        first,
        segment.looked,
    )


def _see(segment: Segment, aux: AuxCache, layer: int, kept: Tensor, rows: Tensor, new: bool) -> Visible:
    """What `rows` see above `layer`; `new`: their own keys will be stored there and are not yet."""
    keys = segment.state.layers[layer].pos[0].to(rows.device)
    if new:
        keys = torch.cat([keys, rows])
    generated = torch.ones_like(keys, dtype=torch.bool)  # all of them are shown, and they are no more than the keys
    shown = torch.cat([kept, generated]).index_select(0, keys)
    newest = new and rows.numel() == segment.ids.numel()
    return Visible(keys, shown, rows, newest and rows.numel() == 1, newest and bool(shown.all()))


def _recompute(adapter: Adapter, segment: Segment, aux: AuxCache, joining: Tensor, layer: int) -> Tensor:
    """The states of `joining` after `layer`, from the embedding, over what this step sees: [j, width].

    Their keys and values of these layers are stored already and stay as they are.
    """
    again = Segment(State(segment.state.layers, segment.state.num_seen), aux.prompt.ids[joining.cpu()])
    again.begin(joining, slice(0, joining.numel()), (), frozenset())
    again.stores = False
    hidden = adapter.embed(again.ids.to(adapter.device))
    angles = adapter.rope(hidden, joining)
    kept = torch.ones(len(aux.prompt), dtype=torch.bool, device=joining.device)
    passed = dict(segment.active)
    for below in range(layer):
        if below in passed:
            kept = torch.zeros_like(kept)
            kept[passed[below]] = True
        if below == 0 or below in passed:
            again.visible = _see(again, aux, below, kept, joining, False)
        hidden = adapter.layers[below](hidden, angles, [again])
    segment.num_repeated += layer * joining.numel()
    return hidden[0]
