"""One sequence's share of a pass, and the checks on what its planner says."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal, TypeGuard

import numpy as np
import torch
from torch import Tensor

from fewer.errors import bad
from fewer.kv import State
from fewer.model.visible import Visible
from fewer.query_log import QueryLog
from fewer.types import Decision, Look, Looked, Meter, Observation, Plan, Planner, Prompt, StepPlanner, Witness

__all__ = ["Segment", "asks_again", "check_decision", "check_plan", "looks_of", "stops_of"]

_FAULT = "This is a fault of the planner; its protocol is fewer.types.Planner."


@dataclass(eq=False)
class Segment:
    """One sequence's share of a pass: its new tokens, and who may drop some of them on the way.

    A planner works on a whole prompt, so it needs `prompt` and an empty `state`; later passes find what they need in
    `state.aux`. `logits`: of the last row, or of every new row that reached the end. `witness`: sees the attention
    weights of layers whose rows were sampled. `meter`: is shown those of every layer, looked at once more for it. The
    pass fills `plans`, `decisions`, `released_bytes` (of each plan) and `rows_per_layer` (1..L).
    """

    state: State
    ids: Tensor  # [n] int64
    planner: Planner | None = None
    prompt: Prompt | None = None
    seed: int = 0
    logits: Literal["last", "all"] = "last"
    witness: Witness | None = None
    meter: Meter | None = None
    plans: list[Plan] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    released_bytes: list[int] = field(default_factory=list)
    rows_per_layer: list[int] = field(default_factory=list)

    # Set by the pass.
    rows: slice = field(default_factory=lambda: slice(0, 0), init=False)
    pos: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.int64), init=False)
    first: int | None = field(default=None, init=False)  # position of the first row while rows are consecutive
    stops: tuple[int, ...] = field(default=(), init=False)
    looks: dict[int, list[Look]] = field(default_factory=dict, init=False)  # by layer, what somebody wants to see
    looked: dict[Look, Looked] = field(default_factory=dict, init=False)
    stores: bool = field(default=True, init=False)  # whether its keys and values are new to the state
    visible: Visible | None = field(default=None, init=False)  # None: every stored key up to a row's own position
    logs: list[QueryLog] = field(default_factory=list, init=False)  # that set aside what they need of its queries
    active: list[tuple[int, Tensor]] = field(default_factory=list, init=False)  # prompt positions that passed each stop
    leaving: list[tuple[Tensor, int, Tensor | None]] = field(default_factory=list, init=False)
    joined: list[Tensor] = field(default_factory=list, init=False)  # prompt positions that came back
    num_repeated: int = field(default=0, init=False)  # token-layers

    def begin(self, pos: Tensor, rows: slice, stops: tuple[int, ...], looks: Iterable[Look]) -> None:
        """Start a pass at these rows, forgetting what the last one set."""
        self.plans, self.decisions, self.released_bytes, self.rows_per_layer = [], [], [], []
        self.pos, self.rows, self.stops = pos, rows, stops
        self.looks = {}
        for look in looks:
            self.looks.setdefault(look.layer, []).append(look)
        self.first = self.state.num_seen
        self.logs = [] if self.state.queries is None else [self.state.queries]
        self.num_repeated = 0
        self.forget()

    def forget(self) -> None:
        """Let go of what only the pass needs; a finished segment may be kept for long."""
        self.visible, self.active, self.leaving, self.joined = None, [], [], []
        self.looked = {}

    @property
    def num_logits(self) -> int:
        """Rows at the end whose logits are wanted; tokens that came back are never among them."""
        if self.logits == "last":
            return 1
        return min(self.pos.numel(), self.ids.numel())

    def observe(self, layer: int, num_layers: int) -> Observation:
        """What the planner may see after `layer` in the prefill."""
        assert self.prompt is not None
        newest = self.looked.get(Look(layer))
        generator = torch.Generator().manual_seed((self.seed * 1_000_003 + layer + 1) % 2**63)
        return Observation(
            layer,
            self.pos.clone(),
            self.prompt,
            generator,
            None if newest is None else newest.rows[:, 0],
            num_layers,
            looked=self.looked,
        )


def asks_again(planner: Planner | None) -> TypeGuard[StepPlanner]:
    """Whether the planner has something to say at the steps after the prefill."""
    aux = getattr(planner, "aux", None)
    return aux is not None and (aux != "off" or getattr(planner, "selection", None) == "per_step")


def stops_of(planner: Planner, num_layers: int) -> tuple[int, ...]:
    """The layers a planner asks for, checked."""
    layers = planner.layers(num_layers)
    if not isinstance(layers, tuple) or not all(type(layer) is int and 0 <= layer <= num_layers for layer in layers):
        raise bad(f"the layers of planner {planner.name}", layers, f"a tuple of numbers 0 to {num_layers}", _FAULT)
    return layers


def looks_of(
    planner: Planner, prompt: Prompt | None, stops: tuple[int, ...], num_layers: int, num_heads: int
) -> tuple[Look, ...]:
    """What a planner wants to see of the prefill, checked."""
    if planner.needs == "nothing":
        return ()
    if planner.needs == "last_query":
        return tuple(Look(layer) for layer in stops if layer)
    assert prompt is not None
    looks = tuple(planner.looks(prompt, num_layers))  # type: ignore[attr-defined]
    for look in looks:
        if not isinstance(look, Look) or not 1 <= look.layer <= num_layers:
            raise bad(f"a look of planner {planner.name}", look, f"a Look at a layer from 1 to {num_layers}", _FAULT)
        if not all(0 <= head < num_heads for head in look.heads or ()):
            raise bad(f"the heads of {planner.name}", look.heads, f"from 0 to {num_heads - 1}", _FAULT)
        if not all(0 <= row < len(prompt) for row in look.rows or ()) or look.rows == ():
            raise bad(f"the rows of {planner.name}", look.rows, f"positions from 0 to {len(prompt) - 1}", _FAULT)
        if look.reduce is not None and asks_again(planner):
            raise bad(f"reduce of a look of {planner.name}", look, "left out by planners that are asked again", _FAULT)
    return looks


def check_decision(decision: Decision, seen: Observation) -> Decision:
    """It is about this layer, and can go on a receipt."""
    if decision.layer != seen.layer:
        raise bad("decision.layer", decision.layer, f"{seen.layer}, the layer it was asked about", _FAULT)
    if not isinstance(decision.outcome, str) or not decision.outcome or not isinstance(decision.says, str):
        raise bad("decision.outcome", decision.outcome, "a few words", _FAULT)
    for name, value in decision.numbers.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            raise bad(f"decision.numbers[{name!r}]", value, "a finite number", _FAULT)
    return decision


def check_plan(plan: object, seen: Observation) -> tuple[Plan, Tensor]:
    """A plan is about this layer and keeps active positions, in order, and every protected one.

    Returns it and which of the prompt's tokens it keeps: [T] bool.
    """
    if not isinstance(plan, Plan):
        raise bad("plan", plan, "None, a Plan or a Decision", _FAULT)
    if type(plan.layer) is not int or plan.layer != seen.layer:
        raise bad("plan.layer", plan.layer, f"{seen.layer}, the layer it was asked about", _FAULT)
    if type(plan.release) is not bool:
        raise bad("plan.release", plan.release, "True or False", _FAULT)
    if not isinstance(plan.reason, str):
        raise bad("plan.reason", plan.reason, "a text", _FAULT)
    for name, value in (("plan.bound", plan.bound), ("plan.dual_gap", plan.dual_gap)):
        if value is not None and not (isinstance(value, (int, float)) and math.isfinite(value)):
            raise bad(name, value, "None or a finite number", _FAULT)
    if not isinstance(plan.keep, Tensor) or plan.keep.dtype != torch.int64 or plan.keep.dim() != 1:
        raise bad("plan.keep", plan.keep, "one row of int64 positions", _FAULT)
    if plan.score is not None and not (isinstance(plan.score, Tensor) and plan.score.shape == seen.pos.shape):
        raise bad("plan.score", plan.score, f"None or {seen.pos.numel()} numbers, one an active position", _FAULT)
    keep, size = plan.keep.cpu().numpy(), len(seen.prompt)  # numpy: a step has little time, and its calls cost less
    table = np.zeros(size, dtype=np.bool_)
    inside = keep.size > 0 and bool((keep[1:] > keep[:-1]).all()) and keep[0] >= 0 and keep[-1] < size
    if inside:
        table[keep] = True
        everything = seen.pos.numel() == size
        inside = everything or np.count_nonzero(table[seen.pos.cpu().numpy()]) == keep.size
    if not inside:
        legal = "an ascending, non-empty subset of the active positions"
        raise bad("plan.keep", plan.keep.tolist()[:8], legal, _FAULT)
    lost = seen.prompt.protected.numpy() & ~table  # the protected ones are active wherever it is asked
    if lost.any():
        places = np.flatnonzero(lost).tolist()[:8]
        raise bad("plan.keep", f"without {places}", "a superset of the protected positions", _FAULT)
    return plan, torch.from_numpy(table).to(seen.pos.device)
