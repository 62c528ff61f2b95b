"""What was decided about the tokens left out, and what can be claimed about them.

A plan may carry a bound in its planner's own unit. The certificate is the one claim about the answer as a whole.
Not covered: whether a claim is true. That is shown where the claim is made; a receipt only carries it.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field, model_validator

from fewer.errors import bad
from fewer.receipt.fields import STRICT, Count, Number, Text

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
    """What can be claimed about the part left out. `CertificateRecord.none()` claims nothing, and is legal."""

    model_config = STRICT

    kind: Literal["none", "bound", "variance", "eprocess"]
    """none: no claim. bound: deterministic. variance: at a level. eprocess: at a level, for all steps together."""
    alpha: Annotated[Number, Field(gt=0, lt=1)] | None
    """The probability that the claim fails; null for none and for bound, which has none."""
    radius: Annotated[Number, Field(ge=0)] | None
    """The claimed largest error, in the unit that `says` names; null for none."""
    per_layer: tuple[Annotated[Number, Field(ge=0)], ...] | None
    """The claimed largest error of each layer, or null."""
    assumptions: tuple[Text, ...]
    """What must hold for the claim to hold."""
    says: Text
    """The claim in one sentence, with the unit of radius."""

    @classmethod
    def none(cls) -> CertificateRecord:
        """The certificate that claims nothing."""
        return cls(kind="none", alpha=None, radius=None, per_layer=None, assumptions=(), says=NOTHING_CLAIMED)

    @model_validator(mode="after")
    def _check(self) -> CertificateRecord:
        if self.kind == "none":
            if (self.alpha, self.radius, self.per_layer, self.assumptions) != (None, None, None, ()):
                raise bad("kind", "none", "a kind that can carry numbers and assumptions", "Leave them out.")
            if self.says != NOTHING_CLAIMED:
                raise bad("says", self.says, f"{NOTHING_CLAIMED!r} for kind none", "Use CertificateRecord.none().")
            return self
        if self.radius is None:
            raise bad("radius", None, f"a number for kind {self.kind}", "Pass it, or claim nothing: kind none.")
        if (self.alpha is None) != (self.kind == "bound"):
            legal = "null for kind bound and a number for variance and eprocess"
            raise bad("alpha", self.alpha, legal, f"The kind is {self.kind}.")
        return self
