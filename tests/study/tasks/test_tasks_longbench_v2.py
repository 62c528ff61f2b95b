"""LongBench v2 as published, as a list and one row a line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from rowfiles import write_lines, write_prompt

from fewer.errors import BadInput
from fewer.study.tasks import list_tasks, load_task

BOOK = "".join(f"Chapter {number}. The light {{was}} on.\nIt stayed on.\n\n" for number in range(90))
V2 = {
    "_id": "66f36490821e116aacb2cc22",
    "domain": "Single-Document QA",
    "sub_domain": "Financial",
    "difficulty": "easy",
    "length": "short",
    "question": "How {tall} is it?",
    "choice_A": "1 metre",
    "choice_B": "2 metres ",
    "choice_C": "3 metres",
    "choice_D": "4 metres",
    "answer": "C",
    "context": f"\n{BOOK}\n",
}
V2_TEMPLATE = (  # prompts/0shot.txt
    "Please read the following text and answer the question below.\n\n<text>\n$DOC$\n</text>\n\nWhat is the correct "
    "answer to this question: $Q$\nChoices:\n(A) $C_A$\n(B) $C_B$\n(C) $C_C$\n(D) $C_D$\n\nFormat your response as "
    "follows: "
    '"The correct answer is (insert answer here)".'
)


@pytest.mark.parametrize("name", ["data.json", "longbench_v2.jsonl", "test.jsonl"])
def test_longbench_v2(tmp_path: Path, name: str) -> None:
    if name.endswith("json"):
        (tmp_path / name).write_text(json.dumps([V2]))
    else:
        write_lines(tmp_path / name, [V2])
    assert list_tasks(tmp_path) == ("longbench_v2",)
    (item,) = load_task("longbench_v2", tmp_path)
    expected = V2_TEMPLATE.replace("$DOC$", V2["context"].strip()).replace("$Q$", V2["question"])
    for letter in "ABCD":
        expected = expected.replace(f"$C_{letter}$", V2[f"choice_{letter}"].strip())
    assert write_prompt(item) == expected
    assert (item.answers, item.metric, item.category) == (("C",), "longbench_v2", "single_document_qa")
    assert (item.meta["gold_index"], item.meta["options"][1], item.max_tokens) == (2, "2 metres", 128)
    assert item.chat
    assert len(item.chunks) > 1


def test_longbench_v2_with_a_wrong_letter(tmp_path: Path) -> None:
    (tmp_path / "data.json").write_text(json.dumps([V2, V2 | {"_id": "b", "answer": "E"}]))
    with pytest.raises(BadInput, match=r"data\.json, row 2: answer is 'E'; it must be A, B, C or D"):
        load_task("longbench_v2", tmp_path)
