"""LooGLE in both of its published formats (Li et al. 2024): a file <task>.jsonl of four tasks.

Either a row is a document with input, title, qa_pairs (a list, or a text that spells one, of Q, A and S; "none" for
summaries) and output; or it is a question with context, question, answer, evidence, title and doc_id. The document is
cut into about 900 characters, and the chunks joined are the document. Clusters are the documents. supporting is where
all evidence is found as it stands, else null. Each mask of a cloze has an answer of its own, in order. Clozes are
scored by LooGLE's exact match and summaries by its ROUGE-L recall; questions by F1, where LooGLE itself reports BLEU,
ROUGE recall and a judge.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from fewer.errors import bad
from fewer.study.item import Item
from fewer.study.tasks.reading import Line, name_group, read_lines
from fewer.study.tasks.rows import make_item, read_items
from fewer.study.tasks.splitting import find_holders, split_text
from fewer.study.tasks.wordings import LOOGLE

__all__ = ["DOCUMENT_FIELDS", "QUESTION_FIELDS", "name_task", "read_loogle"]

DOCUMENT_FIELDS = {"input", "title", "qa_pairs", "output"}
QUESTION_FIELDS = {"context", "question", "answer", "evidence", "title", "doc_id"}

_METRICS = {
    "shortdep_qa": "qa_f1",
    "longdep_qa": "qa_f1",
    "shortdep_cloze": "loogle_exact_match",
    "longdep_summarization": "loogle_rouge_l",
}
_RENAMED = {"summarization": "longdep_summarization"}  # the newer format's name


def name_task(stem: str) -> str:
    """The task's name for a file's stem, such as `loogle_longdep_qa`."""
    return f"loogle_{_RENAMED.get(stem, stem)}"


def read_loogle(path: Path, stem: str) -> tuple[Item, ...]:
    """The items of a published LooGLE file, in either format. Raises BadInput and DocumentError with file and line."""
    task = _RENAMED.get(stem, stem)
    if task not in LOOGLE:
        raise bad("the task", stem, f"one of {', '.join(LOOGLE)}", "Rename the file.")
    return read_items(read_lines(path), lambda line: _make(line, task))


def _make(line: Line, task: str) -> list[Item]:
    if "qa_pairs" in line.row:
        document, pairs = line.text("input"), _read_pairs(line)
    else:
        document = line.text("context")
        pairs = [{"Q": line.row.get("question"), "A": line.get("answer"), "S": line.row.get("evidence")}]
    chunks = split_text(document)
    summary = task == "longdep_summarization"
    items = []
    for number, pair in enumerate(pairs):
        answers, meta = _read_answers(line, pair, task)
        evidence = None if summary else _as_list(pair.get("S"))
        holders = find_holders(chunks, evidence) if evidence else None
        row: dict[str, Any] = {
            "id": f"{name_task(task)}/{line.row.get('id', f'{line.number:04d}')}_{number:03d}",
            "task": name_task(task),
            "category": "summarisation" if summary else "single_doc_qa",
            "group": name_group(document, "document"),
            "context_chunks": [{"text": chunk} for chunk in chunks],
            "question": "Summarization:" if summary else line.check_text("the question", pair.get("Q")),
            "answers": answers,
            "supporting": None if holders is None else list(holders),
            "metric": _METRICS[task],
            "meta": meta | {"title": line.row.get("title")},
            "source": {"repo": "bigai-nlco/LooGLE", "path": line.path.name, "licence": "CC BY-SA 4.0 (LooGLE)"},
        }
        items.append(make_item(line, row, replace(LOOGLE[task], between="")))
    return items


def _read_pairs(line: Line) -> list[Mapping[str, Any]]:
    """qa_pairs as a list; of a summary, the one reference."""
    pairs = line.row["qa_pairs"]
    if pairs == "none":
        return [{"A": line.text("output")}]
    pairs = _spell(pairs)
    if not isinstance(pairs, list) or not pairs or not all(isinstance(pair, Mapping) and "A" in pair for pair in pairs):
        raise line.fault(
            "qa_pairs", line.row["qa_pairs"], 'a list of objects with Q, A and S, a text of one, or "none"'
        )
    return pairs


def _read_answers(line: Line, pair: Mapping[str, Any], task: str) -> tuple[list[str], dict[str, Any]]:
    meta = {"type": pair["type"]} if pair.get("type") else {}
    answer = _spell(pair["A"]) if task == "shortdep_cloze" else pair["A"]
    if task != "shortdep_cloze":
        return [line.check_text("the answer", str(answer))], meta
    if not isinstance(answer, Mapping) or not answer:
        raise line.fault("the answer", answer, "an object with a text for each mask")
    return [line.check_text("the answer", str(text)) for text in answer.values()], meta | {"masks": list(answer)}


def _as_list(value: object) -> list[str]:
    value = _spell(value)
    return [text for text in (value if isinstance(value, list) else [value]) if isinstance(text, str) and text.strip()]


def _spell(value: object) -> Any:
    """A Python literal that is spelled in a text, else the value itself."""
    if isinstance(value, str) and value[:1] in "[{":
        try:
            return ast.literal_eval(value)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return value
    return value
