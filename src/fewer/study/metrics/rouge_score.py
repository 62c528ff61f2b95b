"""ROUGE as the `rouge-score` package computes it without stemming, which L-Eval and InfiniteBench use.

Words are runs of a-z and 0-9 in the lower-cased text, so texts in other scripts have none and score 0.
"""

from __future__ import annotations

import re
from collections import Counter

from fewer.study.metrics.fields import Answers, Meta
from fewer.study.metrics.normal import score_best
from fewer.study.metrics.subsequence import find_common, measure_common

__all__ = ["score_rouge_1", "score_rouge_2", "score_rouge_l_by_lines", "score_rouge_l_by_words"]

_WORDS = re.compile(r"[a-z0-9]+")


def score_rouge_1(prediction: str, answers: Answers, meta: Meta) -> float:
    """F over words with their counts (rouge1); the best over the references."""
    return score_best(lambda ours, gold: _score_ngrams(ours, gold, 1), prediction, answers)


def score_rouge_2(prediction: str, answers: Answers, meta: Meta) -> float:
    """F over pairs of neighbouring words with their counts (rouge2); the best over the references."""
    return score_best(lambda ours, gold: _score_ngrams(ours, gold, 2), prediction, answers)


def score_rouge_l_by_words(prediction: str, answers: Answers, meta: Meta) -> float:
    """F of the longest common subsequence of all words (rougeL); the best over the references."""

    def pair(prediction: str, reference: str) -> float:
        ours, gold = _take_words(prediction), _take_words(reference)
        return _f(measure_common(gold, ours), len(ours), len(gold))

    return score_best(pair, prediction, answers)


def score_rouge_l_by_lines(prediction: str, answers: Answers, meta: Meta) -> float:
    """F of the words on the lines' common subsequences, each word at most as often as it occurs (rougeLsum).

    A line is a sentence; texts without newlines are one sentence. InfiniteBench's score for longbook_sum_eng. The best
    over the references.
    """
    return score_best(_score_lines, prediction, answers)


def _take_words(text: str) -> list[str]:
    return _WORDS.findall(text.lower())


def _score_ngrams(prediction: str, reference: str, n: int) -> float:
    ours, gold = (
        Counter(tuple(words[start : start + n]) for start in range(len(words) - n + 1))
        for words in (_take_words(prediction), _take_words(reference))
    )
    return _f((ours & gold).total(), ours.total(), gold.total())


def _score_lines(prediction: str, reference: str) -> float:
    ours = [_take_words(line) for line in prediction.split("\n") if line]
    gold = [_take_words(line) for line in reference.split("\n") if line]
    left = Counter(word for line in ours for word in line) & Counter(word for line in gold for word in line)
    hits = 0
    for line in gold:
        places = sorted({place for mine in ours for place in find_common(line, mine, prefer_reference=False)})
        for word in (line[place] for place in places):
            if left[word]:
                left[word] -= 1
                hits += 1
    return _f(hits, sum(map(len, ours)), sum(map(len, gold)))


def _f(shared: int, output: int, reference: int) -> float:
    if not shared:
        return 0.0
    precision, recall = shared / output, shared / reference
    return 2 * precision * recall / (precision + recall)
