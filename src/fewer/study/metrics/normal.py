"""The normal form of short English answers that SQuAD set and most benchmarks took over, and LongBench's first line.

Not covered: other languages (LongBench's Chinese tasks cut words with a segmenter), numbers in words, dates.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable

from fewer.study.metrics.fields import Answers

__all__ = ["normalize", "score_best", "take_first_line"]

_DROP_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b")


def normalize(text: str) -> str:
    """Lower case, without ASCII punctuation, without the words a, an and the, runs of whitespace as one space.

    In this order, as in SQuAD's script (Rajpurkar et al. 2016): punctuation goes before the articles do, so "(the)" is
    an article and "the-end" becomes "theend". The text "A" normalises to nothing.
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_DROP_PUNCTUATION)).split())


def take_first_line(text: str) -> str:
    """What LongBench scores of trec, triviaqa, samsum and lsht: the first line after leading newlines.

    Only newlines are skipped: a first line of spaces counts as the line.
    """
    return text.lstrip("\n").split("\n")[0]


def score_best(pair_score: Callable[[str, str], float], prediction: str, answers: Answers) -> float:
    """The best score of the prediction against any one answer."""
    return max(float(pair_score(prediction, answer)) for answer in answers)
