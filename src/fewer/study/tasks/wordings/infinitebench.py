"""InfiniteBench's wordings (Zhang et al. 2024) and LongBench v2's (Bai et al. 2024).

InfiniteBench: from its src/prompt.py, the templates of its open model (yarn_mistral), which its code gives to the model
without a chat template; lengths from src/eval_utils.py. LongBench v2: from its prompts/0shot.txt and pred.py, which put
it into the user's turn.
"""

from __future__ import annotations

import re

from fewer.errors import bad
from fewer.study.tasks.wordings.template import Row, Template

__all__ = ["INFINITEBENCH", "LONGBENCH_V2"]

_ORIGIN = "OpenBMB/InfiniteBench src/prompt.py (yarn_mistral) and src/eval_utils.py; chat template: none, as its code"
_CALL = re.compile(r"func_[0-9]+\(-?[0-9]+\)")


def _list_options(row: Row) -> dict[str, str]:
    options = row["meta"]["options"]
    return {"question": row["question"], "options": "\n".join(f"{'ABCD'[i]}. {text}" for i, text in enumerate(options))}


def _name_call(row: Row) -> dict[str, str]:
    match = _CALL.search(row["question"])
    if match is None:
        raise bad("input", row["question"], "a text with a call like func_1(2) in it", "Correct the row.")
    asked = f"Please compute the exact value of {match[0]}. The value of {match[0]} is"
    return {"question": asked, "name": match[0].partition("(")[0]}


def _ask_number(row: Row) -> dict[str, str]:
    """`The largest number of the list is:` becomes the heading `What is the largest number in the following list?`."""
    match = re.search(r"The .+ of", row["question"])
    if match is None:
        raise bad("input", row["question"], "a text that begins `The ... of`", "Correct the row.")
    return {"question": row["question"], "which": match[0].lower().removesuffix(" of")}


INFINITEBENCH: dict[str, Template] = {
    "passkey": Template(
        _ORIGIN,
        before="There is an important info hidden inside a lot of irrelevant text. Find it and memorize it. I will "
        "quiz you about the important information.\n\n",
        ask="\n\n{question}\n\nThe pass key is",
        max_tokens=6,
        chat=False,
        needle=True,
    ),
    "number_string": Template(
        _ORIGIN,
        before="There is an important info hidden inside a lot of irrelevant text. Find it. I will quiz you about the "
        "important information there.\n\n",
        ask="\n\n{question}\n\nThe sequence of digits is",
        max_tokens=12,
        chat=False,
        needle=True,
    ),
    "kv_retrieval": Template(
        _ORIGIN,
        before="Extract the value corresponding to the specified key in the JSON object below.\n\n",
        max_tokens=50,
        chat=False,
        needle=True,
    ),
    "longbook_sum_eng": Template(
        _ORIGIN + "; its closing cue is the question",
        before="Summarize the book below.\n\n",
        max_tokens=1200,
        chat=False,
        fill=lambda row: {"question": "Summary:"},
    ),
    "longbook_choice_eng": Template(
        _ORIGIN,
        before="Read the book and answer the question.\n\n",
        ask="\n\nQuestion: {question}\n{options}\n\nThe letter of the correct answer is",
        max_tokens=40,
        chat=False,
        fill=_list_options,
    ),
    "longbook_qa_eng": Template(
        _ORIGIN,
        before="Read the book and answer the question. Be very concise in your answer.\n\n",
        ask="\n\nQuestion: {question}\nAnswer:",
        max_tokens=40,
        chat=False,
    ),
    "longdialogue_qa_eng": Template(
        _ORIGIN,
        before="Below is a dialogue script where one random occurrence of a character name is replaced with "
        '"$$MASK$$", and you should try to guess who that character is.\n\n',
        max_tokens=40,
        chat=False,
        fill=lambda row: {"question": "The name that has been replaced with $$MASK$$ is likely"},
    ),
    "math_find": Template(
        _ORIGIN, before="What is {which} in the following list?\n\n", max_tokens=3, chat=False, fill=_ask_number
    ),
    "code_run": Template(
        _ORIGIN,
        before="There is a function called {name} in the following Python code.\n\n",
        max_tokens=5,
        chat=False,
        fill=_name_call,
    ),
    "code_debug": Template(
        _ORIGIN,
        before="Following is a Python code where exactly one of the functions/methods has a deliberate error that "
        "makes it crash.\n\n",
        ask="\n\n{question}\n{options}\n\nThe correct option is:",
        max_tokens=5,
        chat=False,
        fill=lambda row: _list_options(row) | {"question": "Options:"},
    ),
}

LONGBENCH_V2 = Template(
    "THUDM/LongBench prompts/0shot.txt and pred.py, version 2; chat template: the model's",
    before="Please read the following text and answer the question below.\n\n<text>\n",
    ask="\n</text>\n\nWhat is the correct answer to this question: {question}\nChoices:\n(A) {A}\n(B) {B}\n(C) {C}\n"
    '(D) {D}\n\nFormat your response as follows: "The correct answer is (insert answer here)".',
    max_tokens=128,
    fill=lambda row: {"question": row["question"], **dict(zip("ABCD", row["meta"]["options"], strict=True))},
)
