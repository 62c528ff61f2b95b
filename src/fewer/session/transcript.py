"""How the next text of a session goes on from what has been laid out: turns of a chat template, or plain text.

A turn is left open until something follows it, so a context may be read, and compressed, in the middle of the user's
turn, and the question still belongs to that turn. The template is rendered with a private mark for the text of every
turn, and only what stands behind the last turn is new. A template that writes earlier turns differently once others
follow would make the session another conversation than the one it writes, so it is refused. Not covered: tools, and
templates that look at what a turn says.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch

from fewer.errors import ModelError, bad
from fewer.prompt.encode import Piece, encode_pieces, opening_ids

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

__all__ = ["Message", "Transcript"]

Message = Mapping[str, str]

BETWEEN = "\n\n"  # texts of one turn, and of a session without a template
PLAIN = "Make the session with chat=False, or append token ids."
_MARK = "\ue0f2"
_ANYTHING = Piece("a")  # stands for a text or an answer that what follows is encoded behind


@dataclass
class Transcript:
    """What has been laid out so far. `add` and `add_question` return the ids that come next, and remember them."""

    templated: bool
    roles: list[str] = field(default_factory=list)  # of the turns, in order
    written: list[str] = field(default_factory=list)  # the template's own text before each of them
    begun: bool = False
    ended: str = ""  # the end token with which the last answer closed its own turn
    before: str | None = None  # the template's text, if that is what came last

    def copy(self) -> Transcript:
        """An independent copy."""
        return Transcript(self.templated, [*self.roles], [*self.written], self.begun, self.ended, self.before)

    def add(self, tokenizer: PreTrainedTokenizerBase, what: object) -> list[int]:
        """A text, messages, or token ids. Raises BadInput for anything else, and for nothing."""
        if isinstance(what, str):
            return self._add_text(tokenizer, _check_text("text", what))
        if isinstance(what, Sequence) and len(what) and all(isinstance(item, Mapping) for item in what):
            return self._add_messages(tokenizer, _check_messages(what))
        return self._add_ids(_as_ids("what is appended", what, "a text, messages, or at least one token id"))

    def add_question(self, tokenizer: PreTrainedTokenizerBase, question: object) -> list[int]:
        """The end of the user's turn, and the opening of the answer; or token ids, as they are."""
        if not isinstance(question, str):
            return self._add_ids(_as_ids("question", question, "a text, or at least one token id"))
        ids = self._add_text(tokenizer, _check_text("question", question).strip())
        if not self.templated:
            return ids + self._encode(tokenizer, [Piece("\n", trusted=True)])
        behind = self._render(tokenizer, self.roles, answering=True)[-1]
        self.roles.append("assistant")
        self.written.append(behind)
        return ids + self._encode(tokenizer, [Piece(behind, trusted=True)])

    def add_answer(self, tokenizer: PreTrainedTokenizerBase, ids: Sequence[int], end_tokens: Iterable[int]) -> None:
        """What the model wrote."""
        self._add_ids(ids)
        if ids[-1] in end_tokens:
            self.ended = str(tokenizer.decode([ids[-1]], skip_special_tokens=False))

    def _add_text(self, tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
        """More of the user's turn; it is opened where another one was last."""
        if not self.templated:
            return self._encode(tokenizer, [Piece(BETWEEN, trusted=True)] * self.begun + [Piece(text)])
        if self.roles and self.roles[-1] == "user":
            return self._encode(tokenizer, [Piece(BETWEEN, trusted=True), Piece(text)])
        return self._add_messages(tokenizer, [("user", text)])

    def _add_messages(self, tokenizer: PreTrainedTokenizerBase, messages: Iterable[tuple[str, str]]) -> list[int]:
        """Whole turns of (role, text), each left open until something follows."""
        if not self.templated:
            way_out = "Append their texts, or use a model with a chat template."
            raise bad("what is appended", "messages", "texts or token ids without a chat template", way_out)
        pieces = []
        for role, text in messages:
            pieces += [Piece(self._open(tokenizer, role), trusted=True), Piece(text)]
        return self._encode(tokenizer, pieces)

    def _add_ids(self, ids: Sequence[int]) -> list[int]:
        """Token ids as they are, in whatever turn is open."""
        self.begun, self.ended, self.before = True, "", None
        return list(ids)

    def _open(self, tokenizer: PreTrainedTokenizerBase, role: str) -> str:
        """The template's text between the last turn and a new one, without what an answer wrote of it itself."""
        texts = self._render(tokenizer, [*self.roles, role], answering=False)
        fresh = texts[len(self.roles)]
        self.roles.append(role)
        self.written.append(fresh)
        fresh, self.ended = fresh.removeprefix(self.ended), ""
        return fresh

    def _render(self, tokenizer: PreTrainedTokenizerBase, roles: Sequence[str], answering: bool) -> list[str]:
        """The template's text before every turn and behind the last one. Raises ModelError as the module says."""
        messages = [{"role": role, "content": f"{_MARK}{number}{_MARK}"} for number, role in enumerate(roles)]
        try:
            text = str(tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=answering))
        except Exception as error:  # a template is a program: it may raise anything, on purpose or not
            turns = ", ".join(roles)
            reason = f"{type(error).__name__}: {error}"
            raise ModelError(f"The model's chat template fails on the turns {turns} ({reason}). {PLAIN}") from error
        parts = text.split(_MARK)
        if parts[1::2] != [str(number) for number in range(len(roles))]:
            raise ModelError(f"The model's chat template does not write every turn once and in order. {PLAIN}")
        if parts[0::2][: len(self.written)] != self.written:
            raise ModelError(f"The model's chat template writes earlier turns anew once others follow. {PLAIN}")
        return parts[0::2]

    def _encode(self, tokenizer: PreTrainedTokenizerBase, pieces: Sequence[Piece]) -> list[int]:
        """The pieces as they are encoded behind what came last. A single space goes with the text behind it."""
        opening = [] if self.begun or self.templated else opening_ids(tokenizer)
        moved: list[Piece] = []
        for piece in pieces:
            last = moved[-1] if moved else None
            if last is not None and last.trusted and not piece.trusted and last.text.endswith(" "):
                moved[-1] = Piece(last.text[:-1], trusted=True)
                moved.append(Piece(" " + piece.text))
            else:
                moved.append(piece)
        if self.begun:
            moved.insert(0, _ANYTHING if self.before is None else Piece(self.before, trusted=True))
        found = encode_pieces(tokenizer, moved)[int(self.begun) :]
        self.begun, self.before = True, moved[-1].text if moved[-1].trusted else None
        return opening + [token for ids in found for token in ids]


