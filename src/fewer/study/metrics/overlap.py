"""Short answers by the words they share: exact match, token F1, and whether an answer occurs in the output.

Sources: SQuAD 1.1 and 2.0 (Rajpurkar et al. 2016, 2018); LongBench's qa_f1_score (Bai et al. 2024), which L-Eval and
InfiniteBench compute alike; best_subspan_em and the key-value accuracy of Lost in the Middle (Liu et al. 2024).

An answer that occurs in the output need not be what the output asserts ("it was not Paris"), and it may be part of a
longer word or number ("12" in "1912"); the published scripts accept that and so do these.
"""

from __future__ import annotations

from collections import Counter

from fewer.study.metrics.fields import Answers, Meta
from fewer.study.metrics.normal import normalize, score_best, take_first_line

__all__ = [
    "score_best_subspan_em",
    "score_best_subspan_em_first_line",
    "score_kv_value",
    "score_qa_f1",
    "score_qa_f1_first_line",
    "score_squad_exact_match",
    "score_squad_f1",
]


def score_squad_exact_match(prediction: str, answers: Answers, meta: Meta) -> float:
    """1 where the normalised output is a normalised answer, else 0. SQuAD 1.1 and 2.0."""
    return float(any(normalize(prediction) == normalize(answer) for answer in answers))


def score_squad_f1(prediction: str, answers: Answers, meta: Meta) -> float:
    """Token F1 as in SQuAD 2.0: where either side normalises to nothing, 1 if both do and 0 otherwise."""

    def pair(prediction: str, answer: str) -> float:
        ours, gold = normalize(prediction).split(), normalize(answer).split()
        return _f1(ours, gold) if ours and gold else float(ours == gold)

    return score_best(pair, prediction, answers)


def score_qa_f1(prediction: str, answers: Answers, meta: Meta) -> float:
    """Harmonic mean of precision and recall over normalised words, with their counts; the best over the answers.

    LongBench's qa_f1_score. An output or an answer that normalises to nothing scores 0, also against its like.
    """
    return score_best(lambda ours, gold: _f1(normalize(ours).split(), normalize(gold).split()), prediction, answers)


def score_qa_f1_first_line(prediction: str, answers: Answers, meta: Meta) -> float:
    """`score_qa_f1` of the first line only, as LongBench does for triviaqa."""
    return score_qa_f1(take_first_line(prediction), answers, meta)


def score_best_subspan_em(prediction: str, answers: Answers, meta: Meta) -> float:
    """1 where a normalised answer occurs in the normalised output, else 0. Lost in the Middle.

    One departure: an answer that normalises to nothing ("The") never occurs here, and always does in the original.
    """
    text = normalize(prediction)
    return float(any(answer and answer in text for answer in map(normalize, answers)))


def score_best_subspan_em_first_line(prediction: str, answers: Answers, meta: Meta) -> float:
    """`score_best_subspan_em` of what comes before the first newline, as the paper's evaluation script does.

    A leading newline leaves nothing to score, as in the script.
    """
    return score_best_subspan_em(prediction.split("\n")[0], answers, meta)


def score_kv_value(prediction: str, answers: Answers, meta: Meta) -> float:
    """1 where the value occurs in the output, ignoring case, else 0. Lost in the Middle's key-value retrieval."""
    return float(any(answer.strip() and answer.lower() in prediction.lower() for answer in answers))


def _f1(ours: list[str], gold: list[str]) -> float:
    same = sum((Counter(ours) & Counter(gold)).values())
    if not same:
        return 0.0
    precision, recall = same / len(ours), same / len(gold)
    return 2 * precision * recall / (precision + recall)
