"""LongBench's scores for classes, paragraph numbers and counts (Bai et al. 2024), and LongBench v2's (Bai et al. 2025).

Its F1 is in `overlap`, its ROUGE-L in `rouge`, its code similarity in `code_similarity`. Not covered: the Chinese tasks
(dureader, vcsum, lsht, multifieldqa_zh, passage_retrieval_zh), which need a word segmenter.
"""

from __future__ import annotations

import re

from fewer.errors import bad
from fewer.study.metrics.fields import Answers, Meta, read_texts
from fewer.study.metrics.normal import score_best, take_first_line

__all__ = [
    "extract_letter",
    "score_classification",
    "score_count",
    "score_dialogue_retrieval",
    "score_longbench_v2",
    "score_longbench_v2_compensated",
    "score_retrieval",
]


def score_classification(prediction: str, answers: Answers, meta: Meta) -> float:
    """trec: 1 over the number of classes named on the first line, where the right one is among them, else 0.

    A class counts as named where its text occurs as written. Named classes that are part of the right class's text are
    dropped, in the order of `meta["all_classes"]`; the original drops from the list it walks over, so that the class
    after a dropped one is passed over and stays. Scores depend on the order of the classes for that reason.
    """
    text = take_first_line(prediction)
    classes = read_texts(meta, "all_classes", at_least=1)

    def pair(text: str, answer: str) -> float:
        named = [name for name in classes if name in text]
        place = 0
        while place < len(named):
            name = named[place]
            if name in answer and name != answer:
                named.remove(name)
            place += 1
        return 1 / len(named) if answer in named else 0.0

    return score_best(pair, text, answers)


def score_retrieval(prediction: str, answers: Answers, meta: Meta) -> float:
    """passage_retrieval_en: share of the numbers in the output that are the answer's ("Paragraph 7"), 0 without any."""
    return score_best(lambda text, answer: _share(text, _read_number(answer, "Paragraph")), prediction, answers)


def score_dialogue_retrieval(prediction: str, answers: Answers, meta: Meta) -> float:
    """The same for answers of the form "Dialogue 7"."""
    return score_best(lambda text, answer: _share(text, _read_number(answer, "Dialogue")), prediction, answers)


def score_count(prediction: str, answers: Answers, meta: Meta) -> float:
    """passage_count: share of the numbers in the output that are the answer, digit for digit, 0 without any.

    Numbers are runs of digits, so "1.5" holds two and "-3" holds 3.
    """
    return score_best(_share, prediction, answers)


def score_longbench_v2(prediction: str, answers: Answers, meta: Meta) -> float:
    """1 where the stated letter is the answer, else 0; an output that states none scores 0."""
    return float(extract_letter(prediction) in answers)


def score_longbench_v2_compensated(prediction: str, answers: Answers, meta: Meta) -> float:
    """The same, but an output that states no letter scores 0.25, what a guess among four would."""
    letter = extract_letter(prediction)
    return 0.25 if letter is None else float(letter in answers)


def extract_letter(prediction: str) -> str | None:
    """The letter of "The correct answer is (X)", else of "The correct answer is X", X from A to D, else None.

    Asterisks are taken out first. The original does not record empty outputs at all; here they state no letter.
    """
    text = prediction.replace("*", "")
    found = re.search(r"The correct answer is \(([A-D])\)", text) or re.search(r"The correct answer is ([A-D])", text)
    return found[1] if found else None


def _share(text: str, number: str) -> float:
    numbers = re.findall(r"\d+", text)
    return numbers.count(number) / len(numbers) if numbers else 0.0


def _read_number(answer: str, word: str) -> str:
    found = re.search(rf"{word} (\d+)", answer)
    if not found:
        raise bad("answers", answer, f"of the form '{word} 7'", "Correct the row, or score it with longbench_count.")
    return found[1]
