"""The nouns that every part of the house speaks (DESIGN section 3).

Shapes are in trailing comments. `T` is the prompt length, `n` the number of keys a layer holds, `d` the
head dimension. Layers are numbered 1..L as the papers do: "after layer l" means on the output of block l,
and 0 is the embedding. Nothing here computes with a model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import torch
from torch import Tensor

from fewer.errors import bad

__all__ = [
    "Chunk",
    "Document",
    "Keep",
    "Observation",
    "Plan",
    "Planner",
    "Prompt",
    "Sampling",
    "Wording",
]


_COLDEST = 1e-6  # logits divided by less than this may leave the range of float32
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
        _check("truncated", self.truncated, int, 0, None, way_out)
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
        _check("sinks", sinks, int, 0, None, "Use 0 to protect no tokens at the start.")
        _check("recent", recent, int, 1, None, "The last token always stays.")
        size = tokens.numel()
        start, stop = min(sinks, size), max(0, size - recent)
        protected = torch.ones(size, dtype=torch.bool)
        protected[start:stop] = False
        chunks = (Chunk("", start, stop),) if start < stop else ()
        return cls(tokens.flatten().to(torch.int64), protected, chunks, (stop, size))


@dataclass(frozen=True, slots=True)
class Sampling:
    """How the next token is chosen, and when to stop. The defaults are greedy decoding.

    temperature: 0 is greedy; otherwise logits are divided by it. top_k, top_p, min_p: off at 0, 1 and 0.
    repetition_penalty: 1 is off. stop: strings that end the answer and are not part of it.
    logprobs: how many alternatives to report beside the chosen token's own log-probability (None: neither).
    """

    max_tokens: int = 256
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    stop: tuple[str, ...] = ()
    seed: int = 0
    logprobs: int | None = None
    ignore_eos: bool = False

    def __post_init__(self) -> None:
        stop = (self.stop,) if isinstance(self.stop, str) else self.stop
        if not isinstance(stop, (tuple, list)) or not all(isinstance(text, str) and text for text in stop):
            way_out = "Leave it out to stop only at the end token."
            raise bad("stop", self.stop, "one non-empty string or a list of them", way_out)
        object.__setattr__(self, "stop", tuple(stop))
        _check("max_tokens", self.max_tokens, int, 1, None, "Ask for at least one token.")
        _check("temperature", self.temperature, float, 0.0, 100.0, "Use 0 for greedy decoding.")
        if 0 < self.temperature < _COLDEST:
            raise bad("temperature", self.temperature, f"0 or at least {_COLDEST:g}", "Use 0 for greedy decoding.")
        _check("top_k", self.top_k, int, 0, None, "Use 0 to switch it off.")
        _check("top_p", self.top_p, float, 0.0, 1.0, "Use 1 to switch it off.", open_low=True)
        _check("min_p", self.min_p, float, 0.0, 1.0, "Use 0 to switch it off.")
        _check("repetition_penalty", self.repetition_penalty, float, 0.01, 100.0, "Use 1 to switch it off.")
        _check("seed", self.seed, int, 0, 2**63 - 1, "Pass a whole number.")
        if self.logprobs is not None:
            _check("logprobs", self.logprobs, int, 0, 100, "Leave it out to report none.")
        if not isinstance(self.ignore_eos, bool):
            raise bad("ignore_eos", self.ignore_eos, "True or False", "Leave it out to stop at the end token.")


def _check(
    name: str, value: object, kind: type, low: float, high: float | None, way_out: str, open_low: bool = False
) -> None:
    """Raise BadInput unless `value` is a finite number of this kind in range."""
    legal = f"{'a whole number' if kind is int else 'a number'} {'above' if open_low else 'of at least'} {low:g}"
    if high is not None:
        legal += f" and at most {high:g}"
    numeric = isinstance(value, (int, float) if kind is float else int) and not isinstance(value, bool)
    if not numeric or not (low < value if open_low else low <= value) or (high is not None and value > high):  # type: ignore[operator]
        raise bad(name, value, legal, way_out)


_KEEP_WAY_OUT = "Write a count of tokens (256) or a fraction of the prompt (0.25 or 25%)."


@dataclass(frozen=True, slots=True)
class Keep:
    """How many prompt tokens stay: a count of tokens, or a fraction of the prompt. `Keep.parse("25%")`."""

    tokens: int | None = None
    fraction: float | None = None

    def __post_init__(self) -> None:
        if (self.tokens is None) == (self.fraction is None):
            raise bad("keep", (self.tokens, self.fraction), "a count or a fraction", "Pass one of the two.")
        if self.tokens is not None:
            _check("keep", self.tokens, int, 1, None, _KEEP_WAY_OUT)
        else:
            _check("keep", self.fraction, float, 0.0, 1.0, _KEEP_WAY_OUT, open_low=True)

    @classmethod
    def parse(cls, value: int | float | str | Keep) -> Keep:
        """`256` is tokens; `0.25` and `"25%"` are fractions in (0, 1]; `1` is one token and `1.0` is all."""
        if isinstance(value, Keep):
            return value
        legal = "a whole number of at least 1, or a fraction above 0 and at most 1"
        number: int | float
        try:
            if isinstance(value, bool):
                raise ValueError
            if isinstance(value, str):
                text = value.strip()
                if text.endswith("%"):
                    number = float(text[:-1]) / 100.0
                else:
                    number = int(text) if text.lstrip("+-").isdigit() else float(text)
            else:
                number = value
        except ValueError:
            raise bad("keep", value, legal, _KEEP_WAY_OUT) from None
        if isinstance(number, int) and number >= 1:
            return cls(tokens=number)
        if isinstance(number, float) and 0.0 < number <= 1.0:
            return cls(fraction=number)
        raise bad("keep", value, legal, _KEEP_WAY_OUT)

    def count(self, prompt_len: int) -> int:
        """Tokens to keep of a prompt of this length; at least one. More than the prompt has is an error."""
        if self.tokens is not None:
            if self.tokens > prompt_len:
                raise bad(
                    "keep", self.tokens, f"at most {prompt_len}, the prompt's tokens", "Keep fewer, or all: 100%."
                )
            return self.tokens
        return max(1, round((self.fraction or 0.0) * prompt_len))

    def __str__(self) -> str:
        return f"{self.tokens} tokens" if self.tokens is not None else f"{100 * (self.fraction or 0):g}%"


@dataclass(frozen=True, slots=True)
class Observation:
    """What a planner may look at after a layer. Built only when the planner asked for this layer.

    `attention` is None unless the planner's `needs` is "last_query".
    """

    layer: int  # 1..L; 0 is the embedding
    pos: Tensor  # [n] int64: positions of the prompt tokens still active, ascending
    prompt: Prompt
    generator: torch.Generator  # seeded by (seed, layer); on the CPU
    attention: Tensor | None = None  # [heads, n] float32: the newest position's attention row of this layer


@dataclass(frozen=True, slots=True)
class Plan:
    """What a planner decided after a layer and what it can prove about it."""

    layer: int
    keep: Tensor  # [k] int64: positions that go deeper, ascending
    reason: str = ""
    release: bool = True  # free the dropped tokens' keys and values in layers 1..layer as well
    bound: float | None = None  # an upper bound on what the removal costs, where the planner has one
    dual_gap: float | None = None


class Planner(Protocol):
    """Decides after chosen layers which prompt tokens go deeper. A pure function of the observation."""

    @property
    def name(self) -> str:
        """Its name on the command line and on receipts."""
        ...

    @property
    def needs(self) -> Literal["nothing", "last_query"]:
        """What has to be in the observation."""
        ...

    def layers(self, num_layers: int) -> tuple[int, ...]:
        """The layers to be asked after, ascending; raises BadInput when one is out of the model's range."""
        ...

    def check(self, prompt: Prompt) -> None:
        """Raise BadInput for settings that this prompt cannot meet. Asked before anything runs."""
        ...

    def after(self, observation: Observation) -> Plan | None:
        """Which positions go on, or None to leave things as they are."""
        ...

    def describe(self) -> dict[str, str | int | float | None]:
        """The settings, for the receipt."""
        ...
