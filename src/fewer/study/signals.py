"""What can be seen of an answer without knowing the right one, and how it compares with the full run's answer.

All from one request: nothing here runs a model. Margins and log-probabilities are the model's own, in nats, before
temperature; certificates are relative errors without a unit. Further signals of a compressed cache, where a study asks
for `evidence`: `fewer.study.evidence`.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["CERTIFICATES", "PREDICTORS", "measure_agreement", "reference_ids"]

PREDICTORS = {
    "first_margin": "a small margin at the first token predicts failure",
    "min_margin": "a small margin at any token predicts failure",
    "mean_logprob": "a low mean log-probability predicts failure",
    "agreement": "little agreement with the full run predicts failure (needs the full run)",
}
"""Signals in a row's columns that may predict an outcome: larger means fewer failures, for all of them."""

CERTIFICATES = {
    "certificate": "the largest of the first six steps' certificates: a large one predicts failure",
    "certificate_mean": "the mean over all steps",
    "certificate_largest": "the largest of all steps",
}
"""Certificates in a row's columns: larger means more failures, for all of them. Null without known probabilities."""

_LONGEST = 256  # tokens of a reference answer that are read


def measure_agreement(ids: Sequence[int], full: Sequence[int]) -> float:
    """The share of the full run's tokens before the first different one; 1 where the answers are equal.

    The end token is one of them: an answer that goes on where the full run ended is different there.
    """
    same = 0
    for mine, theirs in zip(ids, full, strict=False):
        if mine != theirs:
            break
        same += 1
    return same / len(full) if full else float(not ids)


def reference_ids(tokenizer: object, ending: str, answer: str) -> list[int]:
    """The tokens of a reference answer behind a prompt that ends with `ending`: after a space unless it ends with one.

    At most the first 256. Empty where the tokenizer makes no token of it.
    """
    text = answer.strip()
    spaced = text if not ending or ending[-1].isspace() else f" {text}"
    ids = tokenizer(spaced, add_special_tokens=False)["input_ids"]  # type: ignore[operator]
    return list(ids)[:_LONGEST]
