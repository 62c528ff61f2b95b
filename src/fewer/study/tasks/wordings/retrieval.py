"""Wordings of Lost in the Middle (Liu et al. 2024), LongEval (LMSYS 2023) and BABILong (Kuratov et al. 2024)."""

from __future__ import annotations

import re

from fewer.errors import bad
from fewer.study.tasks.wordings.template import Row, Template
from fewer.types import Document

__all__ = ["WORDINGS"]

_MIDDLE = (
    "nelson-liu/lost-in-the-middle src/lost_in_the_middle/prompts/{file}; chat template: the model's, for chat models"
)
_LONGEVAL = "DachengLi1/LongChat longeval/utils.py; chat template: the model's"
_BABILONG = (
    "booydar/babilong babilong/prompts.py ({task}: instruction, examples and post prompt) and "
    "scripts/run_model_on_babilong.py, over passages of Natural Questions with their titles; chat template: the model's"
)
_KEY = re.compile(r'"([^"]+)"')


def _as_result(number: int, title: str, text: str) -> Document:
    """A search result on one line, as Lost in the Middle writes it."""
    return Document(f"Document [{number}](Title: {title}) {text}")


def _name_key(row: Row) -> dict[str, str]:
    match = _KEY.search(row["question"])
    if match is None:
        raise bad("question", row["question"], "a question that names a key in double quotes", "Correct the row.")
    return {"question": f'Key: "{match[1]}"'}


def _count_topics(row: Row) -> dict[str, str]:
    """The record's opening names the number of topics and which of them will be asked for."""
    match = re.search(r"What is the (\w+) topic", row["question"])
    if match is None:
        raise bad("question", row["question"], "a question for the first, second or third topic", "Correct the row.")
    return {"question": row["question"], "count": str(len(row["context_chunks"])), "which": match[1]}


_RESULTS = Template(
    _MIDDLE.format(file="qa.prompt"),
    before="Write a high-quality answer for the given question using only the provided search results (some of which "
    "might be irrelevant).\n\n",
    between="\n",
    ask="\n\nQuestion: {question}\nAnswer:",
    max_tokens=100,
    chunk=_as_result,
    needle=True,
)
_LINES = Template(
    _LONGEVAL,
    before="Below is a record of lines I want you to remember. Each line begins with 'line <line index>' and contains "
    "a '<REGISTER_CONTENT>' at the end of the line as a numerical value. For each line index, memorize its "
    "corresponding <REGISTER_CONTENT>. At the end of the record, I will ask you to retrieve the corresponding "
    "<REGISTER_CONTENT> of a certain line index. Now the record start:\n\n",
    between="\n",
    ask="\n\n{question}",
    max_tokens=100,
    needle=True,
)
_TOPICS = Template(
    _LONGEVAL + "; it asks for the first topic only, and here the opening says which",
    before="Below is a record of our previous conversation on {count} different topics. You are the ASSISTANT, and I "
    "am the USER. At the beginning of each topic, the USER will say 'I would like to discuss the topic of <TOPIC>'. "
    "Memorize each <TOPIC>. At the end of the record, I will ask you to retrieve the {which} topic. Now the record "
    "start. ",
    between="\n ",
    ask=" Now the record ends. {question}",
    max_tokens=50,
    fill=_count_topics,
)

