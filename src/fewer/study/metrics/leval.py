"""L-Eval's scores for closed questions (An et al. 2024): one letter, and true or false.

Its F1 is `score_qa_f1`; its ROUGE is in `rouge_score`. Not covered: questions with several right letters (coursera has
some), gsm100, codeU, and the GPT-4 judge.
"""

from __future__ import annotations

from fewer.errors import bad
from fewer.study.metrics.fields import Answers, Meta

__all__ = ["score_choice", "score_judgement"]


def score_choice(prediction: str, answers: Answers, meta: Meta) -> float:
    """1 where the output's first capital A, B, C or D, anywhere in a word, is the answer's letter, else 0.

    The published rule, which takes "According to" for A and gives an output without such a letter a guess of A; blank
    outputs score 0. `score_multiple_choice` reads outputs with more care.
    """
    for answer in answers:
        if answer not in ("A", "B", "C", "D"):
            raise bad("answers", answer, "one letter from A to D", "Correct the row, or use multiple_choice.")
    if not prediction.strip() or prediction in ("AB", "ABC", "ABCD", "BC", "BCD", "CD"):
        return 0.0
    return float(next((sign for sign in prediction if sign in "ABCD"), "A") in answers)


def score_judgement(prediction: str, answers: Answers, meta: Meta) -> float:
    """sci_fi: 1 where the first word with "true" or "false" in it agrees with the answer, else 0.

    Only what comes before "[fact:" counts; an output without such words scores 0. "Untrue" is taken for true, as in
    the original. Its second score, on the fact in the world, is not covered.
    """
    for answer in answers:
        if answer.lower() not in ("true", "false"):
            raise bad("answers", answer, "True or False", "Correct the row.")
    for word in prediction.lower().split("[fact:")[0].split():
        for verdict in ("true", "false"):
            if verdict in word:
                return float(verdict in [answer.lower() for answer in answers])
    return 0.0
