"""From a task's `generation_kwargs` to what the engine samples with.

What is not said is taken from the model's own generation_config.json and then from transformers, as its `generate`
does, since that is what the harness's `hf` model runs: a repetition penalty in that file is at work in greedy decoding
too, and sampling without `top_k` draws from the 50 likeliest tokens. Not followed: a `max_new_tokens` in that file.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from transformers import GenerationConfig, PreTrainedTokenizerBase

from fewer.errors import ModelError, bad
from fewer.types import Sampling

__all__ = ["Decoding", "read_decoding"]

_log = logging.getLogger("lm_eval.models.fewer")

_LENGTHS = ("max_gen_toks", "max_new_tokens", "max_tokens", "max_completion_tokens")  # the first one given counts
_DRAWING = {"top_k": 50, "top_p": 1.0, "min_p": 0.0}  # transformers' own; without effect in greedy decoding
_KNOWN = ("until", *_LENGTHS, "do_sample", "temperature", *_DRAWING, "repetition_penalty", "num_beams")
_MAX_GEN_TOKS = 256
_MISSING = {  # what changes the tokens in `generate` and is not there in fewer, and the value that switches it off
    "num_beams": 1,
    "guidance_scale": 1,
    "sequence_bias": None,
    "no_repeat_ngram_size": 0,
    "bad_words_ids": None,
    "min_length": 0,
    "min_new_tokens": 0,
    "forced_bos_token_id": None,
    "forced_eos_token_id": None,
    "exponential_decay_length_penalty": None,
    "suppress_tokens": None,
    "begin_suppress_tokens": None,
    "top_h": None,
    "typical_p": 1,
    "epsilon_cutoff": 0,
    "eta_cutoff": 0,
    "watermarking_config": None,
}


@dataclass(frozen=True)
class Decoding:
    """How one group of requests is decoded. `sampling` is without its seed.

    until: where the text is cut, the end token's text among them. end_tokens: control tokens in `until`, which are
    not part of the text.
    """

    sampling: Sampling
    until: tuple[str, ...]
    end_tokens: frozenset[int]


def read_decoding(
    gen_kwargs: Mapping[str, Any], own: GenerationConfig | None, tokenizer: PreTrainedTokenizerBase, vocab_size: int
) -> Decoding:
    """Check the generation arguments of a task. `own` is the model's generation_config.

    Raises BadInput for an argument that is unknown or out of range, and ModelError where the model's own configuration
    asks for something that cannot be done here.
    """
    for name in gen_kwargs:
        if name not in _KNOWN:
            legal = f"one of {', '.join(_KNOWN)}"
            raise bad("a generation argument", name, legal, "Nothing is accepted and ignored: take it out.")
    if gen_kwargs.get("num_beams", 1) != 1:
        raise bad("num_beams", gen_kwargs["num_beams"], "1", "There is no beam search here; take it out.")
    for name, neutral in _MISSING.items():
        if (value := getattr(own, name, None)) not in (None, neutral):
            raise ModelError(
                f"The model's generation_config.json sets {name} to {value!r}, which is not available here. "
                "Take it out of a copy of that file."
            )
    given: dict[str, Any] = {"repetition_penalty": 1.0, **_DRAWING}
    for name, usual in given.items():
        value = getattr(own, name, None)
        given[name] = gen_kwargs.get(name, usual if value is None else value)
    if given["repetition_penalty"] != 1 and "repetition_penalty" not in gen_kwargs:
        _log.warning("repetition_penalty=%s is from the model's generation_config.json", given["repetition_penalty"])
    if not isinstance(given["top_k"], bool) and isinstance(given["top_k"], int):
        given["top_k"] = min(given["top_k"], vocab_size)
    lengths = [gen_kwargs[name] for name in _LENGTHS if gen_kwargs.get(name) is not None]
    until = _until(gen_kwargs.get("until"), tokenizer)
    sampling = Sampling(
        max_tokens=lengths[0] if lengths else _MAX_GEN_TOKS,
        temperature=_temperature(gen_kwargs),
        stop=until,
        **given,
    )
    return Decoding(sampling, until, frozenset(_control_tokens(until, tokenizer)))


def _temperature(gen_kwargs: Mapping[str, Any]) -> float:
    """0 is greedy. As in the harness, `do_sample` decides, and where it is absent a temperature above 0 means it."""
    sample, temperature = gen_kwargs.get("do_sample"), gen_kwargs.get("temperature", 0.0)
    if sample not in (None, True, False):
        raise bad("do_sample", sample, "True or False", "Leave it out for greedy decoding.")
    if sample and temperature == 0:
        raise bad("temperature", temperature, "above 0 with do_sample=True", "Give a temperature, such as 1.0.")
    if sample is False and temperature != 0:
        _log.warning("do_sample=False: temperature=%s is not used, decoding is greedy", temperature)
        return 0.0
    return temperature  # type: ignore[no-any-return]


def _until(until: object, tokenizer: PreTrainedTokenizerBase) -> tuple[str, ...]:
    """The strings that end a text, and the text of the end token."""
    found = [until] if isinstance(until, str) else [] if until is None else until
    if not isinstance(found, (list, tuple)) or not all(isinstance(text, str) and text for text in found):
        raise bad("until", until, "one non-empty string or a list of them", "Leave it out to stop at the end token.")
    end = tokenizer.eos_token
    return (*found, end) if end and end not in found else tuple(found)


def _control_tokens(until: tuple[str, ...], tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """Tokens in `until` that decoding leaves out of the text, so that the text can never show them."""
    found = []
    for text in until:
        ids = tokenizer.encode(text, add_special_tokens=False)
        if len(ids) == 1 and not tokenizer.decode(ids, skip_special_tokens=True):
            found.append(int(ids[0]))
    return found
