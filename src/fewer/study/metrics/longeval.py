"""LongEval's score for retrieving a line (LongChat, Li et al. 2023). Its topics are judged by a model, not covered."""

from __future__ import annotations

import re

from fewer.study.metrics.fields import Answers, Meta

__all__ = ["score_line"]


def score_line(prediction: str, answers: Answers, meta: Meta) -> float:
    """1 where the last number of the output is the answer, leading zeros aside, else 0."""
    numbers = re.findall("[0-9]+", prediction)
    return float(bool(numbers) and numbers[-1].lstrip("0") in [answer.strip().lstrip("0") for answer in answers])
