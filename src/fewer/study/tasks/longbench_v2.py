"""LongBench v2 in its published format (Bai et al. 2024): one file data.json or longbench_v2.jsonl of all questions.

A row has _id, domain, sub_domain, difficulty, length, question, choice_A to choice_D, answer (a letter) and context.
The context is cut into about 900 characters, and the chunks joined are the context, whose ends are trimmed as its
pred.py does. Its `domain` is the item's category. Not covered: its chain-of-thought and retrieval prompts.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from fewer.study.item import Item
from fewer.study.tasks.reading import Line, name_group, read_lines, read_list
from fewer.study.tasks.rows import make_item, read_items
from fewer.study.tasks.splitting import split_text
from fewer.study.tasks.wordings import LONGBENCH_V2

__all__ = ["FIELDS", "TASK", "read_longbench_v2"]

TASK = "longbench_v2"
FIELDS = {"_id", "domain", "question", "choice_A", "choice_B", "choice_C", "choice_D", "answer", "context"}


def read_longbench_v2(path: Path) -> tuple[Item, ...]:
    """The items of a LongBench v2 file, a list or one row a line.

    Raises BadInput and DocumentError with file and row.
    """
    lines = read_list(path) if path.suffix == ".json" else read_lines(path)
    return read_items(lines, lambda line: [_make(line)])


def _make(line: Line) -> Item:
    context = line.text("context").strip()
    letter = line.text("answer")
    if letter not in ("A", "B", "C", "D"):
        raise line.fault("answer", letter, "A, B, C or D")
    options = [line.text(f"choice_{letter}").strip() for letter in "ABCD"]
    row: dict[str, Any] = {
        "id": f"{TASK}/{line.text('_id')}",
        "task": TASK,
        "category": line.text("domain").lower().replace(" ", "_").replace("-", "_"),
        "group": name_group(context),
        "context_chunks": [{"text": chunk} for chunk in split_text(context)],
        "question": line.text("question").strip(),
        "answers": [letter],
        "supporting": None,
        "metric": TASK,
        "meta": {"options": options, "gold_index": "ABCD".index(letter), "gold_text": options["ABCD".index(letter)]}
        | {key: line.row.get(key) for key in ("sub_domain", "difficulty") if line.row.get(key)}
        | {"size": line.row.get("length")},
        "source": {"repo": "THUDM/LongBench", "path": line.path.name, "licence": "Apache-2.0 (LongBench v2)"},
    }
    return make_item(line, row, replace(LONGBENCH_V2, between=""))
