"""Rows in this package's format become items.

A file `<task>.jsonl` or `<task>.jsonl.gz` holds one JSON object a line:

    id, task, category     texts; `task` is the file's name, `id` occurs once in the file
    group                  what repeats between rows (a document, a conversation); it becomes the item's cluster
    context_chunks         a list of {"title": text, "text": text}, in order; the title may be left out
    question, answers      a text, and a list of texts
    supporting             indices of the chunks that hold the evidence, or null where nobody labelled them
    metric                 the family of the metric, or a metric; `fewer.study.metrics.choose_metric` decides
    meta, source           objects, may be left out; `source` has repo, path, commit and licence

Anything else in a row is passed over. The prompt's wording comes from `wordings`. Blank chunks, which no prompt can
hold, go with the chunk before them (the first with the one after) such that the joined chunks stay the same text, and
`supporting` follows. Not covered: rows that are wrong but well formed, such as a wrong answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fewer.errors import BadInput, bad
from fewer.study.item import Item
from fewer.study.tasks.reading import Line, read_lines
from fewer.study.tasks.wordings import PLAIN, WORDINGS, Template

__all__ = ["UNSCORED", "check_meta", "make_item", "merge_blank", "read_items", "read_rows"]

UNSCORED = "unscored"
"""The metric of an item without a reference answer, good for times and agreement only; `score` does not know it."""

Chunk = tuple[str, str]
"""Title and text of a chunk, as the row gives them."""


def read_rows(path: Path, task: str) -> tuple[Item, ...]:
    """The items of a file of rows, in its order.

    Raises DocumentError where the file cannot be read and BadInput for a row that is not in the format, each with
    file, line, the field, its value and what is legal there.
    """

    def make(line: Line) -> list[Item]:
        if line.text("task") != task:
            raise line.fault("task", line.row["task"], f"{task!r}, as the file is named")
        return [make_item(line, line.row, WORDINGS.get(task, PLAIN))]

    return read_items(read_lines(path), make, path)


def read_items(
    lines: Iterable[Line], make: Callable[[Line], Sequence[Item]], path: Path | None = None
) -> tuple[Item, ...]:
    """What `make` makes of each line. path: the lines' file, to be named where there are none.

    Raises BadInput where an id occurs twice, naming both lines, or where there are no rows.
    """
    items: list[Item] = []
    seen: dict[str, Line] = {}
    line = None
    for line in lines:
        for item in make(line):
            if item.id in seen:
                before = f"this {line.unit}" if seen[item.id] is line else f"{line.unit} {seen[item.id].number}"
                raise line.fault("id", item.id, f"different in each row, and {before} has it too")
            seen[item.id] = line
            items.append(item)
    if not items:
        where = line.path if line else path or "The file"
        raise BadInput(f"{where} has no rows. Fetch it again, or leave the task out.")
    return tuple(items)


def make_item(line: Line, row: Mapping[str, Any], template: Template) -> Item:
    """One row, worded by `template`. `line` says where it stands; `row` may have been made from the line's own row."""
    line = replace(line, row=row)
    chunks, supporting = merge_blank(*_read_context(line), template.between)
    meta = _read_object(line, "meta")
    source = _read_object(line, "source")
    own_id, task, category, group = (line.text(name) for name in ("id", "task", "category", "group"))
    line.text("question")
    answers = line.texts("answers")
    for name, legal in check_meta(meta).items():
        raise line.fault(f"meta.{name}", meta[name], legal)
    try:
        metric = _choose_metric(row, meta)
        question, wording, prefix = template.word({**row, "meta": meta})
        if metric != UNSCORED:
            _score_nothing(metric, answers, meta)
    except BadInput as error:
        raise BadInput(f"{line.place}: {error}") from None
    meta["wording"] = template.origin
    if template.needle and supporting is not None and len(supporting) == 1 and len(chunks) > 1:
        meta.setdefault("depth", supporting[0] / (len(chunks) - 1))
    try:
        return Item(
            id=own_id,
            task=task,
            category=category,
            cluster=group,
            chunks=tuple(template.chunk(number, title, text) for number, (title, text) in enumerate(chunks, 1)),
            question=question,
            answers=answers,
            metric=metric,
            wording=wording,
            answer_prefix=prefix,
            chat=template.chat,
            max_tokens=template.max_tokens,
            stop=template.stop,
            supporting=supporting,
            source=" ".join(str(source[key]) for key in ("repo", "path", "commit") if source.get(key)),
            licence=str(source.get("licence", "")),
            meta=meta,
        )
    except BadInput as error:
        raise BadInput(f"{line.place}: {error}") from None


