"""Keep-boundary margin: how close the last row that stayed was to the first that left."""

from __future__ import annotations

from dataclasses import dataclass

from fewer.decide.evidence import Evidence

__all__ = ["BoundaryMargin"]


@dataclass(frozen=True, slots=True)
class BoundaryMargin:
    """Minus the margin between kept and evicted scores, in their standard deviations; mean over heads and layers.

    Xie (2026, appendix B): "minimum retained unprotected score minus maximum evicted score, in units of the score
    standard deviation". The sign is turned, so that a narrow margin is the larger value: at most 0 for top-k, and
    mostly above 0 for a design that draws, which evicts some rows that score higher than some it keeps.

    Larger: what stayed and what left were hard to tell apart. Exists for every policy once something was evicted; None
    before, and where no layer and head has an unprotected row on either side. It is known before the question, as the
    evicted mass is. It cannot see how much lay on the wrong side of the boundary, only how near the nearest was; with a
    heavy-tailed score it is near 0 always.
    """

    @property
    def name(self) -> str:
        """Its name on the command line, on receipts and in logs."""
        return "boundary_margin"

    @property
    def channel(self) -> str:
        """What was evicted."""
        return "cache"

    def __call__(self, evidence: Evidence) -> float | None:
        """The value, or None."""
        if evidence.boundary_margin is None:
            return None
        mean = float(evidence.boundary_margin.double().nanmean())
        return None if mean != mean else -mean
