"""What needles are hidden in: sentences in order, of a shipped novel, of RULER's noise, or of the caller's own texts.

Shipped is the first volume of Jane Austen's Persuasion (text/NOTICE says what was done to it) where RULER takes Paul
Graham's essays, which may not be passed on; figures from the two are not comparable. Not covered: splitting texts that
are not in English into sentences.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files

from fewer.errors import bad
from fewer.types import Document

__all__ = ["Haystack", "load_haystack"]

NOISE = "The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again."
SHORTEST = 200
SENTENCE_END = re.compile(
    r"(?<!\bMr)(?<!\bMrs)(?<!\bMs)(?<!\bDr)(?<!\bSt)(?<!\bvs)(?<!\be\.g)(?<!\bi\.e)"
    r"[.!?][\"'”’)\]]*(\s+)(?=[\"'“‘(\[]*[A-Z0-9])"
)


@dataclass(frozen=True)
class Haystack:
    """Sentences in order, and where one may begin to read. `glue` stands between two sentences of a chunk."""

    name: str
    sentences: tuple[str, ...]
    starts: tuple[int, ...]
    glue: str = " "
    source: str = ""
    licence: str = ""
    text: str = field(default="", repr=False)  # lower case, to look up whether a value occurs

    def read(self, start: int, count: int) -> list[str]:
        """So many sentences from this one on, from the first again after the last."""
        size = len(self.sentences)
        return [self.sentences[(start + step) % size] for step in range(count)]


def load_haystack(value: str | Sequence[Document]) -> Haystack:
    """`essay` (the novel), `noise`, a text of at least 200 characters, or documents (titles are dropped).

    Raises BadInput for anything else.
    """
    if value == "essay":
        return _load_novel()
    if value == "noise":
        return _make("noise", [[NOISE]], "\n", "RULER's noise sentences (Hsieh et al. 2024)", "Apache-2.0")
    legal = f"'essay', 'noise', a text of at least {SHORTEST} characters, or a list of documents"
    way_out = "Pass text that can be read in any place, such as a book; its sentences become the haystack."
    if isinstance(value, str):
        texts = [value]
    elif isinstance(value, Sequence) and all(isinstance(document, Document) for document in value):
        texts = [document.text for document in value if isinstance(document, Document)]
    else:
        raise bad("haystack", value, legal, way_out)
    if sum(len(text.strip()) for text in texts) < SHORTEST:
        raise bad("haystack", value, legal, way_out)
    paragraphs = [_split(block) for text in texts for block in re.split(r"\n\s*\n", text)]
    return _make("the caller's", [paragraph for paragraph in paragraphs if paragraph], " ", "the caller's haystack", "")


@cache
def _load_novel() -> Haystack:
    packed = files("fewer.study.tasks.generate").joinpath("text/persuasion.txt.gz").read_bytes()
    paragraphs = [block.split("\n") for block in gzip.decompress(packed).decode("ascii").strip().split("\n\n")]
    return _make("essay", paragraphs, " ", "Jane Austen, Persuasion, volume 1 (1817)", "public domain")


def _make(name: str, paragraphs: list[list[str]], glue: str, source: str, licence: str) -> Haystack:
    sentences = tuple(sentence for paragraph in paragraphs for sentence in paragraph)
    starts, place = [], 0
    for paragraph in paragraphs:
        starts.append(place)
        place += len(paragraph)
    return Haystack(name, sentences, tuple(starts), glue, source, licence, glue.join(sentences).lower())


def _split(text: str) -> list[str]:
    """The sentences of a paragraph, with single spaces between words."""
    text, sentences, begin = " ".join(text.split()), [], 0
    for match in SENTENCE_END.finditer(text):
        sentences.append(text[begin : match.start(1)])
        begin = match.end()
    return [sentence for sentence in [*sentences, text[begin:]] if sentence]
