"""Multiple choice in free text: which option an output chooses, by its letter or by its text.

This reading is this project's own; the benchmarks' rules are `leval_choice`, `longbench_v2` and
`infinitebench_longbook_choice_eng`. It never guesses: an output that chooses nothing, or two options, scores 0.
"""

from __future__ import annotations

import re
import string

from fewer.errors import bad
from fewer.study.metrics.fields import Answers, Meta, read_index, read_texts
from fewer.study.metrics.normal import normalize

__all__ = ["extract_option", "score_multiple_choice"]

_OPENING = r"[\s*_\"“'`\[]*"
_LETTER = r"(?:\(\s*([A-Za-z])\s*\)|([A-Z])(?![A-Za-z0-9'’]))"
_SMALL = r"([a-z])(?:\)|[.:]?\s*$|[.:]\s)"
_STATED = re.compile(
    rf"\b(?:[Aa]nswer|ANSWER|[Oo]ption|[Cc]hoice)(?: is| would be| should be)?\s*:?{_OPENING}(?:option )?{_LETTER}"
)
_LEADING = re.compile(f"{_OPENING}(?:{_LETTER}|{_SMALL})")
_ALONE = re.compile(rf"(?<![A-Za-z0-9'’]){_LETTER}")
_AFTER_ARTICLE = re.compile(r"\s+(?!(?:and|or|is|was|as|because|since|but|so)\b)[a-z]")


def score_multiple_choice(prediction: str, answers: Answers, meta: Meta) -> float:
    """1 where the output chooses the option `meta["gold_index"]` of `meta["options"]`, else 0; `answers` is not read.

    Chance is one over the number of options.
    """
    options = read_texts(meta, "options", at_least=2)
    return float(extract_option(prediction, options) == read_index(meta, "gold_index", len(options)))


def extract_option(prediction: str, options: list[str]) -> int | None:
    """The index of the option that the output chooses, or None.

    The first of these that names one option of the list:
    1. a letter after "answer", "option" or "choice" ("The answer is (B)"),
    2. a letter that the output begins with ("B", "B. Paris", "(b)", "b."),
    3. the text of one option, normalised, as whole words; one inside another found one does not count,
    4. the only letter that stands alone in the output.
    An A before a small letter may be an article, so there it counts last, in 1 and 2 as well.
    """
    if not 2 <= len(options) <= len(string.ascii_uppercase):
        raise bad("options", options, "2 to 26 texts", "Correct the row.")
    lead = [found for found in (_STATED.search(prediction), _LEADING.match(prediction)) if found]
    for found in lead:
        if not _may_be_article(found, prediction) and (index := _read_letter(found, options)) is not None:
            return index
    if (index := _find_text(prediction, options)) is not None:
        return index
    for found in lead:
        if (index := _read_letter(found, options)) is not None:
            return index
    alone = [found for found in _ALONE.finditer(prediction) if not _may_be_article(found, prediction)]
    named = {index for found in alone if (index := _read_letter(found, options)) is not None}
    return named.pop() if len(named) == 1 else None


def _read_letter(found: re.Match[str], options: list[str]) -> int | None:
    letter = next(group for group in found.groups() if group)
    index = string.ascii_uppercase.index(letter.upper())
    return index if index < len(options) else None


def _may_be_article(found: re.Match[str], text: str) -> bool:
    return found[2] == "A" and _AFTER_ARTICLE.match(text, found.end()) is not None


def _find_text(prediction: str, options: list[str]) -> int | None:
    text = f" {normalize(prediction)} "
    wanted = [f" {normalize(option)} " for option in options]
    found = [index for index, option in enumerate(wanted) if option.strip() and option in text]
    longest = [i for i in found if not any(wanted[i] in wanted[other] for other in found if other != i)]
    return longest[0] if len(longest) == 1 else None
