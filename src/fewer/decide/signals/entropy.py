"""Retained-attention entropy: how evenly attention lies over what is left."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fewer.decide.evidence import Evidence
from fewer.types import FIRST_STEPS

__all__ = ["AttentionEntropy"]


@dataclass(frozen=True, slots=True)
class AttentionEntropy:
    """Entropy of the attention weights over the retained rows, over the log of their number: 0 to 1, no unit.

    Xie (2026, appendix B): "averaged as above", which is taken as for the certificate: the mean over heads and layers,
    largest of the first six decode steps. rows="question" is the mean over the rows of a question that was read after
    the compression.

    Larger: attention finds nothing to hold on to among what is left. Exists for every policy once it has compressed,
    where evidence was asked for; None where it was not, and where no row passed. It cannot see what was evicted: two
    caches with other evicted rows and the same retained ones have the same entropy (the paper's Theorem 1), and heads
    that always look everywhere are most of its value.
    """

    name: str
    rows: Literal["answer", "question"] = "answer"

    @property
    def channel(self) -> str:
        """What was evicted."""
        return "cache"

    def __call__(self, evidence: Evidence) -> float | None:
        """The value, or None."""
        entropy = evidence.answer_entropy if self.rows == "answer" else evidence.question_entropy
        if entropy is None or not entropy.shape[2]:
            return None
        by_row = entropy.double().mean((0, 1))
        return float(by_row[:FIRST_STEPS].max() if self.rows == "answer" else by_row.mean())
