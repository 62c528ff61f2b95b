"""RULER as published: the prompt is kept, its haystack becomes chunks, its needles are found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from rowfiles import write_chunks, write_lines, write_prompt

from fewer.errors import BadInput
from fewer.study.item import Item
from fewer.study.tasks import list_tasks, load_task

ESSAY = [f"Sentence number {number} says little. " for number in range(120)]


def load(folder: Path, task: str, prompt: str, outputs: list[str], **fields: Any) -> Item:
    row = {"index": 3, "input": prompt, "outputs": outputs, "length": 4096} | fields
    write_lines(folder / task / "validation.jsonl", [row])
    (item,) = load_task(f"ruler_{task}", folder)
    assert item.id == f"ruler_{task}/3"
    assert item.meta["length_in_ruler"] == 4096
    assert "length" not in item.meta  # that would be tokens asked for
    return item


def hide(*needles: str) -> str:
    text = ESSAY[:]
    for number, needle in enumerate(needles):
        text.insert(40 * (number + 1), needle + " ")
    return "".join(text).rstrip()


SINGLE = "One of the special magic numbers for tall-tower is: 1234567."
NIAH = (
    "A special magic number is hidden within the following text. Make sure to memorize it. I will quiz you about the "
    f"number afterwards.\n{hide(SINGLE)}\nWhat is the special magic number for tall-tower mentioned in the provided "
    f"text?"
)
NIAH_PREFIX = " The special magic number for tall-tower mentioned in the provided text is"


@pytest.mark.parametrize("fields", [{}, {"answer_prefix": NIAH_PREFIX, "length_w_model_temp": 4100}])
def test_a_needle_in_both_layouts(tmp_path: Path, fields: dict[str, Any]) -> None:
    item = load(tmp_path, "niah_single_2", NIAH if fields else NIAH + NIAH_PREFIX, ["1234567"], **fields)
    assert write_prompt(item) == NIAH + NIAH_PREFIX
    assert item.answer_prefix == NIAH_PREFIX
    assert item.question == "What is the special magic number for tall-tower mentioned in the provided text?"
    assert item.wording.before.endswith("I will quiz you about the number afterwards.\n")
    assert "".join(write_chunks(item)) == hide(SINGLE)
    assert item.supporting is not None
    assert [SINGLE in text for text in write_chunks(item)].count(True) == len(item.supporting) == 1
    assert SINGLE in write_chunks(item)[item.supporting[0]]
    assert item.meta["depth"] == item.supporting[0] / (len(item.chunks) - 1)
    assert (item.max_tokens, item.metric, item.chat) == (128, "ruler_string_match_all", True)


def test_several_needles(tmp_path: Path) -> None:
    needles = [f"One of the special magic numbers for a-{key} is: {key * 7}." for key in "123"]
    prompt = (
        "Some special magic numbers are hidden within the following text. Make sure to memorize it. I will quiz you "
        "about "
        f"the numbers afterwards.\n{hide(*needles)}\nWhat are all the special magic numbers for a-1, a-2, and a-3 "
        f"mentioned "
        "in the provided text? The special magic numbers for a-1, a-2, and a-3 mentioned in the provided text are"
    )
    item = load(tmp_path, "niah_multiquery", prompt, [key * 7 for key in "123"])
    assert write_prompt(item) == prompt
    assert item.supporting is not None
    assert len(item.supporting) == 3
    assert all(any(needle in write_chunks(item)[i] for i in item.supporting) for needle in needles)
    assert "depth" not in item.meta


def test_a_prompt_with_a_models_template_in_it_gets_no_other(tmp_path: Path) -> None:
    prompt = f"[INST] {NIAH} [/INST]{NIAH_PREFIX}"
    item = load(tmp_path, "niah_single_1", prompt, ["1234567"])
    assert write_prompt(item) == prompt
    assert (item.chat, item.answer_prefix) == (False, "")
    assert item.wording.before.startswith("[INST] A special magic")
    item = load(tmp_path, "niah_single_1", f"[INST] {NIAH} [/INST]", ["1234567"], answer_prefix=NIAH_PREFIX)
    assert write_prompt(item) == prompt
    assert (item.chat, item.answer_prefix) == (False, NIAH_PREFIX)


def test_variables_after_a_worked_example(tmp_path: Path) -> None:
    def write(context: str, value: str) -> str:
        return (
            "Memorize and track the chain(s) of variable assignment hidden in the following text.\n\n"
            f"{context}\nQuestion: Find all variables that are assigned the value {value} in the text above. Answer: "
            "According to the chain(s) of variable assignment in the text above, 2 variables are assgined the value "
            f"{value}, they are: "
        )

    example = write("VAR AAA = 11111 The grass is green.\n VAR BBB = VAR AAA ", "11111") + "AAA BBB\n\n\n\n"
    chain = "".join(ESSAY[:50]) + "VAR XYZAB = 98765 " + "".join(ESSAY[50:]) + "VAR QRSTU = VAR XYZAB "
    prompt = example + write(chain + ESSAY[0].rstrip(), "98765")
    item = load(tmp_path, "vt", prompt, ["XYZAB", "QRSTU"])
    assert write_prompt(item) == prompt
    assert item.wording.before.startswith(example)
    assert "".join(write_chunks(item)) == chain + ESSAY[0].rstrip()
    assert item.question == "Question: Find all variables that are assigned the value 98765 in the text above."
    assert item.supporting is not None
    held = "".join(write_chunks(item)[i] for i in item.supporting)
    assert "VAR XYZAB = " in held
    assert "VAR QRSTU = " in held
    assert (item.max_tokens, item.chat) == (30, True)


def test_common_and_frequent_words(tmp_path: Path) -> None:
    words = " ".join(f"{number + 1}. word{number % 40}" for number in range(800))
    head = (
        "Below is a numbered list of words. In these words, some appear more often than others. Memorize the ones that "
    )
    question = "Question: What are the 10 most common words in the above list?"
    prefix = " Answer: The top 10 words that appear most often in the list are:"
    prompt = f"{head}appear most often.\n{words}\n{question}{prefix}"
    example = f"{head}appear most often.\n1. a 2. b\n{question}{prefix} 1. a\n"
    item = load(tmp_path, "cwe", example + prompt, ["word1"])
    assert write_prompt(item) == example + prompt
    assert "".join(write_chunks(item)) == words
    assert (item.answer_prefix, item.max_tokens, item.category) == (prefix, 120, "diffuse")
    coded = " .... ".join(f"bzr{number % 9}" for number in range(500))
    prompt = (
        "Read the following coded text and track the frequency of each coded word. Find the three most frequently "
        f"appeared coded words. {coded}\nQuestion: Do not provide any explanation. Please ignore the dots '....'. What "
        f"are "
        "the three most frequently appeared words in the above coded text? Answer: According to the coded text above, "
        "the three most frequently appeared words are:"
    )
    item = load(tmp_path, "fwe", prompt, ["bzr1", "bzr2", "bzr3"])
    assert write_prompt(item) == prompt
    assert "".join(write_chunks(item)) == coded
    assert item.max_tokens == 50


def test_documents_are_chunks(tmp_path: Path) -> None:
    documents = "\n\n".join(f"Document {number}:\nTower {number} is {number} metres tall." for number in range(1, 6))
    ask = "Answer the question based on the given documents. Only give me the answer and do not output any other words."
    prompt = (
        f"{ask}\n\nThe following are given documents.\n\n{documents}\n\n{ask}\n\nQuestion: How tall is tower 3? Answer:"
    )
    item = load(tmp_path, "qa_1", prompt, ["3 metres"])
    assert write_prompt(item) == prompt
    assert [text.partition(":")[0] for text in write_chunks(item)] == [f"Document {number}" for number in range(1, 6)]
    assert item.question == f"{ask}\n\nQuestion: How tall is tower 3?"
    assert (item.answer_prefix, item.max_tokens, item.metric) == (" Answer:", 32, "ruler_string_match_part")


def test_an_unknown_template_is_one_chunk(tmp_path: Path) -> None:
    prompt = "".join(ESSAY[:10]) + "\n\nAnd so on.\nHow many sentences are there?\n"
    for task in ("niah_single_1", "poems"):
        item = load(tmp_path, task, prompt, ["10"])
        assert write_prompt(item) == prompt
        assert "".join(write_chunks(item)) == "".join(ESSAY[:10]) + "\n\nAnd so on."
        assert item.question == "How many sentences are there?"
        assert item.supporting is None
        assert item.chat
    item = load(tmp_path, "niah_single_1", f"<|user|>\n{prompt}<|assistant|>\n", ["10"])
    assert write_prompt(item) == f"<|user|>\n{prompt}<|assistant|>\n"
    assert not item.chat


def test_a_split_by_name(tmp_path: Path) -> None:
    row = {"index": 0, "input": NIAH, "outputs": ["1234567"], "length": 9, "answer_prefix": NIAH_PREFIX}
    write_lines(tmp_path / "niah_single_1" / "test.jsonl", [row])
    assert list_tasks(tmp_path) == ()
    assert list_tasks(tmp_path, split="test") == ("ruler_niah_single_1",)
    (item,) = load_task("ruler_niah_single_1", tmp_path, split="test")
    assert item.answers == ("1234567",)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"input": ""}, "input is ''"),
        ({"outputs": []}, r"outputs is \[\]"),
        ({"answer_prefix": 1}, "answer_prefix is 1"),
    ],
)
def test_malformed_rows(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    row = {"index": 0, "input": NIAH, "outputs": ["1234567"], "length": 9}
    write_lines(tmp_path / "niah_single_1" / "validation.jsonl", [row, row | {"index": 1} | changes])
    with pytest.raises(BadInput, match=rf"validation\.jsonl, line 2: {said}"):
        load_task("ruler_niah_single_1", tmp_path)
