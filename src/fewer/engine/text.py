"""From tokens to text while they arrive: never half a character, never a part of a stop string."""

from __future__ import annotations

from transformers import PreTrainedTokenizerBase

__all__ = ["TextStream"]

_BROKEN = "\ufffd"


class TextStream:
    """Decodes one answer piece by piece. The pieces joined are the text.

    Text that might be the beginning of a stop string is held back until the next token decides. Special tokens are not
    part of the text.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, stop: tuple[str, ...] = ()) -> None:
        self.text = ""  # given out so far
        self.stopped = False  # a stop string was met
        self._tokenizer, self._stop = tokenizer, stop
        self._ids: list[int] = []
        self._from = 0  # decode from here: a token boundary that was a character boundary too
        self._shown = 0  # tokens whose text is already handed on
        self._held = ""

    def push(self, token: int) -> str:
        """Take one token; return what may be shown now."""
        self._ids.append(token)
        whole = self._decode(self._from, len(self._ids))
        if whole.endswith(_BROKEN):
            return ""
        return self._emit(self._advance(whole), last=False)

    def finish(self) -> str:
        """What is left when no token follows; an incomplete character becomes U+FFFD."""
        if self.stopped:
            return ""
        return self._emit(self._advance(self._decode(self._from, len(self._ids))), last=True)

    def _advance(self, whole: str) -> str:
        """The part of `whole` that is new. The last piece stays as context, for tokenisers that join words."""
        known = len(self._decode(self._from, self._shown))
        if len(whole) > known:
            self._from, self._shown = self._shown, len(self._ids)
        return whole[known:]

    def _decode(self, start: int, stop: int) -> str:
        ids = self._ids[start:stop]
        return str(self._tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False))

    def _emit(self, fresh: str, last: bool) -> str:
        pending = self._held + fresh
        cut = min((at for stop in self._stop if (at := pending.find(stop)) >= 0), default=-1)
        if cut >= 0:
            self.stopped, self._held, shown = True, "", pending[:cut]
        else:
            keep = 0 if last else max((_overlap(pending, stop) for stop in self._stop), default=0)
            shown, self._held = pending[: len(pending) - keep], pending[len(pending) - keep :]
        self.text += shown
        return shown


def _overlap(text: str, stop: str) -> int:
    """The length of the longest end of `text` that is a proper beginning of `stop`."""
    for size in range(min(len(text), len(stop) - 1), 0, -1):
        if text.endswith(stop[:size]):
            return size
    return 0
