"""ROUGE as the `rouge` package computes it, which LongBench and LooGLE use.

It differs from ROUGE 1.5.5 and from `rouge-score`: sentences end at full stops, words are what spaces separate (case
and punctuation stay), all counts are of different words, and F carries 1e-8 in its denominator, so that a perfect
output scores 0.999999995. An output or a reference with nothing between its full stops has no score; LongBench gives 0.

One departure: the package reads the common subsequence by recursion, so that a pair of "sentences" of about a thousand
words exceeds Python's limit; LongBench's script catches that and gives 0, at a length that depends on the interpreter.
Here such pairs get their score.
"""

from __future__ import annotations

from typing import NamedTuple

from fewer.study.metrics.fields import Answers, Meta
from fewer.study.metrics.normal import score_best, take_first_line
from fewer.study.metrics.subsequence import find_common

__all__ = ["Overlap", "measure_lcs_overlap", "measure_ngram_overlap", "score_rouge_l", "score_rouge_l_first_line"]


class Overlap(NamedTuple):
    """How many different things the output and the reference share, and how many each has."""

    shared: int
    output: int
    reference: int

    @property
    def recall(self) -> float:
        """Share of the reference's that the output has; 0 where the reference has none."""
        return self.shared / self.reference if self.reference else 0.0

    @property
    def f(self) -> float:
        """Twice precision times recall over their sum plus 1e-8."""
        precision = self.shared / self.output if self.output else 0.0
        return 2.0 * (precision * self.recall / (precision + self.recall + 1e-8))


def score_rouge_l(prediction: str, answers: Answers, meta: Meta) -> float:
    """LongBench's rouge_score: ROUGE-L's F, the best over the references, 0 where the package has none."""

    def pair(prediction: str, reference: str) -> float:
        overlap = measure_lcs_overlap(prediction, reference)
        return overlap.f if overlap else 0.0

    return score_best(pair, prediction, answers)


def score_rouge_l_first_line(prediction: str, answers: Answers, meta: Meta) -> float:
    """`score_rouge_l` of the first line only, as LongBench does for samsum."""
    return score_rouge_l(take_first_line(prediction), answers, meta)


def measure_lcs_overlap(prediction: str, reference: str) -> Overlap | None:
    """Different words on a longest common subsequence of any pair of sentences; None where a side has no sentence."""
    ours, gold = _split(prediction), _split(reference)
    if not ours or not gold:
        return None
    shared = {
        theirs[place] for theirs in gold for mine in ours for place in find_common(theirs, mine, prefer_reference=True)
    }
    return Overlap(len(shared), len(set().union(*ours)), len(set().union(*gold)))


def measure_ngram_overlap(prediction: str, reference: str, n: int) -> Overlap | None:
    """Different n-grams of words, across the ends of sentences; None where a side has no sentence."""
    ours, gold = _split(prediction), _split(reference)
    if not ours or not gold:
        return None
    ours_n, gold_n = _take_ngrams(ours, n), _take_ngrams(gold, n)
    return Overlap(len(ours_n & gold_n), len(ours_n), len(gold_n))


def _split(text: str) -> list[list[str]]:
    """Sentences of words. One of whitespace only holds one word, the empty one; the package has it so."""
    return [" ".join(sentence.split()).split(" ") for sentence in text.split(".") if sentence]


def _take_ngrams(sentences: list[list[str]], n: int) -> set[tuple[str, ...]]:
    words = [word for sentence in sentences for word in sentence]
    return {tuple(words[start : start + n]) for start in range(len(words) - n + 1)}
