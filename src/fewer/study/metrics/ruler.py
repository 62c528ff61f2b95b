"""RULER's two scores (Hsieh et al. 2024): which references occur in the output, as written but for case.

string_match_all is used for the needle, variable tracking and word extraction tasks, string_match_part for its
questions. Characters below space are taken as newlines first, so a reference that holds a tab never occurs.
"""

from __future__ import annotations

import re

from fewer.study.metrics.fields import Answers, Meta

__all__ = ["score_string_match_all", "score_string_match_part"]

_CONTROL = re.compile(r"[\x00-\x1f]")


def score_string_match_all(prediction: str, answers: Answers, meta: Meta) -> float:
    """Share of the references that occur in the output. More numbers or words in the output cost nothing."""
    return sum(_find(prediction, answers)) / len(answers)


def score_string_match_part(prediction: str, answers: Answers, meta: Meta) -> float:
    """1 where any reference occurs in the output, else 0."""
    return float(any(_find(prediction, answers)))


def _find(prediction: str, answers: Answers) -> list[bool]:
    """Which occur. A blank reference never does; in the original an empty one always does."""
    text = _CONTROL.sub("\n", prediction.strip()).strip().lower()
    return [bool(answer.strip()) and answer.lower() in text for answer in answers]
