"""What was decided about the tokens left out, and what can be claimed about them.

A plan may carry a bound in its planner's own unit. The certificate is the one claim about the answer as a whole.
Not covered: whether a claim is true. That is shown where the claim is made; a receipt only carries it.
"""

from __future__ import annotations

from math import isclose
from statistics import fmean
from typing import Annotated, Literal

from pydantic import BaseModel, Field, model_validator

from fewer.errors import bad
from fewer.receipt.fields import STRICT, Count, Number, Text
from fewer.types import FIRST_STEPS

NOTHING_CLAIMED = "nothing is claimed about the tokens left out"


class PlanRecord(BaseModel):
    """One decision of the pruning: which prompt tokens went no deeper than a layer."""

    model_config = STRICT

    layer: Count
    """The tokens were dropped after this layer; 0 is the embedding."""
    num_kept: Count
    """Tokens that went deeper."""
    num_dropped: Count
    """Tokens that did not."""
    reason: Text
    """Why, in the planner's words; may be empty."""
    released_bytes: Count
    """Bytes of keys and values freed in this layer and the ones before it."""
    bound: Number | None
    """An upper bound on what the removal costs, in the planner's own unit, or null where it has none."""
    dual_gap: Number | None
    """How far the plan may be from the planner's best one, or null where it has no such number."""


class DecisionRecord(BaseModel):
    """What came of asking a planner after a layer, whether tokens left or not."""

    model_config = STRICT

    layer: Count
    """It was asked after this layer; 0 is the embedding."""
    outcome: Text
    """In a few words, the same for the same reason."""
    says: Text
    """In the planner's words; may be empty."""
    numbers: dict[str, Number]
    """What it decided by, in the planner's own units."""


class CertificateRecord(BaseModel):
    """What can be claimed about the part left out. `CertificateRecord.none()` claims nothing, and is legal.

    Only a bound holds for certain. An estimate is a number of the sampling design, averaged over layers and heads: it
    ranks answers by how much the cache may have hurt, and an average of radii bounds no error of anything.
    """

    model_config = STRICT

    kind: Literal["none", "bound", "estimate", "calibrated"]
    """none: no claim. bound: a largest error, for certain. estimate: errors at level delta, computed from known
    inclusion probabilities, with coverage that was measured and not proven. calibrated: estimates times a factor that
    was found on other data, which the assumptions name."""
    delta: Annotated[Number, Field(gt=0, lt=1)] | None
    """The level: at most this share of errors is meant to exceed its radius; null for none and for bound."""
    radius: Annotated[Number, Field(ge=0)] | None
    """The number claimed, in the unit that `says` names: for estimates the largest of the first six of `steps`."""
    mean: Annotated[Number, Field(ge=0)] | None
    """The mean of `steps`; null for none and for bound."""
    largest: Annotated[Number, Field(ge=0)] | None
    """The largest of `steps`; null for none and for bound."""
    per_layer: tuple[Annotated[Number, Field(ge=0)], ...] | None
    """The same for each layer, or null; for estimates averaged over heads, each layer at its largest of six steps."""
    steps: tuple[Annotated[Number, Field(ge=0)], ...]
    """The radius of each decode step since the first compression, averaged over layers and heads; may be empty."""
    clipped: Annotated[Number, Field(ge=0)] | None
    """As radius, every radius of a layer and head counted as 1 where it is above 1, before the average; null for none
    and for bound. It changes less from draw to draw: a few heads whose radii are in the tens do not make up the mean.
    Where kind is calibrated, times the same factor."""
    clipped_per_layer: tuple[Annotated[Number, Field(ge=0)], ...] | None
    """per_layer with the same clipping; null for none and for bound."""
    clipped_steps: tuple[Annotated[Number, Field(ge=0)], ...]
    """steps with the same clipping; empty for none and for bound."""
    assumptions: tuple[Text, ...]
    """What the claim stands on; where there is a colon, a short name is before it."""
    says: Text
    """The claim in one sentence, with the unit of radius; for none, after a colon why there is no claim, or nothing."""

    @classmethod
    def none(cls, why: str = "") -> CertificateRecord:
        """The certificate that claims nothing. why: in a few words, where something could have been claimed."""
        return cls(
            kind="none",
            delta=None,
            radius=None,
            mean=None,
            largest=None,
            per_layer=None,
            steps=(),
            clipped=None,
            clipped_per_layer=None,
            clipped_steps=(),
            assumptions=(),
            says=f"{NOTHING_CLAIMED}: {why}" if why else NOTHING_CLAIMED,
        )

    @model_validator(mode="after")
    def _check(self) -> CertificateRecord:
        extra = (self.mean, self.largest, self.steps, self.clipped, self.clipped_per_layer, self.clipped_steps)
        nothing = (None, None, (), None, None, ())
        if self.kind == "none":
            rest = (self.delta, self.radius, self.per_layer, self.assumptions)
            if (extra, rest) != (nothing, (None, None, None, ())):
                raise bad("kind", "none", "a kind that can carry numbers and assumptions", "Leave them out.")
            if self.says != NOTHING_CLAIMED and not self.says.startswith(NOTHING_CLAIMED + ": "):
                legal = f"{NOTHING_CLAIMED!r} for kind none, or that and why after a colon"
                raise bad("says", self.says, legal, "Use CertificateRecord.none().")
            return self
        if self.radius is None:
            raise bad("radius", None, f"a number for kind {self.kind}", "Pass it, or claim nothing: kind none.")
        if self.kind == "bound":
            if (self.delta, extra) != (None, nothing):
                raise bad("kind", "bound", "estimate or calibrated where there is a level or steps", "Leave them out.")
            return self
        if self.delta is None:
            raise bad("delta", None, f"a level for kind {self.kind}", "Pass the level the radii were computed at.")
        self._check_steps()
        return self

    def _check_steps(self) -> None:
        """The summaries of an estimate are those of its steps and layers, and clipping makes none larger."""
        if not self.steps or self.per_layer is None:
            missing = "per_layer" if self.steps else "steps"
            raise bad(missing, getattr(self, missing), f"numbers for kind {self.kind}", "Claim nothing without them.")
        for name, some, whole in (
            ("clipped_steps", self.clipped_steps, self.steps),
            ("clipped_per_layer", self.clipped_per_layer or (), self.per_layer),
        ):
            if len(some) != len(whole):
                raise bad(f"the length of {name}", len(some), f"{len(whole)}, as before clipping", "Clip every number.")
            if any(less > more * (1 + 1e-6) for less, more in zip(some, whole, strict=True)):
                raise bad(name, list(some), "nowhere above the same before clipping", "Clip, then average.")
        for name, value, wanted in (
            ("radius", self.radius, max(self.steps[:FIRST_STEPS])),
            ("clipped", self.clipped, max(self.clipped_steps[:FIRST_STEPS])),
            ("mean", self.mean, fmean(self.steps)),
            ("largest", self.largest, max(self.steps)),
        ):
            if value is None or not isclose(value, wanted, rel_tol=1e-6):
                raise bad(name, value, f"{wanted:.6g}, from the steps", "Compute it from all of them.")
