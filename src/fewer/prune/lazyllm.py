"""LazyLLM: leave prompt tokens out layer by layer, choose anew at every step, and bring back what is wanted.

After each layer of the schedule the prompt tokens with the highest scores go on, and the protected ones. In the paper
the score is the mean over heads of the newest position's attention (equation 1); with a profile it comes from the few
heads that calibration found. The next step starts from all prompt tokens again; what it keeps and was left out is
brought forward from its stored state, each layer once (section 3.2).

A schedule's fractions are of the prompt, so "70% after layer 10, 50% after 18" reads as the papers' figures do. Not
covered: any claim about what the tokens left out would have changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from fewer.errors import BadInput, bad
from fewer.prune.gate import Flags, choose_best, hold_back
from fewer.prune.profile import Profile, load_profile, shipped_profile
from fewer.prune.schedule import (
    Schedule,
    as_preset,
    find_layer,
    fit_preset,
    list_stops,
    parse_schedule,
    write_schedule,
)
from fewer.types import Keep, Look, ModelFacts, Observation, Plan, Prompt
from fewer.types.number import check_number

__all__ = ["LazyLLM"]

_AUX = ("keep", "recompute", "off")
_MOST_ROWS = 256
_LIMIT, _FLOOR = 16, 1.0


@dataclass(frozen=True, slots=True)
class LazyLLM:
    """schedule: `{layer: keep, ...}`, `"10:70%, 18:50%"`, or a preset, which scales with the model's depth.

    A layer may be a fraction of the depth, below 1. keep: `0.7` or `"70%"` of the prompt, up to 1.0; `256` tokens.

    profile: "auto" takes the one that comes with the package for the model, if there is one, and its presets; "none"
    or None is the paper's score; otherwise a file made by `fewer calibrate`. Another model's is refused.

    aux: "keep" the hidden states of tokens left out; "recompute" them from the embedding when they come back; "off":
    none comes back. None is "keep", or "off" where `revive` is False. A recomputed state is what the token makes of the
    present choice: with one stop that is the stored state, with more it may differ. revive: another way to say aux
    "keep" or "off".

    selection: "per_step" chooses by each step's own attention, "prefill" by the prefill's alone; then tokens come back
    at the next steps, best first, whatever these attend to, until all are there. Without revival a step sees those of
    its choice that are there: fewer than its budget, since there is only what the prefill chose.

    The gate also wants tokens that hardly differ from those it leaves out: on the embedded model over nine tenths of
    the tokens that it would bring back hold less than the mean attention, and together under 1% of it. So a token
    comes back only if its score is at least `revive_floor` times the mean over the active tokens, and at most
    `revive_limit` of them are computed at once, the best. The paper has neither: 0 and None.

    A prompt of fewer than `shortest` tokens is computed whole: choosing would cost more than it saves.

    In a layer with a sliding window the newest position does not see the whole prompt, so stops belong after layers
    without one: presets move to the nearest, other schedules are refused, unless the prompt fits into the window. Where
    all layers above have windows, tokens that no later position can depend on leave first.

    Raises BadInput for settings that contradict each other, and for a schedule that model or prompt cannot meet.
    """

    schedule: str | Mapping[int, int | float | str | Keep] | Schedule = "balanced"
    aux: Literal["keep", "recompute", "off"] | None = None
    selection: Literal["per_step", "prefill"] = "per_step"
    revive: bool | None = None
    revive_limit: int | None = _LIMIT
    revive_floor: float = _FLOOR
    profile: Literal["auto"] | str | Path | Profile | None = "auto"
    shortest: int = 256
    facts: ModelFacts | None = None  # of the model it was fitted to
    schedule_name: str | None = None  # once fitted: the preset that the schedule stands for

    name: ClassVar[str] = "lazyllm"

    def __post_init__(self) -> None:
        object.__setattr__(self, "schedule", as_preset(self.schedule) or parse_schedule(self.schedule))
        if self.aux not in (None, *_AUX):
            raise bad("aux", self.aux, "one of " + ", ".join(_AUX), "Leave it out to keep the states.")
        if self.selection not in ("per_step", "prefill"):
            raise bad("selection", self.selection, "per_step or prefill", "Leave it out to choose at every step.")
        if self.revive is not None and type(self.revive) is not bool:
            raise bad("revive", self.revive, "True or False", "Leave it out to bring tokens back.")
        if self.revive is not None and self.aux is not None and self.revive != (self.aux != "off"):
            legal = "off where revive is False, keep or recompute where it is True"
            raise bad("aux", self.aux, legal, f"revive is {self.revive}; give one of the two.")
        object.__setattr__(self, "aux", self.aux or ("off" if self.revive is False else "keep"))
        object.__setattr__(self, "revive", self.aux != "off")
        if self.revive_limit is not None:
            check_number("revive_limit", self.revive_limit, int, 1, None, "Use None for no limit.")
        check_number("revive_floor", self.revive_floor, float, 0.0, None, "Use 0 to bring back all that is wanted.")
        if self.revive_limit != _LIMIT and not self.revive:
            raise bad("revive_limit", self.revive_limit, "left out where nothing comes back", "Drop it, or aux off.")
        if self.revive_floor != _FLOOR and (not self.revive or self.selection == "prefill"):
            legal = "left out where nothing comes back, or whatever its score"
            raise bad("revive_floor", self.revive_floor, legal, "Drop it, or choose per_step with aux keep.")
        check_number("shortest", self.shortest, int, 0, None, "Use 0 to prune prompts of any length.")
        if self.facts is not None and not isinstance(self.facts, ModelFacts):
            raise bad("facts", self.facts, "ModelFacts or None", "Leave it out: fitted fills it in.")
        if self.schedule_name is not None and self.facts is None:
            raise bad("schedule_name", self.schedule_name, "left out before fitted", "Give the preset as schedule.")
        word = self.profile.strip().lower() if isinstance(self.profile, str) else None
        if word == "" or not (self.profile is None or isinstance(self.profile, (str, Path, Profile))):
            raise bad("profile", self.profile, "auto, none, or a profile's file", "Leave it out for auto.")
        if word in ("auto", "none"):
            object.__setattr__(self, "profile", "auto" if word == "auto" else None)

    @property
    def needs(self) -> Literal["last_query", "looks"]:
        """The newest row of the layer, or the profile's heads."""
        return "looks" if isinstance(self.profile, Profile) else "last_query"

    def fitted(self, facts: ModelFacts) -> LazyLLM:
        """The planner for this model: with its profile, and with presets as layers."""
        profile = self.profile
        if profile == "auto":
            profile = shipped_profile(facts.fingerprint)
        elif isinstance(profile, (str, Path)):
            profile = load_profile(profile)
        if isinstance(profile, Profile):
            profile.check_model(facts)
        schedule, name = self.schedule, self.schedule_name
        if isinstance(schedule, str):
            name = schedule
            text = profile.preset(schedule) if isinstance(profile, Profile) else schedule
            schedule = fit_preset(parse_schedule(text), facts)
        planner = replace(self, schedule=schedule, profile=profile, facts=facts, schedule_name=name)
        planner.layers(facts.num_layers)
        if isinstance(profile, Profile):
            for place, _ in planner._stops:
                profile.score_at(find_layer(place, facts.num_layers), place)
        return planner

    def layers(self, num_layers: int) -> tuple[int, ...]:
        """The layers of the schedule."""
        return tuple(self.keeps(num_layers))

    def keeps(self, num_layers: int) -> dict[int, Keep]:
        """What each stop keeps, for a model of this depth. Before `fitted` a preset is the one without a profile."""
        stops = self._stops
        if isinstance(self.schedule, str):
            stops = fit_preset(stops, ModelFacts("", "", num_layers, 1, 1, (None,) * num_layers))
        return list_stops(stops, num_layers)

    @property
    def _stops(self) -> Schedule:
        schedule = self.schedule
        return schedule if isinstance(schedule, tuple) else parse_schedule(schedule)

    def declines(self, prompt: Prompt) -> str | None:
        """Why nothing is left out of this prompt, if so."""
        if len(prompt) < self.shortest:
            return f"the prompt has {len(prompt)} tokens; below {self.shortest} choosing costs more than it saves"
        return "every token is protected" if bool(prompt.protected.all()) else None

    def looks(self, prompt: Prompt, num_layers: int) -> tuple[Look, ...]:
        """With a profile: its heads, and the rows behind the last unprotected token, the newest 256 at most."""
        assert isinstance(self.profile, Profile)
        if self.declines(prompt):
            return ()
        size = len(prompt)
        first = int((~prompt.protected).nonzero()[-1]) + 1
        rows = tuple(range(min(size - 1, max(first, size - _MOST_ROWS)), size))
        found = [look for layer in self.layers(num_layers) for look in self.profile.score_at(layer).looks(rows)]
        return tuple(dict.fromkeys(found))

    def check(self, prompt: Prompt) -> None:
        """A budget of more tokens than the prompt has is BadInput; so is one that grows with the depth."""
        if self.declines(prompt):
            return
        stops = self._stops
        counts = [_count(place, keep, len(prompt)) for place, keep in stops]
        for (place, keep), before, count in zip(stops[1:], counts, counts[1:], strict=False):
            if count > before:
                legal = f"at most the {before} tokens of the stop before"
                raise bad(f"what stays after {place}", f"{keep} ({count} tokens)", legal, "Keep fewer the deeper.")
        facts = self.facts
        for place, _ in stops if facts else ():
            assert facts is not None
            layer = find_layer(place, facts.num_layers)
            window = facts.windows[layer - 1]
            if window is not None and window < len(prompt):
                found = [layer for layer in facts.global_layers if layer < facts.num_layers]
                legal = f"a layer without a sliding window ({', '.join(map(str, found)) or 'there is none'})"
                way_out = f"Layer {layer} sees {window} positions and the prompt has {len(prompt)}."
                raise bad("a layer of the schedule", place, legal, way_out)

    def describe(self) -> dict[str, str | int | float | None]:
        """The settings, for the receipt. Before `fitted` the schedule of a preset is its name."""
        preset = self.schedule if isinstance(self.schedule, str) else None
        return {
            "preset": preset or self.schedule_name,
            "schedule": preset or write_schedule(self._stops),
            "aux": self.aux,
            "selection": self.selection,
            "revive_limit": self.revive_limit if self.revive else None,
            "revive_floor": self.revive_floor if self.revive and self.selection == "per_step" else None,
            "shortest": self.shortest,
            "profile": self.profile.title if isinstance(self.profile, Profile) else str(self.profile or "none"),
        }

    def after(self, observation: Observation) -> Plan | None:
        """The gate: protected tokens and, up to the budget, those with the highest scores; ties keep the earlier."""
        first = observation.step == 0
        pos, prompt = observation.pos, observation.prompt
        if first and self.declines(prompt):
            return None
        budget = self.keeps(observation.num_layers)[observation.layer].count(len(prompt))
        protected: Flags = prompt.protected.numpy()
        if pos.numel() < len(prompt):
            protected = protected[pos.cpu().numpy()]
        num_protected = int(np.count_nonzero(protected))
        if not first and self.selection == "prefill":
            score, kept = None, self._all_in_turn(observation)
        else:
            score = self._score(observation)
            lost = self._lost(observation)
            gone = None if lost is None else lost.cpu().numpy()
            kept = choose_best(score.cpu().numpy(), budget, protected, num_protected, gone)
            if not first:
                kept = self._limit(observation, kept, score, self.revive_floor)
        stays = pos.index_select(0, torch.from_numpy(np.flatnonzero(kept)).to(pos.device))
        reason = f"best of {pos.numel()} active tokens: {stays.numel()} go on, asked for {budget}"
        if num_protected > budget:
            reason += f"; {num_protected} are protected and always stay"
        return Plan(observation.layer, stays, reason, release=False, score=score if first else None)

    def _score(self, observation: Observation) -> Tensor:
        """[n]: the paper's, or the profile's. A later step adds what its newest row sees to what the question saw."""
        if not isinstance(self.profile, Profile):
            assert observation.attention is not None
            return observation.attention.mean(0)
        score = self.profile.score_at(observation.layer)
        if observation.step == 0:
            return self.profile.rank(score, observation.looked, observation.pos, observation.prompt)
        assert observation.first_score is not None
        newest = self.profile.add_up(score, observation.looked, observation.pos, observation.prompt)
        return observation.first_score.clamp_min(0.0) + newest

    def _lost(self, observation: Observation) -> Tensor | None:
        """[n] bool, where all layers above have windows: the positions on which no later one can depend any more."""
        above = self.facts.windows[observation.layer :] if self.facts else (None,)
        if any(window is None for window in above):
            return None
        newest = len(observation.prompt) - 1 + observation.step
        return observation.pos < newest - sum(window - 1 for window in above if window is not None)

    def _all_in_turn(self, observation: Observation) -> Flags:
        """What the prefill chose and more of what it did not, in its order: all in the end."""
        assert observation.first_score is not None
        score = observation.first_score.clamp_min(-1.0)  # below every attention: what had not come this far
        return self._limit(observation, np.ones(score.numel(), dtype=np.bool_), score, 0.0)

    def _limit(self, observation: Observation, kept: Flags, score: Tensor, floor: float) -> Flags:
        """`kept` without what may not come back now. What is on its way since an earlier stop is judged anew."""
        assert observation.ready is not None
        ready: Flags = observation.ready.cpu().numpy()
        if not self.revive:
            return kept & ready
        return hold_back(kept, ready, score.cpu().numpy(), floor, self.revive_limit)


def _count(place: int | float, keep: Keep, num_tokens: int) -> int:
    try:
        return keep.count(num_tokens)
    except BadInput as error:
        raise error.renamed(f"what stays after {place}") from None
