"""EntroPrefill with its verdicts written down: acting as it would, or only saying what it would do at every layer."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Literal

from fewer.prune.entroprefill.agreement import compare_rows
from fewer.prune.entroprefill.planner import EntroPrefill
from fewer.prune.entroprefill.procedure import Verdict
from fewer.types import Decision, Look, Observation, Plan, Prompt

__all__ = ["Watch"]


class Watch:
    """A planner for one prompt around one that is fitted. acts: chunks leave where they would; else nothing leaves.

    Without acting, layers behind an acceptance are judged as if there had been none. Where positions are drawn, Theorem
    5.1 covers them all, since its bound counts every monitored layer. Verdicts have their `agreement` then.
    """

    name: ClassVar[str] = EntroPrefill.name
    needs: ClassVar[Literal["looks"]] = "looks"

    def __init__(self, planner: EntroPrefill, acts: bool) -> None:
        self.planner, self.acts = planner, acts
        self.verdicts: list[Verdict] = []

    def layers(self, num_layers: int) -> tuple[int, ...]:
        """The monitored ones."""
        return self.planner.layers(num_layers)

    def check(self, prompt: Prompt) -> None:
        """As the planner does."""
        self.planner.check(prompt)

    def looks(self, prompt: Prompt, num_layers: int) -> tuple[Look, ...]:
        """As the planner does."""
        return self.planner.looks(prompt, num_layers)

    def after(self, observation: Observation) -> Plan | Decision | None:
        """The verdict is kept; what comes of it only where this acts."""
        prompt = observation.prompt
        if observation.pos.numel() < len(prompt) or self.planner.declines(prompt):
            return None
        verdict = self.planner.judge(prompt, observation.layer, observation.looked)
        pooled = verdict.proposal.pooled
        if not self.acts and pooled.finite:
            rows, sinks = self.planner.pooled_rows(prompt, observation.layer, observation.looked)
            verdict = replace(verdict, agreement=compare_rows(rows, sinks, pooled.mu))
        self.verdicts.append(verdict)
        return self.planner.answer(observation, verdict) if self.acts else None

    def describe(self) -> dict[str, str | int | float | None]:
        """As the planner does."""
        return self.planner.describe()