def _check_text(name: str, text: str) -> str:
    """The text, where it is valid and not blank. Raises BadInput."""
    if not text.strip():
        raise bad(name, text, "a text that is not blank", "Pass what the model should read.")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise bad(name, text, "valid Unicode", "It holds half of a surrogate pair; decode the text again.") from None
    return text


def _check_messages(messages: Sequence[object]) -> list[tuple[str, str]]:
    """Messages as (role, text). Raises BadInput."""
    way_out = 'Write for example {"role": "user", "content": "..."}.'
    found = []
    for message in messages:
        fits = isinstance(message, Mapping) and set(message) == {"role", "content"}
        if not fits or not all(isinstance(part, str) for part in message.values()):  # type: ignore[attr-defined]
            raise bad("message", message, "a mapping with the texts role and content, and nothing else", way_out)
        role, content = message["role"], message["content"]  # type: ignore[index]
        if not role.strip():
            raise bad("role", role, "a role that the template knows, such as user", way_out)
        found.append((role, _check_text("content", content)))
    return found


def _as_ids(name: str, what: object, legal: str) -> list[int]:
    way_out = "Pass what the model should read."
    try:
        ids = torch.as_tensor(what)
    except (TypeError, ValueError, RuntimeError):
        raise bad(name, what, legal, way_out) from None
    if ids.dtype not in (torch.int64, torch.int32) or ids.dim() != 1 or not ids.numel():
        raise bad(name, what, legal, way_out)
    found: list[int] = ids.tolist()
    return found
