"""The parts of a prompt: documents, the words around them, chunks, token ids. `T` is the prompt's length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fewer.errors import bad
from fewer.types.number import check_number

__all__ = ["Chunk", "Document", "Prompt", "Wording"]

_NOT_IDS = (torch.bool, torch.float16, torch.bfloat16, torch.float32, torch.float64)


@dataclass(frozen=True, slots=True)
class Document:
    """One text with a title, as the user gave it. `source` is the path or `-` it came from, or empty."""

    text: str
    title: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True)
class Wording:
    """What stands around the documents in a prompt: a benchmark's own words instead of the usual ones.

    `before` comes first, the documents follow with `between` between two of them, then `ask`, in which `{question}` is
    replaced by the question. All of it is protected; the query is the whole of `ask`. Nothing is trimmed.
    """

    before: str = ""
    between: str = "\n\n"
    ask: str = "\n\n{question}"

    def __post_init__(self) -> None:
        for name in ("before", "between", "ask"):
            if not isinstance(getattr(self, name), str):
                raise bad(f"wording.{name}", getattr(self, name), "a string", "Pass the text itself.")
        if self.ask.count("{question}") != 1:
            raise bad("wording.ask", self.ask, "a text with {question} in it, once", "Write {question} for its place.")


@dataclass(frozen=True, slots=True)
class Chunk:
    """A run of prompt tokens `[start, stop)` that may be pruned as a whole."""

    title: str
    start: int
    stop: int

    @property
    def num_tokens(self) -> int:
        """Its length."""
        return self.stop - self.start


@dataclass(frozen=True, slots=True, eq=False)
class Prompt:
    """Token ids with the spans that may be pruned.

    Everything outside the chunks is protected: system text, template tokens, delimiters, the whole question,
    and the first `sinks` tokens; so is the last token, whose logits begin the answer. `query` is the span of the
    question's own tokens. `truncated` counts the document tokens that were cut off to make it fit. Positions are the
    indices into `ids` and never change afterwards. Raises BadInput where the parts do not fit together.
    """

    ids: Tensor  # [T] int64, on the CPU
    protected: Tensor  # [T] bool, on the CPU
    chunks: tuple[Chunk, ...] = ()
    query: tuple[int, int] = (0, 0)
    truncated: int = 0

    def __post_init__(self) -> None:
        way_out = "Let engine.prompt or Prompt.from_ids lay it out."
        for name, value in (("ids", self.ids), ("protected", self.protected)):
            if not isinstance(value, Tensor) or value.device.type != "cpu" or value.layout != torch.strided:
                raise bad(name, value, "a plain tensor on the CPU", way_out)
        if not all(isinstance(chunk, Chunk) for chunk in self.chunks) or len(self.query) != 2:
            raise bad("chunks and query", (self.chunks, self.query), "chunks, and a pair of positions", way_out)
        size = self.ids.numel()
        if self.ids.dtype != torch.int64 or self.ids.dim() != 1 or not size:
            raise bad("ids", self.ids, "one row of at least one int64 token id", way_out)
        if self.protected.dtype != torch.bool or self.protected.shape != self.ids.shape or not self.protected[-1]:
            raise bad("protected", self.protected, f"{size} booleans, the last one True", way_out)
        free, end = ~self.protected, 0
        for chunk in self.chunks:
            if not end <= chunk.start < chunk.stop <= size:
                raise bad("chunk", chunk, f"a span of tokens after {end} and up to {size}", way_out)
            free[chunk.start : chunk.stop] = False
            end = chunk.stop
        if free.any():
            raise bad("chunks", self.chunks, f"such that token {int(free.nonzero()[0])} is in one", way_out)
        check_number("truncated", self.truncated, int, 0, None, way_out)
        if not 0 <= self.query[0] <= self.query[1] <= size:
            raise bad("query", self.query, f"a span of the {size} tokens", way_out)

    def __len__(self) -> int:
        return int(self.ids.numel())

    @property
    def num_protected(self) -> int:
        """Tokens that always stay."""
        return int(self.protected.sum())

    @classmethod
    def from_ids(cls, ids: Sequence[int] | Tensor, sinks: int = 4, recent: int = 1) -> Prompt:
        """A prompt without structure: the first `sinks` and the last `recent` tokens are protected."""
        legal, way_out = "one row of at least one token id", "Pass the token ids of one prompt."
        try:
            tokens = torch.as_tensor(ids).cpu()
        except (TypeError, ValueError, RuntimeError):
            raise bad("ids", ids, legal, way_out) from None
        if not tokens.numel() or tokens.dtype in _NOT_IDS or tokens.numel() != tokens.shape[-1]:
            raise bad("ids", ids, legal, way_out)
        check_number("sinks", sinks, int, 0, None, "Use 0 to protect no tokens at the start.")
        check_number("recent", recent, int, 1, None, "The last token always stays.")
        size = tokens.numel()
        start, stop = min(sinks, size), max(0, size - recent)
        protected = torch.ones(size, dtype=torch.bool)
        protected[start:stop] = False
        chunks = (Chunk("", start, stop),) if start < stop else ()
        return cls(tokens.flatten().to(torch.int64), protected, chunks, (stop, size))
