"""LazyLLM: leave prompt tokens out layer by layer, choose anew at every step, and bring back what is wanted.

After each layer of the schedule the prompt tokens that the newest position attends to most go on (equation 1: the mean
over heads of its one attention row), and the protected ones. The next step starts from all prompt tokens again; what
it keeps and was left out before is brought forward from its stored state, each layer once (section 3.2).

A schedule's fractions are of the prompt, so "70% after layer 10, 50% after 18" reads as the papers' figures do. Not
covered: any claim about what the tokens left out would have changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from fewer.errors import bad
from fewer.prune.planner import at_layer
from fewer.prune.schedule import PRESETS, parse_schedule
from fewer.types import Keep, Observation, Plan, Prompt
from fewer.types.number import check_number

__all__ = ["PRESETS", "LazyLLM"]

_AUX = ("keep", "recompute", "off")


@dataclass(frozen=True, slots=True)
class LazyLLM:
    """schedule: `{layer: keep, ...}`, `"10:70%, 18:50%"`, or a preset, which scales with the model's depth.

    aux: "keep" the hidden states of tokens left out; "recompute" them from the embedding when they come back; "off":
    none comes back. None is "keep", or "off" where `revive` is False. selection: "per_step" chooses by each step's own
    attention, "prefill" by the prefill's alone. revive: whether tokens come back; with selection "prefill" they do so
    at the next steps, best first, whatever these attend to.

    The gate also wants tokens that hardly differ from those it leaves out: on the embedded model over nine tenths of
    the tokens that it would bring back hold less than the mean attention, and together under 1% of it. So a token
    comes back only if its score is at least `revive_floor` times the mean over the active tokens, and at most
    `revive_limit` of them are computed at once, the best. The paper has neither: 0 and None.

    Raises BadInput for settings that contradict each other, and for a schedule that model or prompt cannot meet.
    """

    schedule: str | Mapping[int, int | float | str | Keep] | tuple[tuple[int | float, Keep], ...] = "balanced"
    aux: Literal["keep", "recompute", "off"] | None = None
    selection: Literal["per_step", "prefill"] = "per_step"
    revive: bool | None = None
    revive_limit: int | None = 16
    revive_floor: float = 1.0

    name: ClassVar[str] = "lazyllm"
    needs: ClassVar[Literal["nothing", "last_query"]] = "last_query"

    def __post_init__(self) -> None:
        object.__setattr__(self, "schedule", parse_schedule(self.schedule))
        if self.aux not in (None, *_AUX):
            raise bad("aux", self.aux, "one of " + ", ".join(_AUX), "Leave it out to keep the states.")
        if self.selection not in ("per_step", "prefill"):
            raise bad("selection", self.selection, "per_step or prefill", "Leave it out to choose at every step.")
        if self.revive not in (None, True, False) or (isinstance(self.revive, int) and type(self.revive) is not bool):
            raise bad("revive", self.revive, "True or False", "Leave it out to bring tokens back.")
        if self.revive is not None and self.aux is not None and self.revive != (self.aux != "off"):
            legal = "off where revive is False, keep or recompute where it is True"
            raise bad("aux", self.aux, legal, f"revive is {self.revive}; give one of the two.")
        object.__setattr__(self, "aux", self.aux or ("off" if self.revive is False else "keep"))
        object.__setattr__(self, "revive", self.aux != "off")
        if self.revive_limit is not None:
            check_number("revive_limit", self.revive_limit, int, 1, None, "Use None for no limit.")
        check_number("revive_floor", self.revive_floor, float, 0.0, None, "Use 0 to bring back all that is wanted.")

    def layers(self, num_layers: int) -> tuple[int, ...]:
        """The layers of the schedule."""
        return tuple(self.keeps(num_layers))

    def keeps(self, num_layers: int) -> dict[int, Keep]:
        """What each stop keeps, for a model of this depth."""
        assert isinstance(self.schedule, tuple)
        found: dict[int, Keep] = {}
        for place, keep in self.schedule:
            layer = max(1, round(place * num_layers)) if isinstance(place, float) else place
            at_layer(layer, num_layers, lowest=1)
            found[layer] = keep  # in a shallow model two stops of a preset may fall together: the later one holds
        return found

    def check(self, prompt: Prompt) -> None:
        """A budget of more tokens than the prompt has is BadInput, and so is one that grows with the depth."""
        assert isinstance(self.schedule, tuple)
        counts = [keep.count(len(prompt)) for _, keep in self.schedule]
        for (place, keep), before, count in zip(self.schedule[1:], counts, counts[1:], strict=False):
            if count > before:
                legal = f"at most the {before} tokens of the stop before"
                raise bad(f"what stays after {place}", f"{keep} ({count} tokens)", legal, "Keep fewer the deeper.")

    def describe(self) -> dict[str, str | int | float | None]:
        """The settings, for the receipt."""
        assert isinstance(self.schedule, tuple)
        return {
            "schedule": ", ".join(f"{place:g}:{keep}" for place, keep in self.schedule),
            "aux": self.aux,
            "selection": self.selection,
            "revive_limit": self.revive_limit if self.revive else None,
            "revive_floor": self.revive_floor if self.revive and self.selection == "per_step" else None,
        }

    def after(self, observation: Observation) -> Plan:
        """The gate: protected tokens and, up to the budget, those with the highest scores; ties keep the earlier."""
        keep = self.keeps(observation.num_layers)[observation.layer]
        budget = keep.count(len(observation.prompt))
        if observation.step == 0:
            assert observation.attention is not None
            score = observation.attention.mean(0)
            kept = self._best(observation, score, budget)
        elif self.selection == "prefill":
            score, kept = None, self._all_in_turn(observation)
        else:
            assert observation.attention is not None
            score = observation.attention.mean(0)
            kept = self._limit(observation, self._best(observation, score, budget), score, self.revive_floor)
        stays = observation.pos[kept]
        reason = f"most attended: {stays.numel()} of {observation.pos.numel()} active tokens go on, asked for {budget}"
        return Plan(observation.layer, stays, reason, release=False, score=score if observation.step == 0 else None)

    def _best(self, observation: Observation, score: Tensor, budget: int) -> Tensor:
        """[n] bool: what the gate lets through."""
        protected = observation.prompt.protected.to(score.device)[observation.pos]
        room = max(0, budget - int(protected.sum()), 0 if bool(protected.any()) else 1)
        return protected | highest(score.masked_fill(protected, float("-inf")), room)

    def _all_in_turn(self, observation: Observation) -> Tensor:
        """What the prefill chose and more of what it did not, in its order: all in the end."""
        assert observation.ready is not None
        assert observation.first_score is not None
        score = observation.first_score.clamp_min(-1.0)  # below every attention: what had not come this far
        return self._limit(observation, torch.ones_like(observation.ready), score, 0.0)

    def _limit(self, observation: Observation, kept: Tensor, score: Tensor, floor: float) -> Tensor:
        """`kept` without what may not come back now. What is on its way since an earlier stop is judged anew."""
        ready = observation.ready
        assert ready is not None
        if not self.revive:
            return kept & ready
        back = kept & ~ready
        if floor > 0:
            back &= score >= floor * score.mean()
        if self.revive_limit is not None and int(back.sum()) > self.revive_limit:
            back = highest(score.masked_fill(~back, float("-inf")), self.revive_limit)
        return (kept & ready) | back


def highest(score: Tensor, count: int) -> Tensor:
    """[n] bool: the `count` highest scores above -inf; of equal ones the earlier."""
    size = score.numel()
    if count <= 0:
        return torch.zeros(size, dtype=torch.bool, device=score.device)
    if count >= size:
        return score > float("-inf")
    threshold = score.kthvalue(size - count + 1).values
    above = score > threshold
    ties = ((score == threshold) & (score > float("-inf"))).nonzero().flatten()
    above[ties[: count - int(above.sum())]] = True
    return above
