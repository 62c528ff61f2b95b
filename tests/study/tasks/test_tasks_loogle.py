"""LooGLE in both of its published formats."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from rowfiles import write_chunks, write_lines, write_prompt

from fewer.errors import BadInput
from fewer.study.metrics import score
from fewer.study.tasks import list_tasks, load_task

ARTICLE = "".join(f"Fact {number}: tower {number} has {number * 3} steps. " for number in range(150)).rstrip()
PAIRS = [
    {"Q": "How many steps has tower 20?", "A": "60", "S": ["tower 20 has 60 steps."], "type": "computation"},
    {"Q": "Which {towers} are named?", "A": "Many", "S": ["tower 1 has 3 steps.", "tower 140 has 420 steps."]},
    {"Q": "Who built them?", "A": "Nobody", "S": ["It is not said."]},
]
QA = "Please answer the question based on the long texts below. \n{input}\nQuestion: {Q}\nAnswer: "


@pytest.mark.parametrize("spelled", [True, False])
@pytest.mark.parametrize(("task", "length"), [("shortdep_qa", 300), ("longdep_qa", 500)])
def test_questions_of_a_document(tmp_path: Path, task: str, length: int, spelled: bool) -> None:
    row = {"input": ARTICLE, "title": "Towers", "qa_pairs": str(PAIRS) if spelled else PAIRS, "output": "none"}
    write_lines(tmp_path / f"{task}.jsonl", [row, row | {"input": "Another article. " * 200}])
    assert list_tasks(tmp_path) == (f"loogle_{task}",)
    items = {item.id: item for item in load_task(f"loogle_{task}", tmp_path)}
    assert len(items) == 6
    for number, pair in enumerate(PAIRS):
        item = items[f"loogle_{task}/0001_{number:03d}"]
        assert write_prompt(item) == QA.replace("{input}", ARTICLE).replace("{Q}", str(pair["Q"]))
        assert (item.answers, item.metric, item.chat, item.max_tokens) == ((pair["A"],), "qa_f1", False, length)
        assert item.meta["title"] == "Towers"
    near, far, none = (items[f"loogle_{task}/0001_{number:03d}"] for number in range(3))
    assert near.meta["type"] == "computation"
    assert near.supporting is not None
    assert "tower 20 has 60 steps." in "".join(write_chunks(near)[i] for i in near.supporting)
    assert far.supporting is not None
    assert {0, len(far.chunks) - 1} & set(far.supporting)
    assert len(far.supporting) >= 2
    assert none.supporting is None
    assert near.cluster == far.cluster != items[f"loogle_{task}/0002_000"].cluster


def test_one_question_a_row(tmp_path: Path) -> None:
    row = {
        "id": "q7", "doc_id": "d1", "task": "shortdep_qa", "title": "Towers", "context": ARTICLE,
        "question": PAIRS[0]["Q"], "answer": "60", "evidence": PAIRS[0]["S"],
    }  # fmt: skip
    write_lines(tmp_path / "shortdep_qa.jsonl", [row, row | {"id": "q8", "evidence": "['tower 3 has 9 steps.']"}])
    items = {item.id: item for item in load_task("loogle_shortdep_qa", tmp_path)}
    assert sorted(items) == ["loogle_shortdep_qa/q7_000", "loogle_shortdep_qa/q8_000"]
    assert write_prompt(items["loogle_shortdep_qa/q7_000"]) == QA.format(input=ARTICLE, Q=PAIRS[0]["Q"])
    assert items["loogle_shortdep_qa/q7_000"].supporting is not None
    assert items["loogle_shortdep_qa/q8_000"].supporting == (0,)


@pytest.mark.parametrize("stem", ["longdep_summarization", "summarization"])
def test_summaries(tmp_path: Path, stem: str) -> None:
    row = {"input": ARTICLE, "title": "2301.1", "qa_pairs": "none", "output": "Towers have steps."}
    write_lines(tmp_path / f"{stem}.jsonl", [row])
    (item,) = load_task("loogle_longdep_summarization", tmp_path)
    expected = f"Please generate a summary of the below paper. \n{ARTICLE}\n Summarization: "
    assert (write_prompt(item), item.answers) == (expected, ("Towers have steps.",))
    assert (item.metric, item.max_tokens, item.supporting) == ("loogle_rouge_l", 500, None)


def test_clozes(tmp_path: Path) -> None:
    pair = {"Q": "<mask-0> met <mask-1>.", "A": "{'<mask-0>': 'Ann', '<mask-1>': 'Bob'}", "S": ["tower 2 has 6 steps."]}
    row = {"input": ARTICLE, "title": "Towers", "qa_pairs": [pair], "output": "none"}
    write_lines(tmp_path / "shortdep_cloze.jsonl", [row])
    (item,) = load_task("loogle_shortdep_cloze", tmp_path)
    assert item.answers == ("Ann", "Bob")
    assert write_prompt(item).endswith("\n Question: <mask-0> met <mask-1>. What are the masked entities? \nAnswer:")
    assert "for example: {'<mask-0>': 'Bob', '<mask-1>': 'Gorrosion Magazine','<mask-2>': 'Bethel Horizon'}\n" in (
        item.wording.before
    )
    assert score(item.metric, "{'<mask-1>': 'Bob'}", item.answers, item.meta) == 0.5


@pytest.mark.parametrize(
    ("task", "changes", "said"),
    [
        ("shortdep_qa", {"qa_pairs": "[not python"}, "qa_pairs is"),
        ("shortdep_qa", {"qa_pairs": []}, r"qa_pairs is \[\]"),
        ("shortdep_qa", {"qa_pairs": [{"Q": "", "A": "x"}]}, "the question is ''"),
        ("shortdep_qa", {"input": " "}, "input is ' '"),
        ("shortdep_cloze", {"qa_pairs": [{"Q": "q", "A": "Ann"}]}, "the answer is 'Ann'; it must be an object"),
    ],
)
def test_malformed_rows(tmp_path: Path, task: str, changes: dict[str, Any], said: str) -> None:
    answer = {"<mask-0>": "Ann"} if task == "shortdep_cloze" else "60"
    row = {"input": ARTICLE, "title": "T", "qa_pairs": [{"Q": "q", "A": answer}], "output": "none"}
    write_lines(tmp_path / f"{task}.jsonl", [row, row | changes])
    with pytest.raises(BadInput, match=rf"{task}\.jsonl, line 2: {said}"):
        load_task(f"loogle_{task}", tmp_path)


def test_an_unknown_file_of_loogles_format(tmp_path: Path) -> None:
    write_lines(tmp_path / "poems.jsonl", [{"input": "x", "title": "T", "qa_pairs": "none", "output": "y"}])
    with pytest.raises(BadInput, match="the task is 'poems'; it must be one of shortdep_qa"):
        load_task("loogle_poems", tmp_path)
