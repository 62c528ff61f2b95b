"""The benchmarks' wordings over rows of this package's format, held against whole prompts as they are published."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from rowfiles import make_row, write_lines, write_prompt

from fewer.errors import BadInput
from fewer.study.item import Item
from fewer.study.tasks.rows import read_rows


def word(folder: Path, task: str, chunks: list[tuple[str, str]], **changes: Any) -> Item:
    listed = [{"title": title, "text": text} for title, text in chunks]
    row = make_row(0, task=task, context_chunks=listed, supporting=..., **changes)
    (item,) = read_rows(write_lines(folder / f"{task}.jsonl", [row]), task)
    return item


def test_passages(tmp_path: Path) -> None:
    chunks = [("Tower", "It is red."), ("", "It is old.")]
    item = word(tmp_path, "musique", chunks, question="Which?", answers=["a"])
    assert write_prompt(item) == (
        "Answer the question based on the given passages. Only give me the answer and do not output any other "
        "words.\n\nThe following are given passages.\nPassage 1:\nTower\nIt is red.\nPassage 2:\nIt is old.\n\nAnswer "
        "the question based on the given passages. Only give me the answer and do not output any other "
        "words.\n\nQuestion: Which?\nAnswer:"
    )


def test_paragraphs(tmp_path: Path) -> None:
    chunks = [("Paragraph 1", "Red."), ("Paragraph 2", "Old.")]
    item = word(tmp_path, "longbench_passage_count", chunks, question="How many?", answers=["2"], metric="accuracy")
    assert item.wording.before.endswith("paragraphs are there in total?\n\n")
    assert write_prompt(item).endswith(
        "Paragraph 1: Red.\n\nParagraph 2: Old.\n\nPlease enter the final count of unique paragraphs after removing "
        "duplicates. The output format should only contain the number, such as 1, 2, 3, and so on.\n\nThe final answer "
        "is: "
    )
    task, asked = "longbench_passage_retrieval_en", "Here is an abstract. Which paragraph?\n\nIt is red."
    item = word(tmp_path, task, chunks, question=asked, answers=["Paragraph 1"], metric="accuracy")
    assert item.question == "It is red."
    assert "\n\nThe following is an abstract.\n\nIt is red.\n\nPlease enter the number" in write_prompt(item)


def test_search_results_and_pairs(tmp_path: Path) -> None:
    """The expected prompts are those of the tests in Lost in the Middle."""
    chunks = [("first doc", "first doc text"), ("second doc", "second doc text")]
    item = word(tmp_path, "nq_multidoc_5", chunks, question="test question", metric="em")
    assert write_prompt(item) == (
        "Write a high-quality answer for the given question using only the provided search results (some of which "
        "might be irrelevant).\n\nDocument [1](Title: first doc) first doc text\nDocument [2](Title: second doc) "
        "second doc text\n\nQuestion: test question\nAnswer:"
    )
    pairs = [("", f'"test key{number}": "test value{number}"') for number in (1, 2, 3)]
    item = word(tmp_path, "kv_retrieval_75", pairs, question='Extract the value of the key "test key2".', metric="em")
    assert write_prompt(item) == "\n".join(
        [
            "Extract the value corresponding to the specified key in the JSON object below.",
            "",
            "JSON data:",
            '{"test key1": "test value1",',
            ' "test key2": "test value2",',
            ' "test key3": "test value3"}',
            "",
            'Key: "test key2"',
            "Corresponding value:",
        ]
    )


def test_lines_and_topics(tmp_path: Path) -> None:
    lines = [("", f"line a-{number}: REGISTER_CONTENT is <{number}>") for number in (1, 2)]
    asked = "Now the record is over. Tell me what is the <REGISTER_CONTENT> in line a-1? I need the number."
    item = word(tmp_path, "longeval_lines_200", lines, question=asked, answers=["1"], metric="accuracy")
    assert write_prompt(item).endswith(
        "Now the record start:\n\nline a-1: REGISTER_CONTENT is <1>\nline a-2: REGISTER_CONTENT is <2>\n\n" + asked
    )
    talks = [("", "USER: one \n ASSISTANT: yes"), ("", "USER: two \n ASSISTANT: no")]
    asked = "What is the second topic we discussed? Only give me the topic name. Do not summarize yourself."
    item = word(tmp_path, "longeval_topics_5", talks, question=asked)
    prompt = write_prompt(item)
    assert prompt.startswith(
        "Below is a record of our previous conversation on 2 different topics. You are the ASSISTANT,"
    )
    assert prompt.endswith(
        "retrieve the second topic. Now the record start. USER: one \n ASSISTANT: yes\n USER: two \n ASSISTANT: no Now "
        "the record ends. What is the second topic we discussed? Only give me the topic name. Do not summarize "
        "yourself."
    )


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        (
            "What is the special magic number for a-b mentioned in the provided text?",
            "A special magic number is hidden within the following text. Make sure to memorize it. I will quiz you "
            "about the number afterwards.\nRed.\n\nOld.\nWhat is the special magic number for a-b mentioned in the "
            "provided text? The special magic number for a-b mentioned in the provided text is",
        ),
        (
            "What are all the special magic numbers for a-b mentioned in the provided text? The special magic",
            "Some special magic numbers are hidden within the following text. Make sure to memorize it. I will quiz "
            "you about the numbers afterwards.\nRed.\n\nOld.\nWhat are all the special magic numbers for a-b mentioned "
            "in the provided text? The special magic numbers for a-b mentioned in the provided text are",
        ),
    ],
)
def test_needles(tmp_path: Path, question: str, expected: str) -> None:
    item = word(tmp_path, "ruler_niah_wiki", [("", "Red."), ("", "Old.")], question=question, metric="em")
    assert write_prompt(item) == expected
    assert item.answer_prefix.startswith(" The special magic number")
    assert (item.max_tokens, item.chat) == (128, True)


def test_a_needles_depth_is_the_share_of_chunks_before_it(tmp_path: Path) -> None:
    listed = [{"text": f"Chunk {number}."} for number in range(5)]
    question = "What is the special magic number for a-b mentioned in the provided text?"
    changes = {"task": "ruler_niah_wiki", "context_chunks": listed, "question": question, "metric": "em"}
    rows = [
        make_row(number, supporting=places, **changes) for number, places in enumerate([[0], [3], [4], [1, 2], ...])
    ]
    items = read_rows(write_lines(tmp_path / "ruler_niah_wiki.jsonl", rows), "ruler_niah_wiki")
    assert [item.meta.get("depth") for item in items] == [0, 0.75, 1, None, None]


def test_variables_and_words(tmp_path: Path) -> None:
    asked = "Find all variables that are assigned the value 40248 in the text above."
    item = word(tmp_path, "ruler_vt", [("", "VAR A = 40248")], question=asked, answers=["A", "B"], metric="accuracy")
    assert write_prompt(item) == (
        "Memorize and track the chain(s) of variable assignment hidden in the following text.\n\nVAR A = "
        "40248\nQuestion: "
        f"{asked} Answer: According to the chain(s) of variable assignment in the text above, 2 variables are assigned "
        f"the "
        "value 40248, they are: "
    )
    item = word(tmp_path, "ruler_cwe", [("", "1. a 2. b"), ("", "3. a")], question="Which?", metric="accuracy")
    assert write_prompt(item) == (
        "Below is a numbered list of words. In these words, some appear more often than others. Memorize the ones that "
        "appear most often.\n1. a 2. b 3. a\nQuestion: What are the 10 most common words in the above list? Answer: "
        "The top 10 words that appear most often in the list are:"
    )


def test_leval(tmp_path: Path) -> None:
    meta = {"options": ["x", "y"], "gold_index": 0}
    item = word(tmp_path, "leval_tpo", [("", "Talk.")], question="Who?", answers=["A"], metric="accuracy", meta=meta)
    assert write_prompt(item).endswith(
        "\n\nDocument is as follows. Talk. \nQuestion: Who?.  Please directly give the answer without any additional "
        "output or explanation \nAnswer:"
    )
    assert (item.answer_prefix, item.max_tokens) == ("\nAnswer:", 512)
    item = word(tmp_path, "leval_financial_qa", [("", "Call.")], question="Why?", answers=["Because of it"])
    assert write_prompt(item).endswith(
        "Document is as follows. Call. Instruction: Why? \nAnswer this question with 3 words."
    )


def test_facts_in_passages(tmp_path: Path) -> None:
    chunks = [("Sea", "Ann went to the garden. It is blue."), ("", "It is deep.")]
    item = word(
        tmp_path,
        "babi_long_2k",
        chunks,
        question="Where is Ann?",
        answers=["garden"],
        metric="em",
        meta={"babi_task": "qa1"},
    )
    prompt = write_prompt(item)
    assert prompt.startswith(
        "I will give you context with the facts about positions of different persons hidden in some"
    )
    assert prompt.endswith(
        "Always return your answer in the following format: The most recent location of ’person’ is ’location’. Do not "
        "write anything else after that. \n<context>\nSea\nAnn went to the garden. It is blue.\n\nIt is "
        "deep.\n</context>\nQuestion: Where is Ann?"
    )
    assert item.meta["question"] == "Where is Ann?"
    with pytest.raises(BadInput, match=r"line 1: meta.babi_task is 'qa20'; it must be one of qa1, qa2, qa3, qa7, qa8"):
        word(tmp_path, "babi_long_2k", chunks, metric="em", meta={"babi_task": "qa20"})


def test_conversations(tmp_path: Path) -> None:
    chunks = [("Session 2 (1:14 pm on 25 May, 2023), part 1", "Mel: Hi!\nAnn: Hey."), ("Notes", "Mel: Bye.")]
    item = word(tmp_path, "locomo", chunks, question="When?", meta={"qa_category": "temporal"})
    prompt = write_prompt(item)
    assert prompt.startswith(
        "Below is a conversation between two people: Ann and Mel. The conversation takes place over"
    )
    assert (
        "\n\n\nDATE: 1:14 pm on 25 May, 2023\nCONVERSATION:\nMel: Hi!\nAnn: Hey.\n\nNotes\nMel: Bye.\n\n\nBased on"
        in prompt
    )
    assert prompt.endswith("Question: When? Use DATE of CONVERSATION to answer with an approximate date.\n")
    item = word(tmp_path, "locomo", chunks, question="Who?", meta={"qa_category": "single_hop"})
    assert write_prompt(item).endswith("Question: Who?\n")
    item = word(tmp_path, "mtrag_12docs", [("", "Doc."), ("T", "Doc.")], question="user: hi", metric="rouge_l")
    assert write_prompt(item).endswith("in your response.\n\nPASSAGE 1\nDoc.\n\nPASSAGE 2\nT\nDoc.\n\nuser: hi")
    item = word(tmp_path, "mt_bench", [], question="Say {this}.", metric="rouge_l")
    assert write_prompt(item) == "Say {this}."


def test_passages_that_disagree(tmp_path: Path) -> None:
    chunks = [("", "Yes, it is."), ("", "No, it is not.")]
    meta = {"wrong_answers": ["x"], "fake_answers": ["y"]}
    item = word(tmp_path, "conflictqa_strategyqa", chunks, question="Is it?", answers=["No"], metric="accuracy")
    assert write_prompt(item) == (
        'According to the given information, answer the question "Yes" or "No".\n\nInformation: \n1. Yes, it is.\n2. '
        "No, it "
        "is not.\nQ:Is it?\nA:"
    )
    item = word(tmp_path, "ramdocs", chunks, question="Is it?", metric="em", meta=meta)
    assert "\n\nDocument 1: Yes, it is.\nDocument 2: No, it is not.\n\nQuestion: Is it?\nAll" in write_prompt(item)
    item = word(tmp_path, "rgb_conflict", chunks, question="Is it?", metric="em", meta=meta)
    assert write_prompt(item).endswith("Document:\nYes, it is.\nNo, it is not. \n\nQuestion:\nIs it?")


@pytest.mark.parametrize(
    ("task", "question", "said"),
    [
        ("ruler_niah_wiki", "What is it?", "it must be RULER's question for a special magic value"),
        ("ruler_vt", "Find all.", "it must be RULER's question for the variables of a value"),
        ("kv_retrieval_75", "Which value?", "it must be a question that names a key in double quotes"),
        ("longeval_topics_5", "Which topic?", "it must be a question for the first, second or third topic"),
    ],
)
def test_questions_that_the_wording_cannot_read(tmp_path: Path, task: str, question: str, said: str) -> None:
    metric = "qa_f1" if task.startswith("longeval") else "accuracy" if task == "ruler_vt" else "em"
    with pytest.raises(BadInput, match=rf"{task}\.jsonl, line 1: question is '.*'; {said}"):
        word(tmp_path, task, [("", "Text.")], question=question, metric=metric)


def test_braces_in_texts_stay(tmp_path: Path) -> None:
    item = word(tmp_path, "ruler_cwe", [("", "{question} {kind}")], question="{x}?", metric="accuracy")
    assert "\n{question} {kind}\n" in write_prompt(item)
    item = word(tmp_path, "hotpotqa_distractor", [("", "a")], question="{question}? {context}")
    assert write_prompt(item).endswith("Question: {question}? {context}\nAnswer:")
