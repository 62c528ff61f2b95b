"""The simple ways to leave prompt tokens out, each decided once and never taken back.

They are what a method has to beat: `RandomPrune` knows nothing, `EndsPrune` knows that beginnings and ends matter,
`StaticPrune` looks once at the attention of the newest position (the static token pruning of the LazyLLM paper,
section 4). What is dropped is gone: its keys and values are freed in the layers below as well, and no certificate is
given for any of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from fewer.prune.planner import Grain, at_layer, check_grain, plan_by_chunk, plan_by_token
from fewer.types import Keep, Observation, Plan, Prompt

__all__ = ["EndsPrune", "RandomPrune", "StaticPrune"]


@dataclass(frozen=True, slots=True)
class _Settings:
    """What the three have in common. keep: `256` tokens, `0.25` or `"25%"` of the prompt. layer: prune after it."""

    keep: int | float | str | Keep
    layer: int | None = None
    grain: Grain = "token"

    def __post_init__(self) -> None:
        object.__setattr__(self, "keep", Keep.parse(self.keep))
        check_grain(self.grain)

    @property
    def budget(self) -> Keep:
        """The parsed budget."""
        return Keep.parse(self.keep)

    def check(self, prompt: Prompt) -> None:
        """A budget of more tokens than the prompt has is BadInput."""
        self.budget.count(len(prompt))

    def describe(self) -> dict[str, str | int | float | None]:
        """The settings, for the receipt."""
        return {"keep": str(self.keep), "layer": self.layer, "grain": self.grain}


@dataclass(frozen=True, slots=True)
class RandomPrune(_Settings):
    """Keep a uniform random sample of the unprotected tokens, or of the chunks.

    layer: None is 0, before the first layer. The draw depends on (seed, layer) alone.
    """

    name: ClassVar[str] = "random"
    needs: ClassVar[Literal["nothing", "last_query"]] = "nothing"

    def layers(self, num_layers: int) -> tuple[int, ...]:
        """The one layer to be asked after."""
        return at_layer(0 if self.layer is None else self.layer, num_layers, lowest=0)

    def after(self, observation: Observation) -> Plan:
        """Draw what stays."""
        if self.grain == "chunk":
            order = torch.randperm(len(observation.prompt.chunks), generator=observation.generator)
            return plan_by_chunk(observation, self.budget, order.tolist(), "random chunks")
        free = _unprotected(observation)
        order = free[torch.randperm(free.numel(), generator=observation.generator)]
        return plan_by_token(observation, self.budget, order, "random tokens")


@dataclass(frozen=True, slots=True)
class EndsPrune(_Settings):
    """Keep the first and the last unprotected tokens (or chunks), half of the budget each.

    layer: None is 0, before the first layer.
    """

    name: ClassVar[str] = "ends"
    needs: ClassVar[Literal["nothing", "last_query"]] = "nothing"

    def layers(self, num_layers: int) -> tuple[int, ...]:
        """The one layer to be asked after."""
        return at_layer(0 if self.layer is None else self.layer, num_layers, lowest=0)

    def after(self, observation: Observation) -> Plan:
        """Take from the two ends in turn."""
        if self.grain == "chunk":
            order = _from_the_ends(torch.arange(len(observation.prompt.chunks)))
            return plan_by_chunk(observation, self.budget, order.tolist(), "first and last chunks")
        return plan_by_token(
            observation, self.budget, _from_the_ends(_unprotected(observation)), "first and last tokens"
        )


@dataclass(frozen=True, slots=True)
class StaticPrune(_Settings):
    """Keep what the newest position attends to most in one early layer, averaged over heads (one query row).

    layer: None is a third of the depth, at least 1. At the grain of chunks a chunk's score is the mean over its
    tokens. Ties keep the earlier position.
    """

    name: ClassVar[str] = "static"
    needs: ClassVar[Literal["nothing", "last_query"]] = "last_query"

    def layers(self, num_layers: int) -> tuple[int, ...]:
        """The one layer to be asked after."""
        return at_layer(max(1, num_layers // 3) if self.layer is None else self.layer, num_layers, lowest=1)

    def after(self, observation: Observation) -> Plan:
        """Rank by attention."""
        assert observation.attention is not None
        score = observation.attention.mean(0).cpu()  # [n]
        if self.grain == "chunk":
            pos = observation.pos.cpu()
            means = torch.stack(
                [score[(pos >= chunk.start) & (pos < chunk.stop)].mean() for chunk in observation.prompt.chunks]
                or [score.new_zeros(())]
            )
            order = means.argsort(descending=True, stable=True)[: len(observation.prompt.chunks)]
            return plan_by_chunk(observation, self.budget, order.tolist(), "most attended chunks")
        free = _unprotected(observation)
        order = free[score[free].argsort(descending=True, stable=True)]
        return plan_by_token(observation, self.budget, order, "most attended tokens")


def _unprotected(observation: Observation) -> Tensor:
    """Indices into `pos` of what may be dropped, ascending."""
    return (~observation.prompt.protected[observation.pos.cpu()]).nonzero().flatten()


def _from_the_ends(index: Tensor) -> Tensor:
    """First, last, second, second to last, and so on."""
    order = torch.empty_like(index)
    half = (index.numel() + 1) // 2
    order[0::2] = index[:half]
    order[1::2] = index[half:].flip(0)
    return order
