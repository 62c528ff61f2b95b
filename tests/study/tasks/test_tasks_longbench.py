"""LongBench as published: the prompts are the benchmark's own, character for character."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from rowfiles import write_chunks, write_lines, write_prompt

from fewer.errors import BadInput
from fewer.study.item import Item
from fewer.study.tasks import list_tasks, load_task

PASSAGES = (
    "Answer the question based on the given passages. Only give me the answer and do not output any other "
    "words.\n\nThe following are given passages.\n{context}\n\nAnswer the question based on the given passages. Only "
    "give me the answer and do not output any other words.\n\nQuestion: {input}\nAnswer:"
)
TEMPLATES = {  # config/dataset2prompt.json
    "narrativeqa": "You are given a story, which can be either a novel or a movie script, and a question. Answer the "
    "question as concisely as you can, using a single phrase if possible. Do not provide any explanation.\n\nStory: "
    "{context}\n\nNow, answer the question based on the story as concisely as you can, using a single phrase if "
    "possible. Do not provide any explanation.\n\nQuestion: {input}\n\nAnswer:",
    "qasper": "You are given a scientific article and a question. Answer the question as concisely as you can, using a "
    "single phrase or sentence if possible. If the question cannot be answered based on the information in the "
    "article, "
    'write "unanswerable". If the question is a yes/no question, answer "yes", "no", or "unanswerable". Do not provide '
    "any explanation.\n\nArticle: {context}\n\n Answer the question based on the above article as concisely as you "
    "can, using a single phrase or sentence if possible. If the question cannot be answered based on the information "
    "in the "
    'article, write "unanswerable". If the question is a yes/no question, answer "yes", "no", or "unanswerable". Do '
    "not "
    "provide any explanation.\n\nQuestion: {input}\n\nAnswer:",
    "multifieldqa_en": "Read the following text and answer briefly.\n\n{context}\n\nNow, answer the following question "
    "based on the above text, only give me the answer and do not output any other words.\n\nQuestion: {input}\nAnswer:",
    "hotpotqa": PASSAGES,
    "2wikimqa": PASSAGES,
    "musique": PASSAGES,
    "gov_report": "You are given a report by a government agency. Write a one-page summary of the report.\n\nReport:\n"
    "{context}\n\nNow, write a one-page summary of the report.\n\nSummary:",
    "qmsum": "You are given a meeting transcript and a query containing a question or instruction. Answer the query in "
    "one or more sentences.\n\nTranscript:\n{context}\n\nNow, answer the query based on the above meeting transcript "
    "in one or more sentences.\n\nQuery: {input}\nAnswer:",
    "multi_news": "You are given several news passages. Write a one-page summary of all news. \n\nNews:\n{context}\n\n"
    "Now, write a one-page summary of all the news.\n\nSummary:",
    "trec": "Please determine the type of the question below. Here are some examples of "
    "questions.\n\n{context}\n{input}",
    "triviaqa": "Answer the question based on the given passage. Only give me the answer and do not output any other "
    "words. The following are some examples.\n\n{context}\n\n{input}",
    "samsum": "Summarize the dialogue into a few short sentences. The following are some "
    "examples.\n\n{context}\n\n{input}",
    "passage_count": "There are some paragraphs below sourced from Wikipedia. Some of them may be duplicates. Please "
    "carefully read these paragraphs and determine how many unique paragraphs there are after removing duplicates. In "
    "other words, how many non-repeating paragraphs are there in total?\n\n{context}\n\nPlease enter the final count "
    "of unique paragraphs after removing duplicates. The output format should only contain the number, such as 1, 2, "
    "3, and so on.\n\nThe final answer is: ",
    "passage_retrieval_en": "Here are 30 paragraphs from Wikipedia, along with an abstract. Please determine which "
    "paragraph the abstract is from.\n\n{context}\n\nThe following is an abstract.\n\n{input}\n\nPlease enter the "
    "number "
    'of the paragraph that the abstract is from. The answer format must be like "Paragraph 1", "Paragraph 2", etc.\n\n'
    "The answer is: ",
    "lcc": "Please complete the code given below. \n{context}Next line of code:\n",
    "repobench-p": "Please complete the code given below. \n{context}{input}Next line of code:\n",
}
LENGTHS = {  # config/dataset2maxlen.json
    "narrativeqa": 128, "qasper": 128, "multifieldqa_en": 64, "hotpotqa": 32, "2wikimqa": 32, "musique": 32,
    "gov_report": 512, "qmsum": 512, "multi_news": 512, "trec": 64, "triviaqa": 32, "samsum": 128, "passage_count": 32,
    "passage_retrieval_en": 32, "lcc": 64, "repobench-p": 64,
}  # fmt: skip
METRICS = {
    "trec": "longbench_classification", "triviaqa": "qa_f1_first_line", "samsum": "rouge_l_first_line",
    "passage_count": "longbench_count", "passage_retrieval_en": "longbench_retrieval", "lcc": "longbench_code_sim",
    "repobench-p": "longbench_code_sim", "gov_report": "rouge_l", "qmsum": "rouge_l", "multi_news": "rouge_l",
}  # fmt: skip
NO_CHAT = {"trec", "triviaqa", "samsum", "lcc", "repobench-p"}
PASSAGE = "".join(
    f"Passage {number}:\nTower {number}\nIt is {number} metres tall.\n\n" for number in range(1, 4)
).rstrip()
PARAGRAPH = "\n\n".join(f"Paragraph {number}: Tower {number} is tall." for number in range(1, 31))
CODE = "".join(f"def f{number}(x):\n    return x + {number}\n\n" for number in range(60))
PROSE = "".join(
    f"Chapter {number}. The light {{was}} on.\nIt stayed on. " + "\n" * (number % 3) for number in range(90)
)
EXAMPLE = "".join(f"Question: What is tower {number} ?\nType: Place\n" for number in range(5)).rstrip()
DIALOGUE = "".join(f"Dialogue: A: hi {number}\nB: hi\nSummary: They meet.\n" for number in range(4))
STORY = "".join(
    f"Passage:\nTower {number}.\nQuestion:\nHow tall?\nAnswer:\n{number} m\n" for number in range(3)
).rstrip()
CONTEXTS = {"trec": (EXAMPLE, 5), "samsum": (DIALOGUE, 4), "triviaqa": (STORY, 4)}
CONTEXTS |= dict.fromkeys(["hotpotqa", "2wikimqa", "musique", "multi_news"], (PASSAGE, 3))
CONTEXTS |= dict.fromkeys(["passage_count", "passage_retrieval_en"], (PARAGRAPH, 30))
INPUTS = {
    "gov_report": "", "multi_news": "", "passage_count": "", "lcc": "", "repobench-p": "def last(x):\n",
    "trec": "Question: What is {it} ?\nType:", "samsum": "Dialogue: A: bye\nSummary:",
    "triviaqa": "Passage:\nThe last tower.\n\nIt is red.\nQuestion:\nWhat colour?\nAnswer:",
}  # fmt: skip


def make_row(task: str, number: int = 0, **changes: Any) -> dict[str, Any]:
    context = CONTEXTS.get(task, (CODE if task in ("lcc", "repobench-p") else PROSE, 0))[0]
    return {
        "_id": f"x{number}",
        "input": INPUTS.get(task, "How {tall} is it?"),
        "context": context,
        "answers": ["Paragraph 7" if task == "passage_retrieval_en" else "7"],
        "length": 1000,
        "dataset": task,
        "language": "en",
        "all_classes": ["Place", "Date"] if task == "trec" else None,
    } | changes


def load(folder: Path, task: str, *rows: dict[str, Any]) -> tuple[Item, ...]:
    write_lines(folder / f"{task}.jsonl", rows or [make_row(task)])
    return load_task(f"longbench_{task}", folder)


@pytest.mark.parametrize("task", sorted(TEMPLATES))
def test_the_prompt_is_longbenchs(tmp_path: Path, task: str) -> None:
    row = make_row(task)
    (item,) = load(tmp_path, task, row)
    assert write_prompt(item) == TEMPLATES[task].format(context=row["context"], input=row["input"])
    assert item.max_tokens == LENGTHS[task]
    assert item.chat == (task not in NO_CHAT)
    assert item.metric == METRICS.get(task, "qa_f1")
    assert item.wording.between == ""
    assert item.answers == tuple(row["answers"])
    assert item.meta["words"] == 1000
    assert "length" not in item.meta  # that would be tokens asked for
    marked = CONTEXTS.get(task, ("", 0))[1]
    assert len(item.chunks) == marked if marked else len(item.chunks) > 1
    assert item.supporting == ((6,) if task == "passage_retrieval_en" else None)


def test_what_stands_around_the_question(tmp_path: Path) -> None:
    (item,) = load(tmp_path, "triviaqa")
    assert write_chunks(item)[-1] == "\n\nPassage:\nThe last tower.\n\nIt is red."
    assert item.question == "Question:\nWhat colour?\nAnswer:"
    (item,) = load(tmp_path, "repobench-p")
    assert write_chunks(item)[-1].endswith("def last(x):\n")
    assert item.question == "Next line of code:\n"
    (item,) = load(tmp_path, "trec")
    assert item.meta["all_classes"] == ["Place", "Date"]
    assert item.stop == ("\nQuestion:",)


def test_questions_over_one_context_are_one_cluster(tmp_path: Path) -> None:
    rows = [make_row("narrativeqa", 0), make_row("narrativeqa", 1), make_row("narrativeqa", 2, context="Another book.")]
    items = {item.id: item for item in load(tmp_path, "narrativeqa", *rows)}
    clusters = [items[f"longbench_narrativeqa/x{number}"].cluster for number in range(3)]
    assert clusters[0] == clusters[1] != clusters[2]


def test_longbench_e_has_names_of_its_own(tmp_path: Path) -> None:
    write_lines(tmp_path / "qasper_e.jsonl", [make_row("qasper")])
    write_lines(tmp_path / "qasper.jsonl.gz", [make_row("qasper")])
    assert list_tasks(tmp_path) == ("longbench_qasper", "longbench_qasper_e")
    (item,) = load_task("longbench_qasper_e", tmp_path)
    assert (item.task, item.id) == ("longbench_qasper_e", "longbench_qasper_e/x0")


@pytest.mark.parametrize("task", ["multifieldqa_zh", "dureader", "vcsum", "lsht", "passage_retrieval_zh"])
def test_chinese_tasks_are_refused_by_name(tmp_path: Path, task: str) -> None:
    with pytest.raises(BadInput, match=f"{task} is in Chinese, and no metric of this package cuts Chinese into words"):
        load(tmp_path, task)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"context": ""}, "context is ''"),
        ({"answers": []}, r"answers is \[\]"),
        ({"input": " "}, "input is ' '"),
        ({"all_classes": [1]}, r"all_classes\[0\] is 1"),
    ],
)
def test_malformed_rows(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput, match=rf"qasper\.jsonl, line 2: {said}"):
        load(tmp_path, "qasper", make_row("qasper"), make_row("qasper", 1, **changes))


def test_an_unknown_file_of_longbenchs_format(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="the task is 'poems'; it must be one of narrativeqa"):
        load(tmp_path, "poems")
