"""Where everything stands in a prompt: template, system text, documents, question, answer prefix.

Documents come before the question, in the user's turn. What is outside their chunks is protected. Not covered:
conversations of several turns, and choosing or ordering documents.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from fewer.errors import DocumentError, PromptTooLong, bad
from fewer.prompt.documents import as_documents
from fewer.prompt.encode import Piece, encode_pieces, opening_ids
from fewer.prompt.split import Splitter
from fewer.prompt.template import render_frame
from fewer.types import Chunk, Document, Prompt, Wording

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

__all__ = ["lay_out"]


@dataclass(frozen=True, slots=True)
class Part:
    """A run of the prompt's token ids. `slot` is what it came from, empty for the template's own text."""

    ids: list[int]
    slot: str = ""

    @property
    def is_document(self) -> bool:
        return self.slot.startswith("document")


def lay_out(
    tokenizer: PreTrainedTokenizerBase,
    question: str,
    documents: Sequence[str | Mapping[str, str] | Document] = (),
    *,
    max_positions: int,
    max_tokens: int = 0,
    system: str | None = None,
    split: str | int | Splitter = "document",
    sinks: int = 4,
    truncate: bool = False,
    answer_prefix: str = "",
    chat: bool = True,
    wording: Wording | None = None,
) -> Prompt:
    """Lay a question over documents out as token ids with the spans of the documents' chunks.

    A chunk's tokens spell the document's title, a line end and its text; spaces around the question are dropped.
    The layout follows the tokenizer's chat template; without one, or with `chat=False`, it is plain text. A `wording`
    replaces the words around the documents and the question, and then nothing is trimmed or added. `split`
    is as for `Splitter.parse`. The first `sinks` tokens are protected wherever they fall. `answer_prefix` is
    what the answer is made to begin with. Control tokens written in any of the texts stay plain text.

    The prompt and `max_tokens` more must fit into `max_positions`, or PromptTooLong is raised. With `truncate` the
    documents are cut from the end of the last one on until they fit; nothing else is ever cut. Raises BadInput,
    DocumentError and ModelError as described where documents are read, split and framed.
    """
    _check_count("max_positions", max_positions, 1, "Pass the number of positions the model has.")
    _check_count("max_tokens", max_tokens, 0, "Pass the room to leave for the answer.")
    _check_count("sinks", sinks, 0, "Use 0 to protect no tokens at the start.")
    _check_text("question", question)
    _check_text("system", "" if system is None else system)
    _check_text("answer_prefix", answer_prefix)
    if wording is not None and not isinstance(wording, Wording):
        raise bad("wording", wording, "a Wording or None", "Make one with Wording(before=..., ask='... {question}').")
    if not isinstance(chat, bool):
        raise bad("chat", chat, "True or False", "Leave it out to follow the model's chat template.")
    if not question.strip():
        raise bad("question", question, "a text that is not blank", "Ask something.")
    splitter = Splitter.parse(split)
    documents = as_documents(documents)
    templated = chat and tokenizer.chat_template is not None
    frame = render_frame(tokenizer, len(documents), system is not None, templated, wording)
    if answer_prefix:
        frame = [*frame, "answer", ""]
    texts = {"system": [system or ""], "question": [question.strip()], "answer": [answer_prefix]}
    if wording:
        texts |= {"before": [wording.before], "question": [wording.ask.replace("{question}", question)]}
    titles = {}
    for number, document in enumerate(documents, 1):
        text = f"{document.title}\n{document.text}" if document.title else document.text
        texts[f"document {number}"] = splitter.split_text(text)
        titles[f"document {number}"] = document.title or Path(document.source).name or f"document {number}"
    parts = _encode_frame(tokenizer, frame, texts, splitter)
    present = {part.slot for part in parts}
    for slot, title in titles.items():
        if slot not in present:
            raise DocumentError(f"The tokenizer makes no token of {slot} ({title}). Leave it out.")
    if not templated:
        parts.insert(0, Part(opening_ids(tokenizer)))
    fitting = _fit(parts, max_positions, max_tokens, truncate)
    before, after = (sum(len(part.ids) for part in some if part.is_document) for some in (parts, fitting))
    return _assemble(fitting, titles, sinks, before - after)


def _encode_frame(
    tokenizer: PreTrainedTokenizerBase, frame: Sequence[str], texts: Mapping[str, Sequence[str]], splitter: Splitter
) -> list[Part]:
    """The frame with its slots filled, as token ids; none of the parts is empty.

    A single space before a slot goes with the slot's text, because that is how words are tokenised.
    """
    pieces, slots = [Piece(frame[0], trusted=True)], [""]
    for slot, after in zip(frame[1::2], frame[2::2], strict=True):
        before = pieces[-1].text
        takes_space = before.endswith(" ") and not slot.startswith("document")
        if takes_space:
            pieces[-1] = Piece(before[:-1], trusted=True)
        pieces += [Piece(" " + text if takes_space else text) for text in texts[slot]]
        pieces.append(Piece(after, trusted=True))
        slots += [slot] * len(texts[slot]) + [""]
    parts = []
    for ids, slot in zip(encode_pieces(tokenizer, pieces), slots, strict=True):
        runs = splitter.split_ids(ids) if slot.startswith("document") else [ids]
        parts += [Part(run, slot) for run in runs if run]
    return parts


def _fit(parts: list[Part], max_positions: int, max_tokens: int, truncate: bool) -> list[Part]:
    """The parts, with the documents cut from their end until all fits.

    A document that is cut away takes the delimiter before it along.
    """
    total = sum(len(part.ids) for part in parts)
    if total + max_tokens <= max_positions:
        return parts
    counts = (
        f"The prompt has {total} tokens and {max_tokens} more are asked for, {total + max_tokens} together; the model "
        f"has {max_positions} positions."
    )
    where = [index for index, part in enumerate(parts) if part.is_document]
    if not where:
        raise PromptTooLong(f"{counts} Shorten the question, or ask for fewer tokens (--max-tokens).")
    if not truncate:
        raise PromptTooLong(
            f"{counts} Cut the documents to fit (--truncate), pass fewer, or ask for fewer tokens (--max-tokens)."
        )
    first, last = where[0], where[-1] + 1
    outside = sum(len(part.ids) for part in parts[:first] + parts[last:])
    room = max_positions - max_tokens - outside
    if room < 1:
        raise PromptTooLong(
            f"{counts} Cutting the documents is not enough: the other {outside} tokens of the prompt are never cut. "
            "Shorten the question, or ask for fewer tokens (--max-tokens)."
        )
    kept: list[Part] = []
    for part in parts[first:last]:
        kept.append(replace(part, ids=part.ids[: max(0, room)]))
        room -= len(part.ids)
    while not kept[-1].is_document or not kept[-1].ids:
        kept.pop()
    return parts[:first] + kept + parts[last:]


def _assemble(parts: Sequence[Part], titles: Mapping[str, str], sinks: int, truncated: int) -> Prompt:
    """Put the parts one after the other. A chunk begins after the sinks; several of one document are numbered."""
    ids: list[int] = []
    chunks, query = [], (0, 0)
    totals, seen = Counter(part.slot for part in parts), Counter[str]()
    for part in parts:
        start, stop = len(ids), len(ids) + len(part.ids)
        ids += part.ids
        seen[part.slot] += 1
        if part.slot == "question":
            query = (start, stop)
        if part.is_document and max(start, sinks) < stop:
            total = totals[part.slot]
            number = f" ({seen[part.slot]} of {total})" if total > 1 else ""
            chunks.append(Chunk(titles[part.slot] + number, max(start, sinks), stop))
    protected = torch.ones(len(ids), dtype=torch.bool)
    for chunk in chunks:
        protected[chunk.start : chunk.stop] = False
    return Prompt(torch.tensor(ids, dtype=torch.int64), protected, tuple(chunks), query, truncated)


def _check_count(name: str, value: object, low: int, way_out: str) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < low:
        raise bad(name, value, f"a whole number of at least {low}", way_out)


def _check_text(name: str, text: object) -> None:
    if not isinstance(text, str):
        raise bad(name, text, "a string", "Pass the text itself.")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise bad(name, text, "valid Unicode", "It holds half of a surrogate pair; decode the text again.") from None
