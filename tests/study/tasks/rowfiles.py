"""Small files of rows, written for a test, and an item's prompt as text."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fewer.study.item import Item


def make_row(number: int = 0, **changes: Any) -> dict[str, Any]:
    """A good row of a made-up task. A change to None leaves the field out; `...` makes it null."""
    row: dict[str, Any] = {
        "id": f"towers/{number}",
        "task": "towers",
        "category": "single_doc_qa",
        "group": f"tower {number // 2}",
        "context_chunks": [
            {"title": "Harbour", "text": f"Tower {number} is red."},
            {"title": "", "text": "It is old."},
        ],
        "question": f"What colour is tower {number}?",
        "answers": ["red"],
        "supporting": [0],
        "metric": "qa_f1",
        "meta": {"height": 41},
        "source": {"repo": "a/b", "path": "c.json", "commit": "d", "licence": "MIT"},
        "n_tokens": 10,
    }
    row |= changes
    return {key: None if value is ... else value for key, value in row.items() if value is not None}


def write_lines(path: Path, rows: Sequence[Mapping[str, Any] | str | bytes]) -> Path:
    """A .jsonl or .jsonl.gz file; texts and bytes are lines as they stand."""
    lines = [row if isinstance(row, str | bytes) else json.dumps(row) for row in rows]
    data = b"".join((line.encode() if isinstance(line, str) else line) + b"\n" for line in lines)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(data, mtime=0) if path.name.endswith(".gz") else data)
    return path


def write_chunks(item: Item) -> list[str]:
    """The chunks as a prompt spells them."""
    return [f"{chunk.title}\n{chunk.text}" if chunk.title else chunk.text for chunk in item.chunks]


def write_prompt(item: Item) -> str:
    """The prompt without a chat template."""
    wording = item.wording
    body = wording.before + wording.between.join(write_chunks(item))
    return body + wording.ask.replace("{question}", item.question) + item.answer_prefix
