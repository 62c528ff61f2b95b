"""A claim of a study: what is estimated, from where on it holds, and what would kill it; fixed before the run."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from fewer.errors import bad
from fewer.study.arms import check_name
from fewer.study.sessions.doubts import DOUBTS
from fewer.study.sessions.legal import check_claim
from fewer.study.sessions.summaries import PREFIX
from fewer.study.signals import CERTIFICATES

__all__ = ["MEASURED_BY", "STRICT", "Claim", "Count", "Name", "Real", "Signal"]

STRICT = ConfigDict(extra="forbid", frozen=True, strict=False, allow_inf_nan=False)
Name = Annotated[str, Field(strict=True), AfterValidator(check_name)]
Count = Annotated[int, Field(strict=True, ge=1, lt=2**63)]
Real = Annotated[float, Field(strict=True)]  # whole numbers too, but no booleans and no texts
Signal = Literal["agreement", "margins", "nll", "evidence"]
MEASURED_BY: dict[str, Signal] = {
    "first_margin": "margins",
    "min_margin": "margins",
    "mean_logprob": "margins",
    "agreement": "agreement",
    "nll": "nll",
}  # what a claim may rank answers by, and the entry of `signals` that has it measured


class Claim(BaseModel):
    """A claim with what would make it true and what would kill it, fixed before the run.

    What is estimated, by `kind`: `difference`, arm minus reference in the outcome, paired by item; `level`, the arm's
    mean outcome; `speedup`, the reference's seconds to the first token over the arm's; `auc`, how well `signal` ranks
    the answers that have `outcome`; `recompute`, what the full run's answers in place of the most doubted add to the
    outcome, more than `over` adds. The claim holds where the interval's lower end is at least `at_least`, and
    is killed where its upper end is below `kill_below`; otherwise it is undecided.
    """

    model_config = STRICT

    id: Name
    statement: Annotated[str, Field(min_length=1)]
    kind: Literal["difference", "level", "speedup", "auc", "recompute"]
    arm: Name
    reference: Name = "full"
    tasks: tuple[Name, ...] = ()
    """The tasks it is about, pooled over items; none is all. Tasks that cannot carry claims are left out and named."""
    outcome: Name = "score"
    signal: Name | None = None
    also: tuple[Name, ...] = ()
    """auc and recompute: further arms, pooled with `arm`; answers of different policies or budgets are never paired."""
    among: Name | None = None
    """auc: only answers that have this outcome, such as the failures."""
    over: Name | None = None
    """auc: minus the area of this signal. recompute: minus what this signal adds, or `random`, in expectation."""
    rate: Annotated[Real, Field(gt=0, lt=1)] | None = None
    """recompute: the share of a policy's answers, at one budget, that are computed again."""
    within: Literal["task", "budget"] = "task"
    """auc: which answers are paired, those of one task and length, or all at one budget."""
    at_least: Real
    kill_below: Real
    level: Annotated[Real, Field(gt=0.5, lt=1)] = 0.95
    min_clusters: Annotated[Count, Field(ge=2)] = 10
    """With fewer clusters the claim is undecided, whatever the interval."""

    @model_validator(mode="after")
    def _check(self) -> Claim:
        if self.kill_below > self.at_least:
            legal = f"at most at_least = {self.at_least:g}"
            raise bad("kill_below", self.kill_below, legal, "A claim cannot hold and be killed at once.")
        if (self.kind in ("auc", "recompute")) != (self.signal is not None):
            raise bad("signal", self.signal, "given for auc and recompute, and only there", "Name a signal of the run.")
        known = dict.fromkeys((*MEASURED_BY, *CERTIFICATES, *DOUBTS))
        if self.signal is not None and self.signal not in known and not self.signal.startswith(PREFIX):
            legal = f"one of {', '.join(known)}, or a summary, {PREFIX}..."
            raise bad("signal", self.signal, legal, "Name one of the log's columns.")
        check_claim(self)
        if self.kind == "auc" and self.outcome == "score":
            raise bad("outcome", self.outcome, "a yes-or-no outcome of the study", "Define one under outcomes.")
        return self

    @model_serializer(mode="wrap")
    def _write(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Fields that came when there were registrations already are left out unless used: old hashes stay."""
        later = {"also": (), "among": None, "over": None, "rate": None, "within": "task"}
        unused = {name for name, default in later.items() if getattr(self, name) == default}
        return {name: value for name, value in write(self).items() if name not in unused}
