"""The frame of a prompt: the model's own chat template with a slot for every text that a user gave.

The template is rendered with one private mark for each text instead of the text itself, and the result is cut at the
marks. So the place of every text is known by construction, and no text can be mistaken for a part of the template.
Not covered: tools, earlier turns, and templates that only take a list of content parts.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING

from fewer.errors import ModelError
from fewer.types import Wording

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

__all__ = ["Frame", "render_frame"]

INSTRUCTION = "Read these documents.\n\n"
BETWEEN_DOCUMENTS = "\n\n"
BEFORE_QUESTION = "\n\nAnswer this question from the documents: "
PLAIN = "Take out the tokenizer's chat template to lay prompts out as plain text, or use another model."

Frame = list[str]
"""Text, slot, text, slot, ..., text. A slot is `system`, `before`, `question` or `document 1`, `document 2`, ...; the
texts between are the template's and the wording of this module, and may be empty."""


def render_frame(
    tokenizer: PreTrainedTokenizerBase, num_documents: int, has_system: bool, chat: bool, wording: Wording | None = None
) -> Frame:
    """The frame for a question over so many documents.

    With `chat`, from the tokenizer's chat template: one user turn with an instruction, the documents and
    the question (without documents only the question), and the opening of the answer. The system text has a turn of
    its own; where the template has no place for one, it opens the user turn. Otherwise plain text: system text,
    documents, question, each after a blank line. Raises ModelError when the template fails or does not write
    every slot exactly once. A `wording` takes the place of the instruction and of everything between the texts; its
    `before` and `ask` are in the slots `before` and `question`.
    """
    documents = [f"document {number}" for number in range(1, num_documents + 1)]
    body = (wording.between if wording else BETWEEN_DOCUMENTS).join(map(_mark, documents))
    system = _mark("system") + "\n\n" if has_system else ""
    if wording:
        user = (_mark("before") if wording.before else "") + body + _mark("question")
    else:
        user = f"{INSTRUCTION}{body}{BEFORE_QUESTION}{_mark('question')}" if documents else _mark("question")
    if not chat and wording:
        return _cut(system + user)
    if not chat:
        return _cut(system + (body + "\n\n" if documents else "") + _mark("question") + "\n")
    slots = [*documents, "question", *(["system"] if has_system else [])]
    slots += ["before"] if wording and wording.before else []
    frame: Frame = []
    if has_system:
        with suppress(ModelError):
            frame = _cut(_render(tokenizer, [("system", _mark("system")), ("user", user)]))
    if "system" not in frame[1::2]:
        frame = _cut(_render(tokenizer, [("user", system + user)]))
    found = frame[1::2]
    for slot in slots:
        if found.count(slot) != 1:
            raise ModelError(
                f"The model's chat template writes the {slot} {found.count(slot)} times, not once. {PLAIN}"
            )
    return frame


def _mark(slot: str) -> str:
    """A text that no template contains and that trimming leaves whole."""
    return f"\ue0f0{slot}\ue0f1"


def _cut(rendered: str) -> Frame:
    return re.split("\ue0f0([^\ue0f1]*)\ue0f1", rendered)


def _render(tokenizer: PreTrainedTokenizerBase, turns: list[tuple[str, str]]) -> str:
    """The template's text for these (role, content) turns, with the opening of the answer."""
    messages = [{"role": role, "content": content} for role, content in turns]
    try:
        return str(tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True))
    except Exception as error:  # a template is a program: it may raise anything, on purpose or not
        raise ModelError(f"The model's chat template fails ({type(error).__name__}: {error}). {PLAIN}") from error
