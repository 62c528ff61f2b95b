"""Two-draw disagreement: whether another draw of the same policy says something else."""

from __future__ import annotations

from dataclasses import dataclass

from fewer.decide.evidence import Evidence

__all__ = ["Disagreement"]


@dataclass(frozen=True, slots=True)
class Disagreement:
    """One minus the share of tokens before the first that differs, over the longer of the two answers: 0 to 1.

    0: the same tokens; 1: they differ from the first on. The end token counts, so an answer that goes on where the
    other ended differs there. (Xie 2026, appendix C, asks only whether the answers differ.)

    Larger: the answer hangs on what the draw happened to keep. Needs a second answer with another seed of a policy that
    draws, which costs as much as the first; None without. It cannot see a loss that both draws share, as with every
    policy that chooses by score alone, and after the first difference it does not look.
    """

    @property
    def name(self) -> str:
        """Its name on the command line, on receipts and in logs."""
        return "disagreement"

    @property
    def channel(self) -> str:
        """What was evicted."""
        return "cache"

    def __call__(self, evidence: Evidence) -> float | None:
        """The value, or None."""
        if evidence.second_ids is None:
            return None
        longer = max(len(evidence.ids), len(evidence.second_ids))
        same = 0
        for one, other in zip(evidence.ids, evidence.second_ids, strict=False):
            if one != other:
                break
            same += 1
        return 1 - same / longer if longer else 0.0
