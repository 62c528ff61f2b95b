"""Evicted score mass: how much of what the score wanted has left."""

from __future__ import annotations

from dataclasses import dataclass

from fewer.decide.evidence import Evidence

__all__ = ["EvictedMass"]


@dataclass(frozen=True, slots=True)
class EvictedMass:
    """The share of the score that lay on rows that left, of the rows that could leave: 0 to 1, mean over heads, layers.

    Xie (2026, appendix B): "one minus the retained share of the arm's own importance mass at eviction time". Protected
    rows are left out of it on both sides.

    Larger: the score itself wanted more of what is gone. Exists for every policy once something was evicted; None
    before. It is known before the question: it says the same for every question over one compressed cache, and means
    what the score means. It cannot see what the score did not want and the question does, nor, after several
    compressions, any but the last. In a sampled cache what left is stood for by what stayed, which it does not count.
    """

    @property
    def name(self) -> str:
        """Its name on the command line, on receipts and in logs."""
        return "evicted_mass"

    @property
    def channel(self) -> str:
        """What was evicted."""
        return "cache"

    def __call__(self, evidence: Evidence) -> float | None:
        """The value, or None."""
        return None if evidence.evicted_mass is None else float(evidence.evicted_mass.double().mean())
