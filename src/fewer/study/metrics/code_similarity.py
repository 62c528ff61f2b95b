"""How alike the first written line of code and the right line are.

LongBench scores lcc and repobench-p with `fuzz.ratio` of `fuzzywuzzy`, a whole percentage. What that is depends on the
installation: with python-Levenshtein beside it, twice the longest common subsequence over both lengths (what
`rapidfuzz` computes before rounding); without, Python's difflib, which finds less, leaves out frequent characters in
lines of 200 and more, and depends on which text comes first. LongBench asks for neither. `longbench_code_sim` is the
first, because it has a definition; `longbench_code_sim_difflib` is the second, for comparing with such numbers.
"""

from __future__ import annotations

from difflib import SequenceMatcher

from fewer.study.metrics.fields import Answers, Meta
from fewer.study.metrics.normal import score_best
from fewer.study.metrics.subsequence import measure_common

__all__ = ["score_code_sim", "score_code_sim_difflib", "score_edit_sim"]


def score_code_sim(prediction: str, answers: Answers, meta: Meta) -> float:
    """LongBench's code_sim_score: the first line without a backquote, # or //, against the answer, in whole percents.

    A right line that holds one of these (a comment, integer division, an address) is passed over like any other.
    Rounded half to even, as `fuzzywuzzy` does; the result is a percentage over 100.
    """
    line = _take_code_line(prediction)
    return score_best(lambda ours, gold: round(100 * _measure_likeness(ours, gold)) / 100, line, answers)


def score_code_sim_difflib(prediction: str, answers: Answers, meta: Meta) -> float:
    """The same by difflib's ratio, as `fuzzywuzzy` computes it where python-Levenshtein is not installed."""

    def pair(ours: str, gold: str) -> float:
        if ours == gold:
            return 1.0
        return round(100 * SequenceMatcher(None, ours, gold).ratio()) / 100 if ours and gold else 0.0

    return score_best(pair, _take_code_line(prediction), answers)


def score_edit_sim(prediction: str, answers: Answers, meta: Meta) -> float:
    """Twice the longest common subsequence over both lengths in characters, not rounded, of the first line of code.

    The first line that is not blank and does not begin, after spaces, with #, // or a code fence. Unlike LongBench's,
    this line may hold those signs further on. Blanks at the ends of both lines do not count, indentation does.
    """
    lines = (line.rstrip() for line in prediction.split("\n"))
    line = next((line for line in lines if line and not line.lstrip().startswith(("#", "//", "```"))), "")
    return score_best(lambda ours, gold: _measure_likeness(ours, gold.rstrip()), line, answers)


def _take_code_line(prediction: str) -> str:
    lines = prediction.lstrip("\n").split("\n")
    return next((line for line in lines if not any(sign in line for sign in ("`", "#", "//"))), "")


def _measure_likeness(ours: str, gold: str) -> float:
    """1 minus the insertions and deletions needed over both lengths; two empty texts are alike."""
    total = len(ours) + len(gold)
    return 1.0 - (total - 2 * measure_common(ours, gold)) / total if total else 1.0
