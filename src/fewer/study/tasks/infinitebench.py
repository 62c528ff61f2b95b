"""InfiniteBench in its published format (Zhang et al. 2024): a file <task>.jsonl.

A row has id, context, input, answer and options. The context is cut into about 900 characters, and the chunks joined
are the context. Clusters are the contexts. supporting is known for the retrieval tasks: the chunks that hold the
answer. Each task has
InfiniteBench's own metric. Not covered: longbook_qa_chn and math_calc, refused by name.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from fewer.errors import bad
from fewer.study.item import Item
from fewer.study.tasks.reading import Line, name_group, read_lines
from fewer.study.tasks.rows import make_item, read_items
from fewer.study.tasks.splitting import find_holders, split_text
from fewer.study.tasks.wordings import INFINITEBENCH

__all__ = ["FIELDS", "REFUSED", "name_task", "read_infinitebench"]

FIELDS = {"id", "context", "input", "answer"}

REFUSED = {
    "longbook_qa_chn": "is in Chinese, and no metric of this package cuts Chinese into words",
    "math_calc": "wants answers of thousands of numbers and a metric of its own",
}

_TASKS = {  # category
    "passkey": "synthetic",
    "number_string": "synthetic",
    "kv_retrieval": "synthetic",
    "longbook_sum_eng": "summarisation",
    "longbook_choice_eng": "single_doc_qa",
    "longbook_qa_eng": "single_doc_qa",
    "longdialogue_qa_eng": "single_doc_qa",
    "math_find": "synthetic",
    "code_run": "code",
    "code_debug": "code",
}
_CHOICES = {"longbook_choice_eng", "code_debug"}
_HIDDEN = {"passkey", "number_string", "kv_retrieval"}  # the answer stands in the context


def name_task(stem: str) -> str:
    """The task's name for a file's stem, such as `infinitebench_passkey`."""
    return f"infinitebench_{stem}"


def read_infinitebench(path: Path, stem: str) -> tuple[Item, ...]:
    """The items of a published InfiniteBench file. Raises BadInput and DocumentError with file and line.

    `stem` is the file's name without .jsonl; one that is refused or unknown raises BadInput.
    """
    if stem in REFUSED:
        raise bad("the task", stem, f"one of {', '.join(_TASKS)}", f"{stem} {REFUSED[stem]}.")
    if stem not in _TASKS:
        raise bad("the task", stem, f"one of {', '.join(_TASKS)}", "Rename the file.")
    return read_items(read_lines(path), lambda line: [_make(line, stem)])


def _make(line: Line, stem: str) -> Item:
    context = line.text("context")
    chunks = split_text(context)
    answers, meta = _read_answers(line, stem in _CHOICES)
    holders = find_holders(chunks, answers) if stem in _HIDDEN else None
    row: dict[str, Any] = {
        "id": f"{name_task(stem)}/{line.get('id')}",
        "task": name_task(stem),
        "category": _TASKS[stem],
        "group": name_group(context),
        "context_chunks": [{"text": chunk} for chunk in chunks],
        "question": line.text("input", blank=True) or stem,
        "answers": answers,
        "supporting": None if holders is None else list(holders),
        "metric": name_task(stem),
        "meta": meta,
        "source": {"repo": "OpenBMB/InfiniteBench", "path": line.path.name, "licence": "MIT (InfiniteBench)"},
    }
    return make_item(line, row, replace(INFINITEBENCH[stem], between=""))


def _read_answers(line: Line, choice: bool) -> tuple[list[str], dict[str, Any]]:
    """The answers as texts; of a choice the right option and its letter, with the options in meta."""
    given = line.get("answer")
    answers = [str(answer) for answer in (given if isinstance(given, list) else [given])]
    if not answers or not all(answer.strip() for answer in answers):
        raise line.fault("answer", given, "a value, or a list of at least one")
    if not choice:
        return answers, {}
    options = list(line.texts("options"))
    if len(options) != 4 or not {answers[0]} & {*options, *"ABCD"}:
        raise line.fault("options", options, f"four texts, {answers[0]!r} among them")
    index = options.index(answers[0]) if answers[0] in options else "ABCD".index(answers[0])
    return [options[index], "ABCD"[index]], {"options": options, "gold_index": index, "gold_text": options[index]}
