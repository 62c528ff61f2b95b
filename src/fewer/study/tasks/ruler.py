"""RULER in its published format (Hsieh et al. 2024): a folder for each task with validation.jsonl in it.

A row has index, input and outputs, and in newer versions answer_prefix. The input is a whole prompt. Where
RULER's own words are found in it, what stands between them is the context, cut into about 900 characters (documents
where it marks them); the words, any worked example before them and the question are protected. The answer's beginning
is the `answer_prefix`. A prompt that was made with a model's template in it is kept as it is, without another template.
Where the words are not found, all but the last line is one chunk. Joined, the parts are the prompt, character for
character.

supporting: the chunks with the needles or the assignments, where all are found. Each row is a cluster of its own, as
RULER counts them, although rows of one task repeat the same filler text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fewer.study.item import Item
from fewer.study.tasks.reading import Line, read_lines
from fewer.study.tasks.rows import make_item, read_items
from fewer.study.tasks.splitting import SIZE, find_holders, split_at, split_text
from fewer.study.tasks.wordings import Template
from fewer.study.tasks.wordings.ruler import NEEDLE_QUESTION

__all__ = ["FIELDS", "name_task", "read_ruler"]

FIELDS = {"index", "input", "outputs"}
_MARKER = re.compile(r"\[/?INST\]|<\||\|>|\b(?:USER|ASSISTANT|User|Assistant):")  # of a chat template
_DOCUMENT = re.compile(r"^Document \d+:$", re.M)


@dataclass(frozen=True, slots=True)
class _Family:
    """How some tasks' prompts are put together: the context is between the last match of `opening` and `question`."""

    opening: re.Pattern[str]
    question: re.Pattern[str]
    max_tokens: int
    category: str = "synthetic"


_FAMILIES = {  # by the beginning of the task's name
    "niah": _Family(
        re.compile(r"(?:Some|A) special magic .+? I will quiz you about the \w+ afterwards\.\s", re.S),
        NEEDLE_QUESTION,
        128,
    ),
    "vt": _Family(
        re.compile(r"Memorize and track the chain\(s\) of variable assignment hidden in the following text\.\s+"),
        re.compile(r"Question: Find all variables that are assigned the value \S+ in the text above\."),
        30,
    ),
    "cwe": _Family(
        re.compile(r"Below is a numbered list of words\..+?Memorize the ones that appear most often\.\s", re.S),
        re.compile(r"Question: What are the \d+ most common words in the above list\?"),
        120,
        "diffuse",
    ),
    "fwe": _Family(
        re.compile(r"Read the following coded text.+?Find the three most frequently appeared coded words\.\s", re.S),
        re.compile(r"Question: Do not provide any explanation\..+?words in the above coded text\?", re.S),
        50,
        "diffuse",
    ),
    "qa": _Family(
        re.compile(
            r"Answer the question based on the given documents\..+?The following are given documents\.\s+", re.S
        ),
        re.compile(
            r"Answer the question based on the given documents\. Only give me the answer and do not output any other "
            r"words\.\s+Question: [^\n]+?(?=$|\n| Answer:| \[/INST\])"
        ),
        32,
        "multi_doc_qa",
    ),
}


def name_task(folder: str) -> str:
    """The task's name for a folder's, such as `ruler_niah_single_1`."""
    return f"ruler_{folder}"


def read_ruler(path: Path, folder: str) -> tuple[Item, ...]:
    """The items of a RULER file. `folder` is the task's name in RULER, such as `niah_single_1`.

    Raises BadInput and DocumentError with file and line.
    """
    return read_items(read_lines(path), lambda line: [_make(line, folder)])


def _make(line: Line, folder: str) -> Item:
    answers = list(line.texts("outputs"))
    family = _FAMILIES.get(folder.partition("_")[0])
    before, context, gap, question, after = _take_apart(line.text("input"), family)
    opening = family.opening.search(before) if family else None
    around = before[: opening.start()] + after if opening else line.text("input")
    plain = not _MARKER.search(around)
    prefix, suffix = (after, "") if plain and opening else ("", after)  # older files end with the answer's beginning
    if "answer_prefix" in line.row:
        prefix, suffix = line.text("answer_prefix", blank=True), after
    chunks = split_at(context, _DOCUMENT, SIZE) if _DOCUMENT.search(context) else split_text(context)
    evidence = _find_evidence(folder, chunks, answers)
    template = Template(
        "hsiehjackson/RULER, the prompt as it is in the file; chat template: "
        + ("the model's, then the answer prefix" if plain else "none, since the prompt has one in it"),
        before=before,
        between="",
        ask=f"{gap}{{question}}{suffix}",
        answer_prefix=prefix,
        max_tokens=family.max_tokens if family else 128,
        chat=plain,
        needle=folder.startswith("niah"),
    )
    row: dict[str, Any] = {
        "id": f"{name_task(folder)}/{line.get('index')}",
        "task": name_task(folder),
        "category": family.category if family else "synthetic",
        "group": f"{name_task(folder)}/{line.get('index')}",
        "context_chunks": [{"text": chunk} for chunk in chunks] if context else [],
        "question": question,
        "answers": answers,
        "supporting": evidence,
        "metric": f"ruler_string_match_{'part' if folder.startswith('qa') else 'all'}",
        "meta": {"length_in_ruler": line.row.get("length")},
        "source": {"repo": "hsiehjackson/RULER", "path": f"{folder}/{line.path.name}", "licence": "Apache-2.0 (RULER)"},
    }
    return make_item(line, row, template)


def _take_apart(text: str, family: _Family | None) -> tuple[str, str, str, str, str]:
    """What stands before the context, the context, the space after it, the question, and what stands after that.

    The first is empty where RULER's words are not found.
    """
    if family:
        openings = list(family.opening.finditer(text))
        questions = list(family.question.finditer(text, openings[-1].end())) if openings else []
        if questions:
            start, match = openings[-1].end(), questions[-1]
            stop = start + len(text[start : match.start()].rstrip())
            return text[:start], text[start:stop], text[stop : match.start()], match[0], text[match.end() :]
    head, end, last = text.rstrip().rpartition("\n")
    return "", head, end, last, text[len(text.rstrip()) :]


def _find_evidence(folder: str, chunks: list[str], answers: list[str]) -> list[int] | None:
    if folder.startswith("niah"):
        evidence = [f": {answer}." for answer in answers]
    elif folder.startswith("vt"):
        evidence = [f"VAR {answer} = " for answer in answers]
    else:
        return None
    holders = find_holders(chunks, evidence)
    return None if holders is None else list(holders)
