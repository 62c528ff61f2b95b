"""The mark beside an answer of `fewer chat`: the certificate's number, and with measured odds a dot for its level."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from rich.text import Text

from fewer.decide import Evidence, attribute
from fewer.decide.reading import read_receipt
from fewer.decide.statement import name_signal
from fewer.errors import BadInput

if TYPE_CHECKING:
    from fewer.certify import StepCertificate
    from fewer.decide import Attribution, Odds
    from fewer.engine import Answer

__all__ = ["Told", "draw_mark", "explain_answer"]

_DOTS = {"low": ("\u25cb", "green"), "middle": ("\u25d0", "yellow"), "high": ("\u25cf", "red")}
_ASCII = {"low": ".", "middle": "o", "high": "O"}


@dataclass(frozen=True)
class Told:
    """A question, the answer that was given, and the certificates of the run over the compressed cache."""

    question: str
    answer: Answer
    certificates: tuple[StepCertificate, ...]

    @property
    def compressed(self) -> Answer:
        """The answer over the compressed cache, where a gate or the user had it computed again."""
        return self.answer.first or self.answer

    @property
    def evicted(self) -> bool:
        """Whether anything had left the cache."""
        eviction = self.compressed.receipt.eviction
        return eviction is not None and bool(eviction.compressions)


def explain_answer(told: Told, odds: Odds | None) -> Attribution:
    """Of the answer over the compressed cache; with heads, where there are certificates. Raises BadInput for odds."""
    answer = told.compressed
    setting = read_receipt(answer.receipt).setting
    if setting is None or not told.certificates:
        return attribute(answer.receipt, odds)
    evidence = answer.evidence
    if evidence is None:
        radii = torch.cat([step.radius.float().cpu() for step in told.certificates], dim=2)
        steps = len(answer.receipt.certificate.steps)  # without the pass of a step that gave no token
        logprobs = tuple(each.logprob for each in answer.logprobs or ())
        evidence = Evidence(answer=radii[:, :, :steps], logprobs=logprobs, ids=answer.ids)
    return attribute(evidence, odds, setting=setting)


def draw_mark(told: Told, odds: Odds | None, encoding: str) -> Text:
    """One line: the dot and the number, or why there is none; and what a recomputation did."""
    mark = _draw_certificate(told, odds, encoding)
    gate = told.answer.receipt.gate
    if gate is not None and gate.again is not None:
        with_what = "the full cache" if gate.escalate == "full" else f"a budget of {gate.escalate}"
        why = "" if gate.rule == "always" else f": {gate.reason}"
        mark.append(f"; computed again with {with_what}{why}", "dim")
        if gate.num_agreeing == gate.first.num_tokens == gate.again.num_tokens:
            mark.append("; the answer is the same", "dim")
    return mark


def _draw_certificate(told: Told, odds: Odds | None, encoding: str) -> Text:
    if not told.evicted:
        return Text("whole cache", "dim")
    try:
        found, unlike = explain_answer(told, odds), ""
    except BadInput:  # /why says what differs
        found, unlike = explain_answer(told, None), "; the odds are not for this answer"
    if found.certificate is None:
        why = told.compressed.receipt.certificate.says.partition(": ")[2]
        return Text(f"no certificate{': ' if why else ''}{why}", "dim")
    words = f"{name_signal(found.signal)} {found.certificate:.3g}{unlike}"
    if found.certificate_level is None:
        return Text(words, "dim")
    dot, colour = _DOTS[found.certificate_level]
    if encoding != "utf-8":
        dot = _ASCII[found.certificate_level]
    return Text.assemble((dot, colour), (f" {words}, {found.certificate_level}", "dim"))
