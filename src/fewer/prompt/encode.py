"""From pieces of text to token ids, such that the ids of the pieces, joined, spell the pieces, joined.

Four things go wrong when pieces are tokenised one by one, and are put right here. Control tokens written in a user's
text would be read as control tokens. SentencePiece-like tokenizers put a space before every piece. After some control
tokens that space does belong there. And blank lines are tokenised differently when nothing follows them. Not covered:
a tokenizer that changes text (lower case, lost spaces) still changes it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from fewer.errors import BadInput

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

__all__ = ["Piece", "encode_pieces", "opening_ids"]

ANCHORS = ("\n", "a", "1")


@dataclass(frozen=True, slots=True)
class Piece:
    """A run of text. Only in a `trusted` one, the template's own, control tokens are read as such."""

    text: str
    trusted: bool = False


class Run(NamedTuple):
    """A text to encode, and what is around it."""

    text: str
    starts: bool  # it stands where the tokenizer would itself begin a text
    goes_on: bool  # it ends with a space and more text follows


def encode_pieces(tokenizer: PreTrainedTokenizerBase, pieces: Sequence[Piece]) -> list[list[int]]:
    """Token ids for each piece, in order, without anything before the first or after the last.

    The pieces follow each other without a gap. Raises BadInput when a user's text holds a control token that this
    tokenizer cannot read as plain text.
    """
    controls = _control_tokens(tokenizer)
    newline, letter, both = _encode(tokenizer, ["\n", "a", "\na"])
    adds_space = both != newline + letter
    starts = _find_starts(tokenizer, pieces) if adds_space else [True] * len(pieces)
    end = max((number for number, piece in enumerate(pieces) if piece.text), default=0)
    runs: list[list[Run]] = []
    for number, (piece, start) in enumerate(zip(pieces, starts, strict=True)):
        texts = [piece.text] if piece.trusted else _break_controls(piece.text, tuple(controls))
        goes_on = piece.text[-1:].isspace() and number < end
        whole = Run(piece.text, start, goes_on)
    found = _encode_runs(tokenizer, [run for group in runs for run in group], both[len(newline) :])
    encoded = [[token for run in group for token in found[run]] for group in runs]
    for piece, ids in zip(pieces, encoded, strict=True):
        if not piece.trusted and not set(controls.values()).isdisjoint(ids):
            name = next(text for text, token in controls.items() if token in ids)
            raise BadInput(
                f"The text {piece.text[:40]!r} holds {name!r}, which this model's tokenizer cannot read as plain text. "
                "Remove it from the text."
            )
    return encoded


def opening_ids(tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """What the tokenizer itself puts before a plain text: usually one begin-of-text token, or nothing."""
    bare = _encode(tokenizer, ["a"])[0]
    dressed = list(tokenizer("a")["input_ids"])
    return next((dressed[:at] for at in range(len(dressed)) if dressed[at : at + len(bare)] == bare), [])


def _encode(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str]) -> list[list[int]]:
    """Every text on its own, in one call; control tokens are read as such."""
    if not texts:
        return []
    options = {"add_special_tokens": False, "split_special_tokens": False, "return_attention_mask": False}
    return list(tokenizer(list(texts), verbose=False, **options)["input_ids"])


def _encode_runs(tokenizer: PreTrainedTokenizerBase, runs: Iterable[Run], anchored: bool) -> dict[Run, list[int]]:
    """The ids of every run.

    With `anchored`, a run in the middle is encoded behind an anchor whose ids are cut off again. An anchor that
    merges with the text is of no use; if all do, the text is encoded on its own.
    """
    found: dict[Run, list[int]] = {}
    left = list(dict.fromkeys(runs))
    for anchor in ANCHORS if anchored else ():
        inner = [run for run in left if not run[1]]
        head, *encoded = _encode(tokenizer, [anchor, *(anchor + text for text, _ in inner)])
        for run, ids in zip(inner, encoded, strict=True):
            if ids[: len(head)] == head:
                found[run] = ids[len(head) :]
        left = [run for run in left if run not in found]
    return found | dict(zip(left, _encode(tokenizer, [text for text, _ in left]), strict=True))


def _adds_space(tokenizer: PreTrainedTokenizerBase) -> bool:
    """Whether a text on its own is encoded differently from the same text after another one."""
    newline, letter, both = _encode(tokenizer, ["\n", "a", "\na"])
    return both != newline + letter


def _find_starts(tokenizer: PreTrainedTokenizerBase, pieces: Sequence[Piece]) -> list[bool]:
    """For each piece whether the tokenizer would begin a text there: at the very start, after some control tokens."""
    letter, *probes = _encode(tokenizer, ["a", *((piece.text if piece.trusted else "") + "a" for piece in pieces)])
    starts, at_start = [], True
    for piece, probe in zip(pieces, probes, strict=True):
        starts.append(at_start)
        if piece.text:
            at_start = piece.trusted and probe[-len(letter) :] == letter
    return starts


def _control_tokens(tokenizer: PreTrainedTokenizerBase) -> dict[str, int]:
    """Text and id of the tokens a user's text must not produce: the special ones, and those the template writes."""
    template = str(tokenizer.chat_template or "")
    return {
        token.content: number
        for number, token in tokenizer.added_tokens_decoder.items()
        if token.special or (token.content in template and not token.content.isspace())
    }


@lru_cache(maxsize=8)
def _match_any(texts: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(map(re.escape, sorted(texts, key=len, reverse=True))) or "(?!)")


def _break_controls(text: str, controls: tuple[str, ...]) -> list[str]:
    """The text, cut after the first character of every control token in it, so that none is left whole."""
    parts, begin, pattern = [], 0, _match_any(controls)
    match = pattern.search(text)
    while match:
        parts.append(text[begin : match.start() + 1])
        begin = match.start() + 1
        match = pattern.search(text, begin)
    return [*parts, text[begin:]]
