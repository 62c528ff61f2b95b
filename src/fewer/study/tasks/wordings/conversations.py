"""Wordings over conversations and passages that may disagree.

LoCoMo (Maharana et al. 2024), LongMemEval (Wu et al. 2024), MTRAG (Katsis et al. 2025), MT-Bench (Zheng et al. 2023),
RGB (Chen et al. 2024), RAMDocs (Wang et al. 2025) and ConflictQA (Xie et al. 2024).
"""

from __future__ import annotations

import re
from collections import Counter

from fewer.study.tasks.wordings.template import Row, Template, keep
from fewer.types import Document

__all__ = ["WORDINGS"]

_SESSION = re.compile(r"Session \d+ \((?P<date>.+?)\)")
_SPEAKER = re.compile(r"^([^:\n]{1,40}): ", re.MULTILINE)


def _name_speakers(row: Row) -> dict[str, str]:
    """The two who speak most, and LoCoMo's hint for questions of time."""
    said = Counter(name for chunk in row["context_chunks"] for name in _SPEAKER.findall(chunk["text"]))
    names = sorted(name for name, _ in said.most_common(2)) or ["A", "B"]
    temporal = row.get("meta", {}).get("qa_category") == "temporal"
    hint = " Use DATE of CONVERSATION to answer with an approximate date." if temporal else ""
    return {"question": row["question"] + hint, "first": names[0], "second": names[-1]}


def _as_session(number: int, title: str, text: str) -> Document:
    match = _SESSION.match(title)
    return Document(f"CONVERSATION:\n{text}", f"DATE: {match['date']}") if match else keep(number, title, text)


def _as_numbered(number: int, title: str, text: str) -> Document:
    return Document(f"{number}. {text}")


def _as_document(number: int, title: str, text: str) -> Document:
    return Document(f"Document {number}: {text}")


def _under_passage(number: int, title: str, text: str) -> Document:
    return Document(f"{title}\n{text}" if title else text, f"PASSAGE {number}")


WORDINGS: dict[str, Template] = {
    "locomo": Template(
        "snap-research/locomo task_eval/hf_llm_utils.py, with the date at every piece of a session and turns as "
        "`Name: text`; chat template: the model's",
        before="Below is a conversation between two people: {first} and {second}. The conversation takes place over "
        "multiple days and the date of each conversation is wriiten at the beginning of the conversation.\n\n\n",
        ask="\n\n\nBased on the above conversations, write a short answer for the following question in a few words. "
        "Do not write complete and lengthy sentences. Answer with exact words from the conversations whenever possible."
        "\n\nQuestion: {question}\n",
        max_tokens=50,
        fill=_name_speakers,
        chunk=_as_session,
    ),
    "longmemeval_sample": Template(
        "xiaowu0162/LongMemEval src/generation/run_generation.py, no retrieval and no step by step, with the date at "
        "every turn and no current date, which the rows lack; chat template: the model's",
        before="I will give you several history chats between you and a user. Please answer the question based on the "
        "relevant chat history.\n\n\nHistory Chats:\n\n",
        ask="\n\nQuestion: {question}\nAnswer:",
        max_tokens=500,
    ),
    "mtrag_12docs": Template(
        "IBM/mt-rag-benchmark: the prompt of the MTRAG paper (appendix D.2) with the sentence that MTRAG-UN adds; the "
        "length of the answer is ours; chat template: the model's",
        before="Given one or more documents and a user question, generate a response to the question using less than "
        '150 words that is grounded in the provided documents. If no answer can be found in the documents, say, "I do '
        'not have specific information". If a question is underspecified — e.g., it has multiple possible answers, a '
        "broad scope, or needs explanation — include that further clarification/information is needed from the user in "
        "your response.\n\n",
        max_tokens=256,
        chunk=_under_passage,
    ),
    "mt_bench": Template(
        "lm-sys/FastChat fastchat/llm_judge: the question itself, first turn; chat template: the model's",
        ask="{question}",
        max_tokens=1024,
    ),
    "rgb_conflict": Template(
        "chen700564/RGB config/instruction.yaml, its system text at the head of the user's turn, as its models.py for "
        "models without one; chat template: the model's",
        before="You are an accurate and reliable AI assistant that can answer questions with the help of external "
        "documents. Please note that external documents may contain noisy or factually incorrect information. If the "
        "information in the document contains the correct answer, you will give an accurate answer. If the information "
        "in the document does not contain the answer, you will generate ’I can not answer the question because of the "
        "insufficient information in documents.‘. If there are inconsistencies with the facts in some of the "
        "documents, please generate the response 'There are factual errors in the provided documents.' and provide the "
        "correct answer.\n\nDocument:\n",
        between="\n",
        ask=" \n\nQuestion:\n{question}",
        max_tokens=256,
    ),
    "ramdocs": Template(
        "ours, after the single-model prompt of HanNight/RAMDocs, without its worked example and its explanation, "
        "which names wrong answers, and with the question after the documents; chat template: yes",
        before="You are an expert in retrieval question answering.\nYou will be provided a question with multiple "
        "documents. Please answer the question based on the documents.\nIf there are multiple answers, please provide "
        "all possible correct answers. If there is no correct answer, please reply 'unknown'.\n\n",
        between="\n",
        ask="\n\nQuestion: {question}\nAll Correct Answers:",
        chunk=_as_document,
    ),
    "conflictqa_strategyqa": Template(
        "ours, after OSU-NLP-Group/LLM-Knowledge-Conflict code/prompt_preparation.py, which asks for True or False; "
        "the length of the answer is ours; chat template: yes",
        before='According to the given information, answer the question "Yes" or "No".\n\nInformation: \n',
        between="\n",
        ask="\nQ:{question}\nA:",
        max_tokens=32,
        chunk=_as_numbered,
    ),
}
