"""InfiniteBench's scores, one a task (Zhang et al. 2024), by the last version of its script.

Its rules read the output's surface closely; each function says where the answer is looked for. Where the original stops
with an error (a decimal where a whole number is wanted), the output scores 0 here. Not covered: math_calc, whose score
depends on the model's name, and longbook_qa_chn.
"""

from __future__ import annotations

import re

from fewer.errors import bad
from fewer.study.metrics.fields import Answers, Meta

__all__ = [
    "score_code_debug",
    "score_code_run",
    "score_first_integer",
    "score_kv_retrieval",
    "score_longbook_choice",
    "score_longdialogue_qa",
    "score_math_find",
]


def score_first_integer(prediction: str, answers: Answers, meta: Meta) -> float:
    """passkey and number_string: 1 where the output's first run of the digits 0 to 9 is the answer, else 0."""
    found = re.search("[0-9]+", prediction)
    return float(found is not None and found[0] in answers)


def score_kv_retrieval(prediction: str, answers: Answers, meta: Meta) -> float:
    """1 where the value is a word of the output, punctuation taken as spaces and case kept, else 0."""
    return float(any(answer in _take_words(prediction, "\n:\"'.,?!{}") for answer in answers))


def score_longdialogue_qa(prediction: str, answers: Answers, meta: Meta) -> float:
    """1 where the first answer, a name in capitals, is a word of the output in capitals, else 0.

    Further answers are not looked at, and a name of two words is never found; the original has it so.
    """
    return float(answers[0] in [word.upper() for word in _take_words(prediction, "\n:\"'.,?!{}")])


def score_longbook_choice(prediction: str, answers: Answers, meta: Meta) -> float:
    """1 where the output chooses one of the answers, which are the right option's text and its letter, else 0.

    In this order: the first character where it is A, B, C or D; the whole output; what follows "answer is:", "answer:",
    "answer is" or "option is"; the first word that is part of "ABCD". An output that begins with a word in A to D
    ("Because") is taken for that letter.
    """
    text = prediction.strip()
    if not text:
        return 0.0
    if text[0] in "ABCD":
        return float(text[0] in answers)
    if text in answers:
        return 1.0
    text = _join_words(text, "\n\"'.,?!{}")
    after = _take_after(text, ("answer is:", "answer:", "answer is", "option is"))
    if after is not None:
        return float(after.startswith(tuple(answers)))
    word = next((word for word in text.split() if word in "ABCD"), None)
    return float(word in answers)


def score_code_debug(prediction: str, answers: Answers, meta: Meta) -> float:
    """1 where the output names the answers, which are the function with the bug and its letter, in this order.

    Either its first two characters are the letter and "." or ":", or what follows "answer is:", "is:" or "answer:"
    begins with the letter or the function's name.
    """
    if len(answers) != 2:
        raise bad("answers", list(answers), "two: the function's name and its letter", "Correct the row.")
    name, letter = answers
    text = prediction.strip()
    if text[:2] in (f"{letter}.", f"{letter}:"):
        return 1.0
    for sign in ("\n", "`", "'", '"', "-", "*", "Option", "option"):
        text = text.replace(sign, " ")
    after = _take_after(re.sub(" +", " ", text), ("answer is:", "is:", "answer:"))
    return float(after is not None and after.startswith((letter, name)))


def score_code_run(prediction: str, answers: Answers, meta: Meta) -> float:
    """1 where the output's last word, some punctuation taken as spaces, is the answer as a whole number, else 0."""
    right = [_read_integer(answer) for answer in answers]
    words = _take_words(prediction, "\n.`'\":")
    try:
        return float(bool(words) and int(words[-1]) in right)
    except ValueError:
        return 0.0


def score_math_find(prediction: str, answers: Answers, meta: Meta) -> float:
    """1 where the output's first number is the answer, else 0; minus signs are not read.

    An answer with a point is compared as a decimal, one without as a whole number, which "3.0" is not.
    """
    whole = [_read_integer(answer) for answer in answers if "." not in answer]
    decimal = [_read_decimal(answer) for answer in answers if "." in answer]
    found = re.search(r"\d+\.\d+|\d+", prediction)
    if not found:
        return 0.0
    try:
        return float(float(found[0]) in decimal or ("." not in found[0] and int(found[0]) in whole))
    except ValueError:  # more digits than Python turns into a number
        return 0.0


def _read_decimal(answer: str) -> float:
    if not re.fullmatch(r"\s*-?[0-9]*\.[0-9]+\s*", answer):
        raise bad("answers", answer, "a number", "Correct the row.")
    return float(answer)


def _read_integer(answer: str) -> int:
    if not re.fullmatch(r"\s*-?[0-9]{1,4000}\s*", answer):
        raise bad("answers", answer, "a whole number", "Correct the row.")
    return int(answer)


def _take_words(text: str, as_spaces: str) -> list[str]:
    return text.translate(dict.fromkeys(map(ord, as_spaces), " ")).split()


def _join_words(text: str, as_spaces: str) -> str:
    """The text with these signs as spaces, and runs of spaces as one; other whitespace stays."""
    return re.sub(" +", " ", text.translate(dict.fromkeys(map(ord, as_spaces), " ")))


def _take_after(text: str, prefixes: tuple[str, ...]) -> str | None:
    """What follows the first of these prefixes that occurs anywhere, and one more character; None where none does."""
    for prefix in prefixes:
        place = text.find(prefix)
        if place >= 0:
            return text[place + len(prefix) + 1 :]
    return None
