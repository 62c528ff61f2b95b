"""What is said of one step and of a whole answer.

The radius is not a theorem, in either form. It is computed from the sampling design and its coverage is measured;
`assumptions` says what it stands on, in words that belong beside the number.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from fewer.certify.known import Variance
from fewer.certify.variance import Form, check_delta
from fewer.errors import bad
from fewer.types import FIRST_STEPS, LARGEST_RADIUS
from fewer.types.number import check_number

__all__ = ["Certificate", "StepCertificate"]


Kind = Literal["none", "estimate", "calibrated"]

# Every text begins with a short name and a colon: a line on a terminal has room for the names.
_COMMON = (
    "known probabilities: the rows' inclusion probabilities are the ones that were used",
    "fixed queries: each query was fixed before the layer's draw: so for the first step after it, given the layers "
    "below; an approximation for later steps, whose queries depend on what was kept",
    "linearisation: the error of one attention output is near its linearisation",
    "range: the largest term among retained rows stands for the largest among all",
)
_PAPER = {
    "poisson": "published form: radii are those of the published equation (4)",
    "fixed_size": "published form: radii are those of the published equation (4), Vhat times m/(m - 1) for m sampled "
    "rows",
}
_AUDITED = (
    "audited form: radii are 1.5 and 0.5 times the two terms of equation (4), each row held against the mean of the "
    "others; the coverage of this form was measured on one model"
)
_AUDIT = "audited: times the largest error over radius of the newest 16 queries that the score observed, where above 1"
_NO_AUDIT = "not audited: the score observes no queries with which the sample's error could be seen"
_DRAWN = {
    "poisson": "independent draws: rows were drawn independently of each other",
    "fixed_size": "near-independent draws: as many rows as were asked for were drawn, and pairs of rows stay together "
    "about as often as independent ones would; the single sum over rows is no upper bound where terms differ in sign",
}


@dataclass(frozen=True, slots=True, eq=False)
class StepCertificate:
    """Every layer and query head of one pass: [L, heads, rows] float32 each, rows being the pass's query rows.

    A layer that was not sampled has lost nothing: zeros, in `out_norm` too, which nobody looked at there.
    """

    radius: Tensor  # relative to the output's norm, with the audit factor
    vhat: Tensor  # squared units of the output; leave-one-out in the audited form
    range_term: Tensor  # units of the output; the same
    out_norm: Tensor  # of the output that attention gave
    form: Form = "paper"
    audited: bool = False  # whether every sampled layer has an audit factor

    @property
    def means(self) -> tuple[float, ...]:
        """The radius averaged over all layers and heads, for each query row."""
        return tuple(self.radius.double().mean((0, 1)).tolist())

    @property
    def clipped_means(self) -> tuple[float, ...]:
        """The same, a radius above 1 counted as 1."""
        return tuple(self.radius.double().clamp(max=LARGEST_RADIUS).mean((0, 1)).tolist())


@dataclass(frozen=True, slots=True)
class Certificate:
    """What can be said of a whole answer: numbers without a unit, errors relative to the norm of attention outputs.

    `steps` are radii averaged over layers and heads, one for each query row in order. `first` is their largest over
    the first six, the certificate that the paper deploys; `mean` and `largest` are over all. They rank answers by how
    much the cache may have hurt; an average of radii bounds no error of anything. `per_layer`: the average over heads,
    at its largest over the first six steps.

    `clipped_steps`, `clipped` and `clipped_per_layer` are `steps`, `first` and `per_layer` with every radius above 1
    counted as 1 before anything is averaged: between 0 and 1. A radius of 1 says that the error may be as large as the
    output, and how far above 1 it lies says little, but where one row has nearly all of a head's weight it is in the
    tens or hundreds, and a few such cells are most of the plain average. The clipped one changes less from draw to draw
    (docs/certificates.md). It is no better a claim, and not the published certificate.

    kind: "none" claims nothing. "estimate": radii at level delta, with measured coverage. "calibrated": scaled by a
    factor that was found on other data, named in `assumptions`.
    """

    kind: Kind
    delta: float | None = None
    steps: tuple[float, ...] = ()
    first: float | None = None
    mean: float | None = None
    largest: float | None = None
    per_layer: tuple[float, ...] = ()
    clipped: float | None = None
    clipped_steps: tuple[float, ...] = ()
    clipped_per_layer: tuple[float, ...] = ()
    assumptions: tuple[str, ...] = ()

    @classmethod
    def none(cls) -> Certificate:
        """The certificate that claims nothing."""
        return cls("none")

    @classmethod
    def of(cls, steps: Sequence[StepCertificate], delta: float, variance: Variance) -> Certificate:
        """Of the decode steps of one answer, in order; none where there were no steps.

        delta: the level with which they were made. Raises BadInput for one outside (0, 1).
        """
        check_delta(delta)
        means = [value for step in steps for value in step.means]
        if not means:
            return cls.none()
        clipped = [value for step in steps for value in step.clipped_means]
        forms = {(step.form, step.audited) for step in steps}
        radii = torch.cat([step.radius.double() for step in steps], dim=2)[..., :FIRST_STEPS]
        return cls(
            kind="estimate",
            delta=delta,
            steps=tuple(means),
            first=max(means[:FIRST_STEPS]),
            mean=sum(means) / len(means),
            largest=max(means),
            per_layer=tuple(radii.mean(1).amax(1).tolist()),
            clipped=max(clipped[:FIRST_STEPS]),
            clipped_steps=tuple(clipped),
            clipped_per_layer=tuple(radii.clamp(max=LARGEST_RADIUS).mean(1).amax(1).tolist()),
            assumptions=(_DRAWN[variance], *_COMMON, *_name_forms(forms, variance)),
        )

    def calibrate(self, factor: float, split: str) -> Certificate:
        """The same with every number times `factor`. split: the data on which it was found, and its coverage there.

        The clipped numbers too: a radius that counted as 1 counts as `factor` then.

        Raises BadInput for a factor that is not above 0, a missing split, and a certificate that claims nothing.
        """
        check_number("factor", factor, float, 0.0, None, "Find it on held-out prompts.", open_low=True)
        if not split.strip():
            raise bad("split", split, "the name of the data the factor was found on", "Without it, do not calibrate.")
        if self.first is None or self.mean is None or self.largest is None or self.clipped is None:
            raise bad("kind", self.kind, "'estimate'", "There is nothing to calibrate.")
        return replace(
            self,
            kind="calibrated",
            steps=tuple(factor * value for value in self.steps),
            first=factor * self.first,
            mean=factor * self.mean,
            largest=factor * self.largest,
            per_layer=tuple(factor * value for value in self.per_layer),
            clipped=factor * self.clipped,
            clipped_steps=tuple(factor * value for value in self.clipped_steps),
            clipped_per_layer=tuple(factor * value for value in self.clipped_per_layer),
            assumptions=(
                *self.assumptions,
                f"calibrated: radii are {factor:g} times those of the formula, as found on {split}",
            ),
        )


def _name_forms(forms: Collection[tuple[Form, bool]], variance: Variance) -> tuple[str, ...]:
    """How the radii were made. A few of several steps without an audit make the whole one without."""
    if any(form == "paper" for form, _ in forms):
        return (_PAPER[variance],)
    return _AUDITED, _AUDIT if all(audited for _, audited in forms) else _NO_AUDIT
