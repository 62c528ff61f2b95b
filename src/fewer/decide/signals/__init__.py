"""Signals: one number an answer, larger = more doubt. One file each; computed when the answer ends."""

from __future__ import annotations

from typing import Protocol

from fewer.decide.evidence import Evidence
from fewer.decide.signals.certificate import CertificateSummary
from fewer.decide.signals.disagreement import Disagreement
from fewer.decide.signals.entropy import AttentionEntropy
from fewer.decide.signals.logprob import Logprob
from fewer.decide.signals.margin import BoundaryMargin
from fewer.decide.signals.mass import EvictedMass

__all__ = [
    "SIGNALS",
    "AttentionEntropy",
    "BoundaryMargin",
    "CertificateSummary",
    "Disagreement",
    "EvictedMass",
    "Logprob",
    "Signal",
]


class Signal(Protocol):
    """A number that is meant to tell answers that went wrong from answers that did not. It claims nothing by itself."""

    @property
    def name(self) -> str:
        """Its name on the command line, on receipts and in logs."""
        ...

    @property
    def channel(self) -> str:
        """What it speaks about: "cache" (what was evicted) or "question" (the model's own doubt)."""
        ...

    def __call__(self, evidence: Evidence) -> float | None:
        """The value, larger = more doubt; None where what it needs was not collected."""
        ...


_ALL: tuple[Signal, ...] = (
    CertificateSummary("certificate"),
    CertificateSummary("certificate_mean", steps="mean"),
    CertificateSummary("certificate_largest", steps="largest"),
    CertificateSummary("certificate_median", heads="median"),
    CertificateSummary("certificate_clipped", heads="clipped"),
    CertificateSummary("certificate_question", rows="question", steps="mean"),
    CertificateSummary("certificate_question_median", rows="question", heads="median", steps="mean"),
    CertificateSummary("certificate_question_clipped", rows="question", heads="clipped", steps="mean"),
    AttentionEntropy("entropy"),
    AttentionEntropy("entropy_question", rows="question"),
    EvictedMass(),
    BoundaryMargin(),
    Logprob("logprob"),
    Logprob("logprob_min", tokens="least"),
    Disagreement(),
)

SIGNALS: dict[str, Signal] = {signal.name: signal for signal in _ALL}
"""Every signal by its name."""
