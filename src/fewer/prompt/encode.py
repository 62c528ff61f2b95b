"""From pieces of text to token ids, such that the ids of the pieces, joined, spell the pieces, joined.

Four things go wrong when pieces are tokenised one by one, and are put right here. Control tokens written in a user's
text would be read as control tokens. SentencePiece-like tokenizers put a space before every piece. After some control
tokens that space does belong there. And blank lines are tokenised differently when nothing follows them. Not covered:
a tokenizer that changes text (lower case, lost spaces) still changes it, and words joined across two pieces.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

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
    """A text to encode, and what has to be put beside it so that it is encoded as in its place."""

    text: str
    anchored: bool  # put an anchor before it: the text must not be encoded as the start of something
    follow: str  # put this behind it: the text ends with a space, and more text follows


def encode_pieces(tokenizer: PreTrainedTokenizerBase, pieces: Sequence[Piece]) -> list[list[int]]:
    """Token ids for each piece, in order, without anything before the first or after the last.

    The pieces follow each other without a gap. Raises BadInput when a user's text holds a control token that this
    tokenizer cannot read as plain text.
    """
    controls = _control_tokens(tokenizer)
    flat, owners = [], []
    for number, piece in enumerate(pieces):
        for text in [piece.text] if piece.trusted else _break_controls(piece.text, tuple(controls)):
            flat.append(Piece(text, piece.trusted))
            owners.append(number)
    runs = _place_runs(tokenizer, flat)
    found = _encode_runs(tokenizer, runs)
    encoded: list[list[int]] = [[] for _ in pieces]
    for owner, run in zip(owners, runs, strict=True):
        encoded[owner] += found[run]
    forbidden = set(controls.values()) - {tokenizer.unk_token_id}
    for piece, ids in zip(pieces, encoded, strict=True):
        if not piece.trusted and not forbidden.isdisjoint(ids):
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


def _place_runs(tokenizer: PreTrainedTokenizerBase, pieces: Sequence[Piece]) -> list[Run]:
    """The pieces with what has to be put beside them.

    A tokenizer that adds no space needs no anchors. One that does adds it at the very start, and where a letter behind
    a template's text is encoded as at the start. Some tokenizers split blank lines differently before a digit.
    """
    newline, letter, both = _encode(tokenizer, ["\n", "a", "\na"])
    adds_space = both != newline + letter
    probes = _encode(tokenizer, [piece.text + "a" if piece.trusted else "" for piece in pieces])
    follows, after = [], ""
    for piece in reversed(pieces):
        follows.append(("1" if after.isdigit() else "a") if after and piece.text[-1:].isspace() else "")
        after = piece.text[:1] or after
    runs, at_start = [], True
    for piece, probe, follow in zip(pieces, probes, reversed(follows), strict=True):
        runs.append(Run(piece.text, adds_space and not at_start, follow))
        if piece.text:
            at_start = piece.trusted and probe[-len(letter) :] == letter
    return runs


def _encode_runs(tokenizer: PreTrainedTokenizerBase, runs: Sequence[Run]) -> dict[Run, list[int]]:
    """The ids of every run, encoded between what it asks for beside it and cut out again.

    Of several anchors the first one is taken that the tokenizer knows and that does not merge with the text. Where
    every anchor merges with it, or what follows it, the text is encoded without.
    """
    newline, letter, digit = _encode(tokenizer, ["\n", "\na", "\n1"])
    whole = letter[: len(newline)] == digit[: len(newline)] == newline
    tails = {"a": letter[len(newline) :], "1": digit[len(newline) :], "": []}
    found: dict[Run, list[int]] = {}
    for anchor, followed in product((*ANCHORS, ""), (True, False) if whole else (False,)):
        left = [run for run in dict.fromkeys(runs) if run not in found and (run.anchored or not anchor)]
        if not left:
            continue
        texts = [anchor + run.text + (run.follow if followed else "") for run in left]
        head, *encoded = _encode(tokenizer, [anchor, *texts])
        for run, ids in zip(left, encoded, strict=True):
            tail = tails[run.follow] if followed else []
            stop = len(ids) - len(tail)
            if ids[: len(head)] == head and ids[stop:] == tail and tokenizer.unk_token_id not in head:
                found[run] = ids[len(head) : stop]
    return found


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
