"""The certificate's radii as one number: the published summary, and others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from fewer.decide.evidence import Evidence
from fewer.types import FIRST_STEPS, LARGEST_RADIUS

__all__ = ["CertificateSummary"]


@dataclass(frozen=True, slots=True)
class CertificateSummary:
    """Radii of attention outputs over a sampled cache, averaged over layers, as one number of at least 0, no unit.

    The default is the deployed certificate of Xie (2026, section 3.4 and appendix B): the mean over heads and layers,
    largest of the first six decode steps. (The paper looks at every fourth head, this at all.)

    rows: of the decode steps of the answer, or of the question's rows, where the cache was compressed before those were
    read. heads: "mean"; "median", which a few heads cannot move; "clipped", the mean of min(radius, 1): an error above
    the output's own size is as bad as it gets. steps: over rows, the "largest" of the first six ("first"), the "mean"
    of all, or the "largest" of all.

    Larger: the cache may have changed more of what attention gave. Needs a policy whose design has known probabilities,
    with its certificate on; None without, and where no row passed. It cannot see what the model makes of the error (an
    answer may survive a large one), whether the question is hard, errors of layers below that move a query to where
    nothing was sampled, and what an earlier compression did to the scores of a later one. A mean of radii bounds
    nothing.
    """

    name: str
    rows: Literal["answer", "question"] = "answer"
    heads: Literal["mean", "median", "clipped"] = "mean"
    steps: Literal["first", "mean", "largest"] = "first"

    @property
    def channel(self) -> str:
        """What was evicted."""
        return "cache"

    def __call__(self, evidence: Evidence) -> float | None:
        """The value, or None."""
        radii = evidence.answer if self.rows == "answer" else evidence.question
        if radii is None or not radii.shape[2]:
            return None
        by_row = _summarise(radii.double(), self.heads)
        if self.steps == "mean":
            return float(by_row.mean())
        return float((by_row[:FIRST_STEPS] if self.steps == "first" else by_row).max())


def _summarise(radii: Tensor, heads: str) -> Tensor:
    """[L, H, rows] to [rows]."""
    if heads == "median":
        return _median(radii).mean(0)
    return (radii.clamp(max=LARGEST_RADIUS) if heads == "clipped" else radii).mean((0, 1))


def _median(radii: Tensor) -> Tensor:
    """Over heads, of an even number the mean of the middle two: [L, H, rows] to [L, rows]."""
    ordered = radii.sort(dim=1).values
    size = ordered.shape[1]
    middle: Tensor = (ordered[:, (size - 1) // 2] + ordered[:, size // 2]) / 2
    return middle
