"""Output log-probability: how likely the model found its own answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fewer.decide.evidence import Evidence

__all__ = ["Logprob"]


@dataclass(frozen=True, slots=True)
class Logprob:
    """Minus the log-probability of the answer's tokens, nats a token, of at least 0: the mean, or the least likely one.

    Under the model itself, before temperature and truncation, the end token included. The mean is the paper's (Xie
    2026, appendix B), and its best predictor of failure.

    Larger: the model was less sure of what it said. Exists for every answer, compressed or not, where evidence or
    log-probabilities were asked for; None where they were not. It cannot see why: a hard question and a damaged cache
    look the same, and a model may be sure of something wrong.
    """

    name: str
    tokens: Literal["mean", "least"] = "mean"

    @property
    def channel(self) -> str:
        """The model's own doubt."""
        return "question"

    def __call__(self, evidence: Evidence) -> float | None:
        """The value, or None."""
        found = evidence.logprobs
        if not found:
            return None
        return -min(found) if self.tokens == "least" else -sum(found) / len(found)
