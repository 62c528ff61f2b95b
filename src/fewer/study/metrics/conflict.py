"""Answers over documents that disagree: RAMDocs, RGB, and yes or no.

A wrong answer is one a document gives against the evidence. Wrong answers that are part of a right one cannot be told
apart in the output and are left out of the count; RAMDocs has rows where both are the same but for case.
"""

from __future__ import annotations

from fewer.errors import bad
from fewer.study.metrics.fields import Answers, Meta, read_texts
from fewer.study.metrics.normal import normalize

__all__ = ["score_ramdocs", "score_rgb", "score_rgb_conflict", "score_yes_no"]


def score_ramdocs(prediction: str, answers: Answers, meta: Meta) -> float:
    """1 where every answer occurs in the output and none of `meta["wrong_answers"]` does, both normalised, else 0.

    RAMDocs' exact match (Wang et al. 2025), on the whole output instead of the list its prompt asks for.
    """
    text = normalize(prediction)
    right = [normalize(answer) for answer in answers]
    wrong = [normalize(answer) for answer in read_texts(meta, "wrong_answers")]
    return float(all(answer and answer in text for answer in right) and not _names_any(text, wrong, right))


def score_rgb(prediction: str, answers: Answers, meta: Meta) -> float:
    """1 where an answer occurs in the output, ignoring case, else 0; 0 for "insufficient information".

    RGB's accuracy (Chen et al. 2024). Answers are spellings of one another; the fake answers do not count.
    """
    if "insufficient information" in prediction:
        return 0.0
    return float(any(answer.strip() and answer.lower() in prediction.lower() for answer in answers))


def score_rgb_conflict(prediction: str, answers: Answers, meta: Meta) -> float:
    """`score_rgb`, and none of `meta["fake_answers"]` may occur in the output, ignoring case.

    Stricter than RGB: an output that names the fake answer in order to reject it scores 0.
    """
    fake = [answer.lower() for answer in read_texts(meta, "fake_answers")]
    named = _names_any(prediction.lower(), fake, [answer.lower() for answer in answers])
    return 0.0 if named else score_rgb(prediction, answers, meta)


def score_yes_no(prediction: str, answers: Answers, meta: Meta) -> float:
    """1 where the first word that is yes or no, ignoring case and punctuation, is the answer, else 0."""
    right = [answer.strip().lower() for answer in answers]
    if not set(right) <= {"yes", "no"}:
        raise bad("answers", list(answers), "Yes or No", "Correct the row.")
    return float(next((word for word in normalize(prediction).split() if word in ("yes", "no")), None) in right)


def _names_any(text: str, wrong: list[str], right: list[str]) -> bool:
    return any(answer and answer in text and not any(answer in other for other in right) for answer in wrong)
