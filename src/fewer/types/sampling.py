"""How tokens are chosen, and how many of the prompt stay."""

from __future__ import annotations

from dataclasses import dataclass

from fewer.errors import bad
from fewer.types.number import check_number

__all__ = ["Keep", "Sampling"]

_COLDEST = 1e-6  # logits divided by less than this may leave the range of float32


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
        check_number("max_tokens", self.max_tokens, int, 1, None, "Ask for at least one token.")
        check_number("temperature", self.temperature, float, 0.0, 100.0, "Use 0 for greedy decoding.")
        if 0 < self.temperature < _COLDEST:
            raise bad("temperature", self.temperature, f"0 or at least {_COLDEST:g}", "Use 0 for greedy decoding.")
        check_number("top_k", self.top_k, int, 0, None, "Use 0 to switch it off.")
        check_number("top_p", self.top_p, float, 0.0, 1.0, "Use 1 to switch it off.", open_low=True)
        check_number("min_p", self.min_p, float, 0.0, 1.0, "Use 0 to switch it off.")
        check_number("repetition_penalty", self.repetition_penalty, float, 0.01, 100.0, "Use 1 to switch it off.")
        check_number("seed", self.seed, int, 0, 2**63 - 1, "Pass a whole number.")
        if self.logprobs is not None:
            check_number("logprobs", self.logprobs, int, 0, 100, "Leave it out to report none.")
        if not isinstance(self.ignore_eos, bool):
            raise bad("ignore_eos", self.ignore_eos, "True or False", "Leave it out to stop at the end token.")


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
            check_number("keep", self.tokens, int, 1, None, _KEEP_WAY_OUT)
        else:
            check_number("keep", self.fraction, float, 0.0, 1.0, _KEEP_WAY_OUT, open_low=True)

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
