"""BABILong's score for bAbI questions (Kuratov et al. 2024): the answer is the only label that the output names.

BABILong publishes labels for qa1 to qa5 among the tasks here. For counting (qa7) and lists (qa8) they are added after
bAbI's answers, with two rules: a label inside a longer one does not count (the one in "none"), and of a list
("milk,football") all must be named, in any order, and nothing else.
"""

from __future__ import annotations

import re

from fewer.errors import bad
from fewer.study.metrics.fields import Answers, Meta, read_text

__all__ = ["LABELS", "score_babi"]

_PLACES = ("bathroom", "bedroom", "garden", "hallway", "kitchen", "office")

LABELS = {
    "qa1": _PLACES,
    "qa2": _PLACES,
    "qa3": _PLACES,
    "qa4": _PLACES,
    "qa5": ("bill", "fred", "jeff", "mary", "apple", "football", "milk"),
    "qa7": ("none", "one", "two", "three"),
    "qa8": ("apple", "football", "milk", "nothing"),
}


def score_babi(prediction: str, answers: Answers, meta: Meta) -> float:
    """1 where the labels named in the output's first sentence, less those in the question, are the answer's, else 0.

    `meta["babi_task"]` chooses the labels (`LABELS`); `meta["question"]` is the question. Case does not matter; a
    sentence ends at a full stop, or where the output goes on with "<context>" or "<example>".
    """
    task = read_text(meta, "babi_task")
    if task not in LABELS:
        raise bad("meta['babi_task']", task, f"one of {', '.join(LABELS)}", "Score it with best_subspan_em.")
    sentence = re.split(r"\.|<context>|<example>", prediction.lower())[0]
    asked = read_text(meta, "question").lower()
    named = {label for label in _find_labels(sentence, LABELS[task]) if label not in asked}
    return float(any(named == set(answer.lower().split(",")) for answer in answers))


def _find_labels(text: str, labels: tuple[str, ...]) -> set[str]:
    return set(re.findall("|".join(sorted(labels, key=len, reverse=True)), text))
