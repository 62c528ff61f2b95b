"""BLEU of one n-gram order over one sentence, without smoothing, as LooGLE takes it from NLTK.

NLTK gives an order without a match the smallest float instead of 0, which is 0 at any precision that is printed.
"""

from __future__ import annotations

import math
from collections import Counter

__all__ = ["measure_bleu"]


def measure_bleu(output: list[str], reference: list[str], n: int) -> float:
    """Share of the output's n-grams that the reference has, each as often at most, times the brevity penalty.

    The penalty is exp(1 - reference's words / output's words) where the output is not longer than the reference.
    """
    if not output:
        return 0.0
    ours, gold = (
        Counter(tuple(words[start : start + n]) for start in range(len(words) - n + 1)) for words in (output, reference)
    )
    precision = (ours & gold).total() / max(1, ours.total())
    penalty = 1.0 if len(output) > len(reference) else math.exp(1 - len(reference) / len(output))
    return penalty * precision
