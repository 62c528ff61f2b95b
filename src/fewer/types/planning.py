"""What a planner sees, what it answers, and what it has to be. `n` is the number of rows still active."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

import torch
from torch import Tensor

from fewer.types.prompt import Prompt

__all__ = ["Decision", "Look", "Looked", "Observation", "Plan", "Planner", "StepPlanner"]


@dataclass(frozen=True, slots=True)
class Look:
    """Attention rows that a planner wants to see. heads: None is all of them. rows: positions that are active there.

    rows None is the newest position; after the prefill it is always that one. reduce: what to keep of the rows where
    many are asked for, in the prefill alone: it gets some at a time, [heads, m, n], with their positions [m], and
    returns a few numbers for each, [heads, m, c]. Equal looks have one and the same function.
    """

    layer: int  # 1..L
    heads: tuple[int, ...] | None = None
    rows: tuple[int, ...] | None = None
    reduce: Callable[[Tensor, Tensor], Tensor] | None = None


@dataclass(frozen=True, slots=True)
class Looked:
    """What was seen: of each head and row the attention to the prompt tokens that were active at that layer."""

    pos: Tensor  # [n] int64, ascending
    rows: Tensor  # [heads, m, n] in at least float32; or [heads, m, c], what the look's `reduce` made of them


@dataclass(frozen=True, slots=True)
class Observation:
    """What a planner may look at after a layer. Built only when the planner asked for this layer.

    `attention` is None unless the planner's `needs` is "last_query"; `looked` has what it wanted to see of this layer
    and the ones before, where `needs` is "looks". `ready` and `first_score` are for planners that
    are asked again after the prefill: None in the prefill.
    """

    layer: int  # 1..L; 0 is the embedding
    pos: Tensor  # [n] int64: positions of the prompt tokens still active, ascending
    prompt: Prompt
    generator: torch.Generator  # seeded by (seed, layer, step); on the CPU
    attention: Tensor | None = None  # [heads, n] float32: the newest position's attention row of this layer
    num_layers: int = 0
    step: int = 0  # 0 is the prefill
    ready: Tensor | None = None  # [n] bool: keys and values exist in the layer above; going on costs nothing
    first_score: Tensor | None = None  # [n] float32: `score` of the prefill's plan here; -inf where it was not active
    looked: Mapping[Look, Looked] = field(default_factory=dict)

    @property
    def protected(self) -> Tensor:
        """Which of the active tokens no plan may leave out: [n] bool."""
        return self.prompt.protected.to(self.pos.device)[self.pos]


@dataclass(frozen=True, slots=True)
class Decision:
    """What came of being asked after a layer, with the numbers that decided; whether tokens left or not."""

    layer: int
    outcome: str  # a few words out of a planner's own list, the same for the same reason
    numbers: Mapping[str, float] = field(default_factory=dict)  # finite, by name; units are the planner's
    says: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a planner decided after a layer and what it can prove about it."""

    layer: int
    keep: Tensor  # [k] int64: positions that go deeper, ascending
    reason: str = ""
    release: bool = True  # free the dropped tokens' keys and values in layers 1..layer as well
    bound: float | None = None  # an upper bound on what the removal costs, where the planner has one
    dual_gap: float | None = None
    score: Tensor | None = None  # [n] float32: what the choice was made by, if it is wanted at later steps
    decision: Decision | None = None


class Planner(Protocol):
    """Decides after chosen layers which prompt tokens go deeper. A pure function of the observation."""

    @property
    def name(self) -> str:
        """Its name on the command line and on receipts."""
        ...

    @property
    def needs(self) -> Literal["nothing", "last_query", "looks"]:
        """What has to be in the observation; with "looks" it has a method `looks(prompt, num_layers)`: Looks."""
        ...

    def layers(self, num_layers: int) -> tuple[int, ...]:
        """The layers to be asked after, ascending; raises BadInput when one is out of the model's range."""
        ...

    def check(self, prompt: Prompt) -> None:
        """Raise BadInput for settings that this prompt cannot meet. Asked before anything runs."""
        ...

    def after(self, observation: Observation) -> Plan | Decision | None:
        """Which positions go on; or why things stay as they are, or None to say nothing."""
        ...

    def describe(self) -> dict[str, str | int | float | None]:
        """The settings, for the receipt."""
        ...

    # A planner may also have `fitted(facts: ModelFacts)`, which returns the planner to use for that model, and
    # `declines(prompt)`, which says why it will leave nothing out, or None. Where its `acts_once` is true, nothing is
    # looked at for it above a layer where it left something out.


class StepPlanner(Planner, Protocol):
    """A planner that is asked again at every step after the prefill, and may bring tokens back.

    Its plans do not release. Each step starts from all prompt tokens; a plan keeps some of the active ones, ready or
    not; what is not ready is computed first. `after` sees every step; the first is the prefill.
    """

    @property
    def aux(self) -> Literal["keep", "recompute", "off"]:
        """Keep the states of tokens left out; or run those that come back from the embedding; or never bring back."""
        ...

    @property
    def selection(self) -> Literal["per_step", "prefill"]:
        """Whether later steps choose by their own attention, or see the prefill's scores alone."""
        ...
