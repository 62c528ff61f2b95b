"""LongBench in its published format (Bai et al. 2024): a file <task>.jsonl, or <task>_e.jsonl of LongBench-E.

A row has input, context, answers, length (in words), dataset, language, all_classes and _id. The prompts are
LongBench's, character for character; the context is cut where it marks its parts (passages, paragraphs, examples), code
at line ends and other texts into about 900 characters, and the chunks joined are the context. Clusters are the
contexts, so questions about one book are one cluster. supporting is known for passage_retrieval_en only (the paragraph
that is asked for).

Not covered: the Chinese tasks, refused by name; cutting the middle out of prompts that are too long, as its pred.py
does.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from fewer.errors import bad
from fewer.study.item import Item
from fewer.study.tasks.reading import Line, name_group, read_lines
from fewer.study.tasks.rows import make_item, read_items
from fewer.study.tasks.splitting import SIZE, split_at, split_text
from fewer.study.tasks.wordings import LONGBENCH
from fewer.study.tasks.wordings.template import keep

__all__ = ["CHINESE", "FIELDS", "name_task", "read_longbench"]

FIELDS = {"input", "context", "answers", "_id"}

CHINESE = dict.fromkeys(
    ["multifieldqa_zh", "dureader", "vcsum", "lsht", "passage_retrieval_zh"],
    "is in Chinese, and no metric of this package cuts Chinese into words",
)

_PASSAGE, _PARAGRAPH = re.compile(r"^Passage \d+:", re.M), re.compile(r"^Paragraph \d+:", re.M)
_EXAMPLE, _DIALOGUE = re.compile(r"^Question: ", re.M), re.compile(r"^Dialogue: ", re.M)
_STORY = re.compile(r"^Passage:$", re.M)

_TASKS: dict[str, tuple[str, str, re.Pattern[str] | None]] = {  # category, metric, what marks a part
    "narrativeqa": ("single_doc_qa", "qa_f1", None),
    "qasper": ("single_doc_qa", "qa_f1", None),
    "multifieldqa_en": ("single_doc_qa", "qa_f1", None),
    "hotpotqa": ("multi_doc_qa", "qa_f1", _PASSAGE),
    "2wikimqa": ("multi_doc_qa", "qa_f1", _PASSAGE),
    "musique": ("multi_doc_qa", "qa_f1", _PASSAGE),
    "gov_report": ("summarisation", "rouge_l", None),
    "qmsum": ("summarisation", "rouge_l", None),
    "multi_news": ("summarisation", "rouge_l", _PASSAGE),
    "trec": ("few_shot", "longbench_classification", _EXAMPLE),
    "triviaqa": ("few_shot", "qa_f1_first_line", _STORY),
    "samsum": ("few_shot", "rouge_l_first_line", _DIALOGUE),
    "passage_count": ("synthetic", "longbench_count", _PARAGRAPH),
    "passage_retrieval_en": ("synthetic", "longbench_retrieval", _PARAGRAPH),
    "lcc": ("code", "longbench_code_sim", None),
    "repobench-p": ("code", "longbench_code_sim", None),
}
_ASKS_THE_SAME = {"gov_report", "multi_news", "passage_count", "lcc"}  # of every row; the wording says it


def name_task(stem: str) -> str:
    """The task's name for a file's stem: `longbench_hotpotqa`, or `longbench_hotpotqa_e`."""
    return f"longbench_{stem}"


def read_longbench(path: Path, stem: str) -> tuple[Item, ...]:
    """The items of a published LongBench file. Raises BadInput and DocumentError with file and line.

    `stem` is the file's name without .jsonl; a Chinese or unknown one is refused (BadInput).
    """
    base = stem.removesuffix("_e")
    if base in CHINESE:
        raise bad("the task", stem, "an English task of LongBench", f"{base} {CHINESE[base]}.")
    if base not in _TASKS:
        raise bad("the task", stem, f"one of {', '.join(_TASKS)}, with _e for LongBench-E", "Rename the file.")
    return read_items(read_lines(path), lambda line: [_make(line, stem, base)])


def _make(line: Line, stem: str, base: str) -> Item:
    category, metric, mark = _TASKS[base]
    context, asked = line.text("context"), line.text("input", blank=base in _ASKS_THE_SAME)
    template = replace(LONGBENCH[base], between="", chunk=keep)
    question = "Next line of code:\n" if category == "code" else asked or base
    if category == "code":  # it ends with a line end of its own, so the wording adds none
        chunks, template = split_text(context + asked), replace(template, ask="{question}")
    elif base == "triviaqa":
        chunks, question = _cut_examples(context, asked)
    else:
        chunks = split_at(context, mark, SIZE if base == "multi_news" else None) if mark else split_text(context)
    answers = list(line.texts("answers"))
    row: dict[str, Any] = {
        "id": f"{name_task(stem)}/{line.get('_id')}",
        "task": name_task(stem),
        "category": category,
        "group": name_group(context),
        "context_chunks": [{"text": chunk} for chunk in chunks],
        "question": question,
        "answers": answers,
        "supporting": _find_paragraph(chunks, answers) if base == "passage_retrieval_en" else None,
        "metric": metric,
        "meta": {"words": line.row.get("length"), "language": line.row.get("language")} | _read_classes(line),
        "source": {
            "repo": "THUDM/LongBench",
            "path": line.path.name,
            "licence": "MIT (LongBench); texts under their own",
        },
    }
    return make_item(line, row, template)


def _read_classes(line: Line) -> dict[str, list[str]]:
    return {"all_classes": list(line.texts("all_classes"))} if line.row.get("all_classes") else {}


def _cut_examples(context: str, asked: str) -> tuple[list[str], str]:
    """triviaqa's input begins with the passage of the question, which is context too."""
    passage, found, question = asked.rpartition("\nQuestion:")
    chunks = split_at(context, _STORY)
    if not found:
        return chunks, asked
    return [*chunks, f"\n\n{passage}"], f"Question:{question}"


def _find_paragraph(chunks: list[str], answers: list[str]) -> list[int] | None:
    """The one chunk that begins with the answer, such as `Paragraph 3`."""
    holders = [i for i, chunk in enumerate(chunks) if chunk.lstrip().startswith(f"{answers[0]}:")]
    return holders if len(holders) == 1 else None