def check_meta(meta: Mapping[str, Any]) -> dict[str, str]:
    """The fields of an item's meta that the log has columns for and that do not fit there, each with what is legal."""
    wrong = {}
    length, depth = meta.get("length"), meta.get("depth")
    if length is not None and not (isinstance(length, int) and not isinstance(length, bool) and 0 <= length < 2**63):
        wrong["length"] = "a whole number of tokens from 0 to 2**63 - 1, or left out"
    real = isinstance(depth, int | float) and not isinstance(depth, bool)
    if depth is not None and not (real and math.isfinite(depth) and 0 <= depth <= 1):
        wrong["depth"] = "a number from 0 to 1, or left out"
    return wrong


def merge_blank(
    chunks: Sequence[Chunk], supporting: tuple[int, ...] | None, between: str
) -> tuple[list[Chunk], tuple[int, ...] | None]:
    """The chunks without blank ones, written title, line end, text and joined by `between` to the same text as before.

    A blank chunk goes with the one before it; blank ones at the start go with the first that has text. What points
    at a chunk in `supporting` points at the one that it went with. With no text at all, one blank chunk is left.
    """
    merged: list[Chunk] = []
    places = []
    for title, text in chunks:
        if merged and not merged[-1][1].strip():
            merged[-1] = ("", _write(*merged[-1]) + between + _write(title, text))
        elif merged and not text.strip():
            merged[-1] = (merged[-1][0], merged[-1][1] + between + _write(title, text))
        else:
            merged.append((title, text))
        places.append(len(merged) - 1)
    if supporting is None:
        return merged, None
    return merged, tuple(sorted({places[index] for index in supporting}))


def _write(title: str, text: str) -> str:
    return f"{title}\n{text}" if title else text


def _read_context(line: Line) -> tuple[list[Chunk], tuple[int, ...] | None]:
    """Chunks and supporting of a row, each checked."""
    listed = line.get("context_chunks")
    if not isinstance(listed, list):
        raise line.fault("context_chunks", listed, "a list of objects with title and text")
    chunks = []
    for number, chunk in enumerate(listed):
        if not isinstance(chunk, dict) or "text" not in chunk:
            raise line.fault(f"context_chunks[{number}]", chunk, "an object with a text")
        title = line.check_text(f"context_chunks[{number}].title", chunk.get("title", ""), blank=True)
        chunks.append((title, line.check_text(f"context_chunks[{number}].text", chunk["text"], blank=True)))
    if chunks and not any(text.strip() for _, text in chunks):
        raise line.fault("context_chunks", listed, "chunks of which at least one has text in it, or an empty list")
    supporting = line.get("supporting")
    if supporting is None:
        return chunks, None
    legal = f"null, or a list of indices from 0 to {len(chunks) - 1}" if chunks else "null or an empty list"
    if not isinstance(supporting, list) or not all(
        isinstance(index, int) and not isinstance(index, bool) and 0 <= index < len(chunks) for index in supporting
    ):
        raise line.fault("supporting", supporting, legal)
    return chunks, tuple(supporting)


def _read_object(line: Line, name: str) -> dict[str, Any]:
    value = line.row.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise line.fault(name, value, "an object")
    return dict(value)


def _choose_metric(row: Mapping[str, Any], meta: dict[str, Any]) -> str:
    """The metric's name. Puts the question into `meta` where the metric reads it, and checks what else it needs."""
    from fewer.study.metrics import METRICS, choose_metric

    name = choose_metric({**row, "meta": meta})
    if name is None:
        return UNSCORED
    if "question" in METRICS[name].needs:
        meta.setdefault("question", row["question"])
    missing = [key for key in METRICS[name].needs if key not in meta]
    if missing:
        raise bad(
            "meta", sorted(meta), f"an object with {', '.join(missing)}, which {name} needs", "Add it to the row."
        )
    return name


def _score_nothing(metric: str, answers: Sequence[str], meta: Mapping[str, Any]) -> None:
    """Score an empty output, so that answers or meta which the metric cannot use are found. Raises BadInput."""
    from fewer.study.metrics import score

    try:
        score(metric, "", answers, meta)
    except BadInput:
        raise
    except Exception as error:
        raise BadInput(
            f"the metric {metric} cannot use its answers and meta: {type(error).__name__}: {error}"
        ) from None
