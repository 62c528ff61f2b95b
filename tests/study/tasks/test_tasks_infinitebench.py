"""InfiniteBench as published: wording, answers and evidence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from rowfiles import write_chunks, write_lines, write_prompt

from fewer.errors import BadInput
from fewer.study.item import Item
from fewer.study.metrics import score
from fewer.study.tasks import list_tasks, load_task

NOISE = "The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again. " * 40
HIDDEN = f"{NOISE}The pass key is 71432. Remember it. 71432 is the pass key. {NOISE}"
PAIRS = "{" + ", ".join(f'"key{number:04d}": "value{number:04d}"' for number in range(200)) + "}"
CODE = "".join(f"def func_{number}(x):\n    return func_{number + 1}(x + {number})\n\n" for number in range(80))
BOOK = "".join(f"Chapter {number}. Ann met {{Bob}}.\n\n" for number in range(200))

CASES: dict[str, tuple[dict[str, Any], str, tuple[str, ...], str]] = {  # row, prompt, answers, a right output
    "passkey": (
        {"context": HIDDEN, "input": "What is the pass key?", "answer": ["71432"], "options": []},
        "There is an important info hidden inside a lot of irrelevant text. Find it and memorize it. I will quiz you "
        "about the important information.\n\n{context}\n\n{input}\n\nThe pass key is",
        ("71432",),
        " 71432.",
    ),
    "kv_retrieval": (
        {
            "context": PAIRS,
            "input": 'Key: "key0150"\nThe value associated with the specified key is: ',
            "answer": "value0150",
            "options": [],
        },
        "Extract the value corresponding to the specified key in the JSON object below.\n\n{context}\n\n{input}",
        ("value0150",),
        '"value0150"',
    ),
    "number_string": (
        {"context": HIDDEN, "input": "What is the sequence of digits?", "answer": ["71432"], "options": []},
        "There is an important info hidden inside a lot of irrelevant text. Find it. I will quiz you about the "
        "important information there.\n\n{context}\n\n{input}\n\nThe sequence of digits is",
        ("71432",),
        "71432",
    ),
    "longbook_qa_eng": (
        {"context": BOOK, "input": "Whom did {Ann} meet?", "answer": ["Bob", "bob"], "options": []},
        "Read the book and answer the question. Be very concise in your answer.\n\n{context}\n\nQuestion: "
        "{input}\nAnswer:",
        ("Bob", "bob"),
        " Bob",
    ),
    "longbook_sum_eng": (
        {"context": BOOK, "input": "", "answer": ["Ann met Bob."], "options": []},
        "Summarize the book below.\n\n{context}\n\nSummary:",
        ("Ann met Bob.",),
        "Ann met Bob.",
    ),
    "longbook_choice_eng": (
        {"context": BOOK, "input": "Whom did Ann meet?", "answer": ["Bob"], "options": ["Al", "Bob", "Cy", "Di"]},
        "Read the book and answer the question.\n\n{context}\n\nQuestion: {input}\nA. Al\nB. Bob\nC. Cy\nD. Di\n\nThe "
        "letter of the correct answer is",
        ("Bob", "B"),
        " B",
    ),
    "longdialogue_qa_eng": (
        {"context": "ANN: hi\n$$MASK$$: hi\n" * 90, "input": "", "answer": ["BOB"], "options": []},
        'Below is a dialogue script where one random occurrence of a character name is replaced with "$$MASK$$", and '
        "you "
        "should try to guess who that character is.\n\n{context}\n\nThe name that has been replaced with $$MASK$$ is "
        "likely",
        ("BOB",),
        " BOB.",
    ),
    "math_find": (
        {
            "context": str(list(range(900))),
            "input": "The largest number of the list is:",
            "answer": [899],
            "options": [],
        },
        "What is the largest number in the following list?\n\n{context}\n\n{input}",
        ("899",),
        " 899",
    ),
    "code_run": (
        {
            "context": CODE,
            "input": "Please give me the exact number of the return value of func_1(-7). Be concise.",
            "answer": [-4],
            "options": [],
        },
        "There is a function called func_1 in the following Python code.\n\n{context}\n\nPlease compute the exact "
        "value of func_1(-7). The value of func_1(-7) is",
        ("-4",),
        " -4",
    ),
    "code_debug": (
        {
            "context": CODE,
            "input": "Which?",
            "answer": ["func_3", "C"],
            "options": ["func_1", "func_2", "func_3", "func_4"],
        },
        "Following is a Python code where exactly one of the functions/methods has a deliberate error that makes it "
        "crash.\n\n{context}\n\nOptions:\nA. func_1\nB. func_2\nC. func_3\nD. func_4\n\nThe correct option is:",
        ("func_3", "C"),
        "C. func_3",
    ),
}
LENGTHS = {
    "passkey": 6, "number_string": 12, "kv_retrieval": 50, "longbook_sum_eng": 1200, "longbook_choice_eng": 40,
    "longbook_qa_eng": 40, "longdialogue_qa_eng": 40, "math_find": 3, "code_run": 5, "code_debug": 5,
}  # fmt: skip


def load(folder: Path, task: str, *rows: dict[str, Any]) -> tuple[Item, ...]:
    write_lines(folder / f"{task}.jsonl", [{"id": number} | row for number, row in enumerate(rows)])
    assert list_tasks(folder) == (f"infinitebench_{task}",)
    return load_task(f"infinitebench_{task}", folder)


@pytest.mark.parametrize("task", sorted(CASES))
def test_prompt_and_answers(tmp_path: Path, task: str) -> None:
    row, template, answers, right = CASES[task]
    (item,) = load(tmp_path, task, row)
    asked = row["input"] if "{input}" in template else ""
    assert write_prompt(item) == template.replace("{context}", row["context"]).replace("{input}", asked)
    assert item.answers == answers
    assert (item.max_tokens, item.chat, item.metric) == (LENGTHS[task], False, f"infinitebench_{task}")
    assert score(item.metric, right, item.answers, item.meta) == 1
    assert score(item.metric, "nothing", item.answers, item.meta) < 1
    assert len(item.chunks) > 1
    if task in ("passkey", "number_string", "kv_retrieval"):
        assert item.supporting is not None
        assert all(answers[0] in write_chunks(item)[i] for i in item.supporting)
    else:
        assert item.supporting is None


@pytest.mark.parametrize(("task", "why"), [("longbook_qa_chn", "is in Chinese"), ("math_calc", "thousands of numbers")])
def test_refused_tasks(tmp_path: Path, task: str, why: str) -> None:
    with pytest.raises(BadInput, match=f"{task} .*{why}"):
        load(tmp_path, task, CASES["passkey"][0])


@pytest.mark.parametrize(
    ("task", "changes", "said"),
    [
        ("passkey", {"answer": []}, r"answer is \[\]"),
        ("passkey", {"context": " "}, "context is ' '"),
        (
            "longbook_choice_eng",
            {"options": ["Al", "Bob"]},
            r"options is \['Al', 'Bob'\]; it must be four texts, 'Bob'",
        ),
        ("longbook_choice_eng", {"answer": "Eve"}, r"options is .*four texts, 'Eve' among them"),
        ("code_run", {"input": "no call"}, "input is 'no call'"),
        ("math_find", {"input": "largest?"}, "input is 'largest.'"),
    ],
)
def test_malformed_rows(tmp_path: Path, task: str, changes: dict[str, Any], said: str) -> None:
    row = CASES[task][0]
    with pytest.raises(BadInput, match=rf"{task}\.jsonl, line 2: {said}"):
        load(tmp_path, task, row, row | changes)
