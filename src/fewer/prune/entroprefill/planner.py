"""EntroPrefill as a planner: whole chunks leave in the middle of the prefill, or a reason is given why not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from fewer.errors import bad
from fewer.prune.entroprefill.calibrated import Calibrated, load_calibrated, shipped_calibrated
from fewer.prune.entroprefill.dual import load_solver
from fewer.prune.entroprefill.monitor import Monitor, fit_monitor, foreign, split_head, write_monitor
from fewer.prune.entroprefill.procedure import Verdict, decide, propose
from fewer.prune.entroprefill.settings import (
    GENERAL,
    PAPER,
    PARAMETERS,
    Settings,
    check_setting,
    check_together,
)
from fewer.prune.entroprefill.situation import Situation, why_not
from fewer.types import Decision, Keep, Look, Looked, ModelFacts, Observation, Plan, Prompt

__all__ = ["EntroPrefill"]


@dataclass(frozen=True, repr=False)
class EntroPrefill:
    """Remove whole chunks at the earliest monitored layer that passes constraints and audit; else leave nothing out.

    preset: "default" is the model's calibrated settings, or `general` where it has none; "paper" is Algorithm 1 with
    absolute tolerances on every head (`settings.PAPER` says where it is not as printed). profile: a calibration file,
    `auto` for the one that comes with the package for this model, or None. Every other setting overrides the preset's;
    `settings.PARAMETERS` has symbols, units and ranges. keep: of the whole prompt; the scan stops there. keep_at_most:
    where more would have to stay, nothing is pruned (None: as keep, where keep is given).

    What is removed is gone, in the layers below as well. What holds is what the receipt's decision says about the
    query's rows and the watched heads: exactly, or, where audit positions are drawn, by Theorem 5.1. It says nothing
    about deeper layers or the answer. Raises BadInput.
    """

    keep: int | float | str | Keep | None = None
    keep_at_most: int | float | str | Keep | None = None
    preset: Literal["default", "paper", "general"] = "default"
    profile: Literal["auto"] | str | Path | Calibrated | None = "auto"
    shortest: int | None = None
    monitor: Any = None
    observers: int | None = None
    choose_observers: Literal["suffix", "sample"] | None = None
    rows: Literal["each", "mean"] | None = None
    sinks: int | None = None
    tau: float | None = None
    zeta: float | None = None
    residual_min: float | None = None
    document_min: float | None = None
    smoothing: float | None = None
    concentration: float | None = None
    order: Literal["entropy", "mass", "row"] | None = None
    mass: Literal["absolute", "document"] | None = None
    tolerance: float | None = None
    min_chunks: int | None = None
    lift_at_most: float | None = None
    audit: Literal["auto", "exact", "hoeffding", "off"] | None = None
    audit_tolerance: float | None = None
    audit_draws: int | None = None
    exact_limit: int | None = None
    delta: float | None = None
    streak: int | None = None
    streak_change: float | None = None
    lp_seconds: float | None = None
    seed: int | None = None
    facts: ModelFacts | None = None  # of the model it was fitted to

    name: ClassVar[str] = "entroprefill"
    needs: ClassVar[Literal["looks"]] = "looks"
    acts_once: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.preset not in ("default", "paper", "general"):
            raise bad("preset", self.preset, "default, paper or general", "Leave it out for default.")
        named = self.profile is None or isinstance(self.profile, (str, Path, Calibrated))
        if not named or (isinstance(self.profile, str) and not self.profile.strip()):
            raise bad("profile", self.profile, "auto, None, a file or a Calibrated", "Leave it out for auto.")
        if self.preset != "default" and self.profile not in ("auto", None):
            raise bad("profile", str(self.profile), f"left out with preset {self.preset}", "It is for the default.")
        for name in PARAMETERS:
            if (value := getattr(self, name)) is not None:
                object.__setattr__(self, name, check_setting(name, value))
        if self.facts is None:
            check_together(self._given, self._given)

    def __repr__(self) -> str:
        """What is set, with `monitor` and budgets as they are written."""
        shown: dict[str, Any] = {
            field.name: value
            for field in fields(self)
            if field.name != "facts" and (value := getattr(self, field.name)) != field.default
        }
        if self.monitor is not None:
            shown["monitor"] = write_monitor(self.monitor)
        if isinstance(self.profile, Calibrated):
            shown["profile"] = self.profile.title
        shown = {name: str(value) if isinstance(value, (Keep, Path)) else value for name, value in shown.items()}
        words = f"EntroPrefill({', '.join(f'{name}={value!r}' for name, value in shown.items())})"
        return words if self.facts is None else f"{words} fitted to {self.facts.name}"

    @property
    def _given(self) -> dict[str, Any]:
        """The settings that were set here."""
        return {name: value for name in PARAMETERS if (value := getattr(self, name)) is not None}

    def fitted(self, facts: ModelFacts) -> EntroPrefill:
        """The planner for this model, with its calibration, with places as layers, and with the solver loaded."""
        load_solver()
        values = dict(PAPER if self.preset == "paper" else GENERAL)
        found: Calibrated | None = None
        if self.preset == "default":
            if isinstance(self.profile, Calibrated):
                found = self.profile
            elif self.profile == "auto":
                found = shipped_calibrated(facts.fingerprint)
            elif self.profile is not None:
                found = load_calibrated(self.profile)
        if found is not None:
            found.check_model(facts)
            values |= found.settings
        given = self._given
        if self.facts is None:
            check_together(given, {**values, **given})
        if "keep" in given and "keep_at_most" not in given:
            given["keep_at_most"] = given["keep"]
        values |= given
        heads = fit_monitor(check_setting("monitor", values["monitor"]), facts)
        if values["streak"] >= len(heads):
            legal = f"at most {len(heads) - 1}, since monitor has {len(heads)} layer{'s' * (len(heads) != 1)}"
            raise bad("streak", values["streak"], legal, "Monitor more layers, or lower it; else nothing ever leaves.")
        values["monitor"] = tuple((layer, layer, chosen) for layer, chosen in heads.items())
        return replace(self, **values, profile=found, facts=facts)

    @cached_property
    def settings(self) -> Settings:
        """All of them, with values. Raises BadInput before `fitted`."""
        if self.facts is None:
            raise bad("facts", None, "those of a model", "Use planner.fitted(engine.adapter.facts); the engine does.")
        return Settings(**{field.name: getattr(self, field.name) for field in fields(Settings)})

    @cached_property
    def heads(self) -> dict[int, tuple[int, ...]]:
        """The monitored heads by layer."""
        assert self.facts is not None
        monitor: Monitor = self.settings.monitor
        return fit_monitor(monitor, self.facts)

    def layers(self, num_layers: int) -> tuple[int, ...]:
        """The monitored layers; before `fitted`, none but those that are named."""
        if self.facts is not None:
            return tuple(self.heads)
        facts = ModelFacts("", "", num_layers, 10_000, 1, (None,) * num_layers)
        return () if self.monitor is None else tuple(fit_monitor(self.monitor, facts))

    def declines(self, prompt: Prompt) -> str | None:
        """Why nothing is asked about this prompt, if so."""
        if len(prompt) < (self.shortest or 0):
            return f"the prompt has {len(prompt)} tokens, fewer than shortest asks for ({self.shortest})"
        if (why := why_not(prompt, self.min_chunks or 0)) is None and isinstance(self.keep, Keep):
            why = "the budget covers every token" if self.keep.count(len(prompt)) == len(prompt) else None
        return why

    def check(self, prompt: Prompt) -> None:
        """A budget of more tokens than the prompt has is BadInput; so is one that leaves more than it allows."""
        settings = self.settings
        if self.declines(prompt):
            return
        size = len(prompt)
        keep, most = settings.keep.count(size), settings.keep_at_most.count(size)
        if keep > most:
            shown = f"{settings.keep_at_most} ({most} tokens)"
            raise bad("keep_at_most", shown, f"at least the {keep} tokens of keep", "Raise it, or leave it out.")

    def looks(self, prompt: Prompt, num_layers: int) -> tuple[Look, ...]:
        """All heads of the monitored layers, and those of earlier ones, at the positions that propose and audit."""
        if self.declines(prompt):
            return ()
        positions = Situation.of(self.settings, self.heads, prompt).positions
        return tuple(dict.fromkeys(look for layer in self.heads for look in self._looks(layer, positions)))

    def _looks(self, layer: int, positions: tuple[int, ...]) -> list[Look]:
        """For one monitored layer: all its own heads, and then the watched ones of earlier layers, in order."""
        others: dict[int, list[int]] = {}
        for code in foreign(self.heads[layer]):
            before, head = split_head(code)
            assert before is not None
            others.setdefault(before, []).append(head)
        return [Look(layer, None, positions), *(Look(each, tuple(heads), positions) for each, heads in others.items())]

    def after(self, observation: Observation) -> Plan | Decision | None:
        """Algorithm 1 at this layer. After an acceptance, and for prompts it declines, nothing is asked."""
        prompt = observation.prompt
        if observation.pos.numel() < len(prompt) or self.declines(prompt):
            return None
        return self.answer(observation, self.judge(prompt, observation.layer, observation.looked))

    def answer(self, observation: Observation, verdict: Verdict) -> Plan | Decision:
        """What a verdict on this layer means for the rows that are active."""
        prompt = observation.prompt
        decision = Decision(observation.layer, verdict.outcome, verdict.numbers, verdict.says)
        if verdict.outcome != "accepted":
            return decision
        assert verdict.proposal.removal is not None
        candidates = Situation.of(self.settings, self.heads, prompt).candidates
        stays = torch.ones(len(prompt), dtype=torch.bool)
        for index in np.flatnonzero(verdict.proposal.removal.removed).tolist():
            stays[candidates.starts[index] : candidates.stops[index]] = False
        return Plan(
            observation.layer,
            stays.nonzero().flatten().to(observation.pos.device),
            f"{verdict.numbers['removed_chunks']:.0f} of {len(candidates)} chunks removed",
            bound=verdict.numbers.get("audit_bound"),
            dual_gap=verdict.numbers["dual_gap"],
            decision=decision,
        )

    def judge(self, prompt: Prompt, layer: int, looked: Mapping[Look, Looked]) -> Verdict:
        """The verdict on one layer, from what was seen there and, for a streak, at the monitored layers before."""
        assert self.facts is not None
        situation, groups = Situation.of(self.settings, self.heads, prompt), self.facts.num_kv_heads

        def rows(at: int) -> Tensor:
            seen = [looked[look].rows for look in self._looks(at, situation.positions)]
            return seen[0] if len(seen) == 1 else torch.cat(seen)

        before = [each for each in self.heads if each < layer] if situation.settings.streak else []
        earlier = [propose(situation, each, situation.pick_observers(rows(each)), groups) for each in before]
        return decide(situation, layer, rows(layer), groups, earlier)

    def pooled_rows(self, prompt: Prompt, layer: int, looked: Mapping[Look, Looked]) -> tuple[Tensor, Tensor]:
        """What is pooled at a layer, for an explanation: the observers' rows of its own heads, and the sinks [T]."""
        situation = Situation.of(self.settings, self.heads, prompt)
        rows = looked[Look(layer, None, situation.positions)].rows
        return situation.pick_observers(rows), situation.sinks(rows.device)

    def describe(self) -> dict[str, str | int | float | None]:
        """The settings, for the receipt."""
        shown: dict[str, str | int | float | None] = {"preset": self.preset}
        shown["profile"] = self.profile.title if isinstance(self.profile, Calibrated) else str(self.profile or "none")
        for name in PARAMETERS:
            value = getattr(self, name)
            if name == "monitor" and value is not None:
                value = write_monitor(value)
            if value is not None or self.facts is not None:
                shown[name] = str(value) if isinstance(value, Keep) else value
        return shown
