"""RULER's wordings (Hsieh et al. 2024), of its needles, its variables and its common words.

From its scripts/data/synthetic/constants.py. RULER appends the answer's beginning to the prompt after the model's
template (scripts/data/prepare.py), so it is an `answer_prefix` here: it stands in the assistant's turn where there is a
chat template, and ends the prompt where there is none. The numbers of tokens are its `tokens_to_generate`. RULER puts a
worked example before the common words and the variables; the rows have none, so these are zero-shot.
"""

from __future__ import annotations

import re

from fewer.errors import bad
from fewer.study.tasks.wordings.template import Row, Template

__all__ = ["NEEDLE_QUESTION", "WORDINGS"]

_ORIGIN = "hsiehjackson/RULER scripts/data/synthetic/constants.py; chat template: the model's, then the answer prefix"

NEEDLE_QUESTION = re.compile(
    r"What (?P<verb>is|are all) the special magic (?P<kind>\w+) for (?P<key>.+?) mentioned in the provided text\?"
)
_VALUE = re.compile(r"assigned the value (\d+)")


def _fill_needle(row: Row) -> dict[str, str]:
    """Singular wording for one value, plural for several, as RULER's niah.py replaces the words."""
    match = NEEDLE_QUESTION.search(row["question"])
    if match is None:
        raise bad("question", row["question"], "RULER's question for a special magic value", "Correct the row.")
    kind, one = match["kind"], match["verb"] == "is"
    return {
        "question": match[0],
        "some": "A" if one else "Some",
        "are": "is" if one else "are",
        "kind": kind,
        "key": match["key"],
    }


def _fill_chain(row: Row) -> dict[str, str]:
    match = _VALUE.search(row["question"])
    if match is None:
        raise bad("question", row["question"], "RULER's question for the variables of a value", "Correct the row.")
    return {"question": row["question"], "count": str(len(row["answers"])), "value": match[1]}


def _niah(between: str) -> Template:
    return Template(
        _ORIGIN,
        before="{some} special magic {kind} {are} hidden within the following text. Make sure to memorize it. I will "
        "quiz you about the {kind} afterwards.\n",
        between=between,
        ask="\n{question}",
        answer_prefix=" The special magic {kind} for {key} mentioned in the provided text {are}",
        max_tokens=128,
        fill=_fill_needle,
        needle=True,
    )


WORDINGS: dict[str, Template] = {
    "ruler_niah_multikey_3": _niah("\n"),
    "ruler_niah_wiki": _niah("\n\n"),
    "ruler_vt": Template(
        _ORIGIN,
        before="Memorize and track the chain(s) of variable assignment hidden in the following text.\n\n",
        ask="\nQuestion: {question}",
        answer_prefix=" Answer: According to the chain(s) of variable assignment in the text above, {count} variables "
        "are assigned the value {value}, they are: ",
        max_tokens=30,
        fill=_fill_chain,
    ),
    "ruler_cwe": Template(
        _ORIGIN,
        before="Below is a numbered list of words. In these words, some appear more often than others. Memorize the "
        "ones that appear most often.\n",
        between=" ",
        ask="\nQuestion: {question}",
        answer_prefix=" Answer: The top 10 words that appear most often in the list are:",
        max_tokens=120,
        fill=lambda row: {"question": "What are the 10 most common words in the above list?"},
    ),
}
