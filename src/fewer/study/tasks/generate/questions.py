"""Questions with passages, for the question-answering tasks: this project's own, SQuAD, HotpotQA, or rows of its data.

Not covered: questions whose answer is not a text in its passages (yes or no, or none at all); they are left out.
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from os import PathLike
from pathlib import Path
from typing import Any

from fewer.errors import DocumentError

__all__ = ["Passage", "Question", "Source", "load_questions", "occurs"]

OWN = "fewer's own questions about fictional facts"
WAY_OUT = "Pass a SQuAD or HotpotQA file, or a .jsonl or .jsonl.gz file (or a folder of them) with context_chunks."


@dataclass(frozen=True, slots=True)
class Passage:
    """A paragraph with the title of its page, which may be empty."""

    title: str
    text: str

    @property
    def spelled(self) -> str:
        """Title and text on lines of their own."""
        return f"{self.title}\n{self.text}" if self.title else self.text


@dataclass(frozen=True, slots=True)
class Question:
    """A question, the answers any of which is right, the passages needed, and those that were published beside them.

    `group` is what repeats between questions, here the question itself or the page it is about.
    """

    text: str
    answers: tuple[str, ...]
    gold: tuple[Passage, ...]
    beside: tuple[Passage, ...]
    group: str


@dataclass(frozen=True, slots=True)
class Source:
    """Questions, every passage of the source in its order, and where they are from."""

    questions: tuple[Question, ...]
    passages: tuple[Passage, ...]
    name: str
    licence: str


def occurs(answer: str, text: str) -> bool:
    """Whether the answer is in the text as whole words; case and runs of spaces do not count."""
    words = r"\s+".join(map(re.escape, answer.split()))
    return re.search(rf"(?<!\w){words}(?!\w)", text, re.IGNORECASE) is not None


def load_questions(path: str | PathLike[str] | None, hops: int) -> Source:
    """The questions of a file, or this project's own where the path is None, with one gold passage or with more.

    Read are SQuAD (1.1 and 2.0), HotpotQA's published files, and rows of JSON with `context_chunks`, `question`,
    `answers` and `supporting`; the format is found from the content. Kept are questions whose gold passages are
    `hops` or, with 2, more. Raises DocumentError with the path, and the line where there is one.
    """
    return _load_own(hops) if path is None else _load_file(Path(path).resolve(), hops)


@cache
def _load_own(hops: int) -> Source:
    """text/passages.txt: `# title`, a paragraph, `? question | answer` and `> question | answer | second title`."""
    text = files("fewer.study.tasks.generate").joinpath("text/passages.txt").read_text("ascii")
    passages: dict[str, Passage] = {}
    found: list[tuple[str, str, list[str]]] = []
    for block in text.split("# ")[1:]:
        title, body, *lines = block.strip().split("\n")
        passages[title] = Passage(title, body)
        for line in lines:
            question, answer, *second = line[2:].split(" | ")
            if 1 + len(second) == hops:
                found.append((question, answer, [title, *second]))
    every = tuple(passages.values())
    kept = [
        Question(question, (answer,), tuple(passages[title] for title in titles), (), titles[0])
        for question, answer, titles in found
    ]
    return Source(tuple(kept), every, OWN, "Apache-2.0")


@cache
def _load_file(path: Path, hops: int) -> Source:
    paths = sorted(path.glob("*.jsonl*")) if path.is_dir() else [path]
    questions: list[Question] = []
    licences: dict[str, None] = {}
    for file in paths:
        for question, licence in _read(file):
            licences[licence] = None
            if len(question.gold) == hops or (hops > 1 and len(question.gold) > hops):
                questions.append(question)
    if not questions:
        raise DocumentError(f"{path} holds no question with {hops} gold passages and an answer in them. {WAY_OUT}")
    passages = dict.fromkeys(passage for item in questions for passage in (*item.gold, *item.beside))
    return Source(tuple(questions), tuple(passages), path.name, "; ".join(filter(None, licences)) or "unknown")


def _read(path: Path) -> Iterable[tuple[Question, str]]:
    try:
        packed = path.read_bytes()
        text = (gzip.decompress(packed) if packed[:2] == b"\x1f\x8b" else packed).decode("utf-8")
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise DocumentError(f"{path} cannot be read ({error}). {WAY_OUT}") from error
    if ".jsonl" in path.name:
        for number, line in enumerate(text.splitlines(), 1):
            if line.strip():
                yield from _guard(f"{path}, line {number},", line, lambda row: [_parse_row(row)])
        return
    yield from _guard(str(path), text, _parse_published)


def _guard(
    place: str, text: str, parse: Callable[[Any], Iterable[tuple[Question | None, str]]]
) -> list[tuple[Question, str]]:
    """The questions of this JSON. Raises DocumentError with the place."""
    try:
        return [(question, licence) for question, licence in parse(json.loads(text)) if question is not None]
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise DocumentError(f"{place} is not of a known format ({type(error).__name__}: {error}). {WAY_OUT}") from error


def _make(text: str, answers: Iterable[str], gold: list[Passage], beside: list[Passage], group: str) -> Question | None:
    """The question, or None where no answer is in its gold passages."""
    kept = tuple(dict.fromkeys(a for a in answers if a and any(occurs(a, passage.spelled) for passage in gold)))
    gold, beside = ([passage for passage in some if passage.spelled] for some in (gold, beside))
    return Question(text.strip(), kept, tuple(gold), tuple(beside), group) if kept and text.strip() else None


def _clean(title: str, text: str) -> Passage:
    """The passage without blank space around it, whose tokens would depend on what follows."""
    return Passage(title.strip(), text.strip())


def _parse_row(row: Mapping[str, Any]) -> tuple[Question | None, str]:
    passages = [_clean(chunk.get("title") or "", chunk["text"]) for chunk in row["context_chunks"]]
    wanted = set(row["supporting"] or ())
    gold = [passage for number, passage in enumerate(passages) if number in wanted]
    beside = [passage for number, passage in enumerate(passages) if number not in wanted]
    question = _make(row["question"], row["answers"], gold, beside, str(row.get("group") or row["question"]))
    return question, str(row["source"].get("licence", "")) if isinstance(row.get("source"), Mapping) else ""


def _parse_published(data: Any) -> list[tuple[Question | None, str]]:
    if isinstance(data, Mapping):
        return [(question, "CC BY-SA 4.0 (SQuAD)") for page in data["data"] for question in _parse_page(page)]
    return [(_parse_hotpot(row), "CC BY-SA 4.0 (HotpotQA)") for row in data]


def _parse_page(page: Mapping[str, Any]) -> Iterable[Question | None]:
    """A page of SQuAD: its other paragraphs come first among the distractors, as in RULER."""
    passages = [_clean("", paragraph["context"]) for paragraph in page["paragraphs"]]
    for passage, paragraph in zip(passages, page["paragraphs"], strict=True):
        others = [other for other in passages if other is not passage]
        for asked in paragraph["qas"]:
            if not asked.get("is_impossible", False):
                answers = [answer["text"] for answer in asked["answers"]]
                yield _make(asked["question"], answers, [passage], others, str(page.get("title", "")))


def _parse_hotpot(row: Mapping[str, Any]) -> Question | None:
    wanted = {title.strip() for title, _ in row["supporting_facts"]}
    passages = [_clean(title, "".join(sentences)) for title, sentences in row["context"]]
    gold = [passage for passage in passages if passage.title in wanted]
    beside = [passage for passage in passages if passage.title not in wanted]
    return _make(row["question"], [row["answer"]], gold, beside, row["question"])