_PLACES = (
    "If a person got an item in the first location and travelled to the second location the item is also in the second "
    "location. If a person dropped an item in the first location and moved to the second location the item remains in "
    "the first location"
)
_CARRY = (
    "I will give you context with the facts about people and objects they carry, hidden in some random text and a "
    "question. You need to answer the question based only on the information from the facts."
)
_BABI = {  # instruction, examples, post prompt; the source's spelling and spacing
    "qa1": (
        "I will give you context with the facts about positions of different persons hidden in some random text and a "
        "question. You need to answer the question based only on the information from the facts. If a person was in "
        "different locations, use the latest location to answer the question.",
        "<example>\nCharlie went to the hallway. Judith come back to the kitchen. Charlie travelled to balcony. Where "
        "is Charlie?\nAnswer: The most recent location of Charlie is balcony.\n</example>\n\n<example>\nAlan moved to "
        "the garage. Charlie went to the beach. Alan went to the shop. Rouse travelled to balcony. Where is Alan?\n"
        "Answer: The most recent location of Alan is shop.\n</example>",
        "Always return your answer in the following format: The most recent location of ’person’ is ’location’. Do not "
        "write anything else after that. ",
    ),
    "qa2": (
        "I give you context with the facts about locations and actions of different persons hidden in some random text "
        "and a question.You need to answer the question based only on the information from the facts.\n"
        + _PLACES
        + ".",
        "<example>\nCharlie went to the kitchen. Charlie got a bottle. Charlie moved to the balcony. Where is the "
        "bottle?\nAnswer: The bottle is in the balcony.\n</example>\n<example>\nAlan moved to the garage. Alan got a "
        "screw driver. Alan moved to the kitchen. Where is the screw driver?\nAnswer: The screw driver is in the "
        "kitchen.\n</example>",
        "Always return your answer in the following format: The ’item’ is in ’location’. Do not write anything else "
        "after that.",
    ),
    "qa3": (
        "I give you context with the facts about locations and actions of different persons hidden in some random text "
        "and a question. You need to answer the question based only on the information from the facts.\n" + _PLACES,
        "<example>\nJohn journeyed to the bedroom.Mary grabbed the apple. Mary went back to the bathroom. Daniel "
        "journeyed to the bedroom. Daniel moved to the garden. Mary travelled to the kitchen. Where was the apple "
        "before the kitchen?\nAnswer: Before the kitchen the apple was in the bathroom.\n</example>\n<example>\nJohn "
        "went back to the bedroom. John went back to the garden. John went back to the kitchen. Sandra took the "
        "football. Sandra travelled to the garden. Sandra journeyed to the bedroom. Where was the football before the "
        "bedroom?\nAnswer: Before the kitchen the football was in the garden.\n</example>",
        "Always return your answer in the following format: Before the $location_1& the $item$ was in the "
        "$location_2$. Do not write anything else after that.",
    ),
    "qa7": (
        _CARRY,
        "<example>\nDaniel went to the bedroom. Daniel got the apple there. How many objects is Daniel carrying?\n"
        "Answer: one\n</example>\n<example>\nMary grabbed the apple there. Mary gave the apple to John. How many "
        "objects is Mary carrying?\nAnswer: none\n</example>\n<example>\nSandra travelled to the hallway. Sandra "
        "picked up the milk there. Sandra took the apple there. Mary travelled to the garden. How many objects is "
        "Sandra carrying?\nAnswer: two\n</example>\n",
        "Your answer should contain only one word - $none$ or $number_of_objects$. Do not write anything else after "
        "that. Do not explain your answer.",
    ),
    "qa8": (
        _CARRY,
        "<example>\nSandra travelled to the garden. Mary grabbed the milk there. What is Mary carrying?\nAnswer: milk\n"
        "</example>\n<example>\nMary travelled to the kitchen. Sandra travelled to the office. John travelled to the "
        "office. Sandra discarded the milk there. What is Sandra carrying?\nAnswer: nothing\n</example>\n<example>\n"
        "Daniel grabbed the apple there. Mary went to the office. Daniel moved to the garden. Daniel grabbed the milk "
        "there. Mary went to the kitchen. What is Daniel carrying?\nAnswer: apple,milk\n</example>\n",
        "Your answer should contain only one or two words: $nothing$ or $object$ or $object_1$, $object_2$. Do not "
        "write anything else. Do not explain your answer.",
    ),
}


def _explain(row: Row) -> dict[str, str]:
    """The bAbI task's own instruction, worked examples and answer format."""
    task = row.get("meta", {}).get("babi_task")
    if task not in _BABI:
        raise bad("meta.babi_task", task, f"one of {', '.join(_BABI)}", "Correct the row.")
    instruction, examples, post_prompt = _BABI[task]
    return {"question": row["question"], "how": f"{instruction}\n{examples}\n{post_prompt}"}


_FACTS = Template(
    _BABILONG.format(task="the row's bAbI task"),
    before="{how}\n<context>\n",
    ask="\n</context>\nQuestion: {question}",
    max_tokens=15,
    fill=_explain,
)

WORDINGS: dict[str, Template] = {
    "nq_multidoc_5": _RESULTS,
    "nq_multidoc_10": _RESULTS,
    "nq_multidoc_20": _RESULTS,
    "kv_retrieval_75": Template(
        _MIDDLE.format(file="kv_retrieval.prompt"),
        before="Extract the value corresponding to the specified key in the JSON object below.\n\nJSON data:\n{",
        between=",\n ",
        ask="}\n\n{question}\nCorresponding value:",
        max_tokens=100,
        fill=_name_key,
        needle=True,
    ),
    "longeval_lines_200": _LINES,
    "longeval_lines_300": _LINES,
    "longeval_topics_5": _TOPICS,
    "longeval_topics_10": _TOPICS,
    "babi_long_2k": _FACTS,
    "babi_long_6k": _FACTS,
}
