"""A GGUF file as a float32 model and its tokenizer, through transformers; refused where anything would be lost.

transformers reads the weights of a GGUF file exactly, but drops parts of its configuration without a word. Each kind
known to change the result (scaled rotary positions, sliding windows, tensors without a place, weights without a
tensor) is checked here.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import gguf
import torch
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    GgufConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    modeling_gguf_pytorch_utils,
)

from fewer.errors import ModelError
from fewer.model.adapter import refusal
from fewer.model.gguf_header import GgufHeader
from fewer.model.gguf_tokenizer import read_tokenizer
from fewer.model.quiet import quiet, summarise

__all__ = ["read_model"]

WAY_OUT = "Pass a directory with its safetensors weights instead."


def read_model(path: Path, header: GgufHeader, name: str) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """The dequantised model with its end tokens set, and its tokenizer; ModelError where it would not be exact."""
    where = {"pretrained_model_name_or_path": str(path.parent), "gguf_file": path.name, "local_files_only": True}
    try:
        with quiet(), _memoised():
            config = AutoConfig.from_pretrained(**where)
            if reason := refusal(config) or _lost(header, config):
                raise ModelError(f"{name} cannot be converted from GGUF. {reason}")
            tokenizer = read_tokenizer(path, header)
            model, loading = AutoModelForCausalLM.from_pretrained(
                **where,
                config=config,
                dtype=torch.float32,
                quantization_config=GgufConfig(dequantize=True),
                output_loading_info=True,
            )
    except ModelError:
        raise
    except Exception as error:  # transformers and gguf raise many kinds for files they do not know
        kind = header.architecture
        raise ModelError(f"{name} (GGUF, {kind}) cannot be converted: {summarise(error)}. {WAY_OUT}") from error
    num_weights = sum(parameter.numel() for parameter in model.parameters())
    if loading["missing_keys"] or num_weights != header.num_elements:
        raise ModelError(
            f"{name} cannot be converted exactly: the file holds {header.num_elements} weights, the model has "
            f"{num_weights}, and {len(loading['missing_keys'])} of its tensors are not in the file. {WAY_OUT}"
        )
    model.generation_config.eos_token_id = _stops(header)
    return model, tokenizer


def _lost(header: GgufHeader, config: Any) -> str | None:
    """What transformers leaves out of this file's configuration, in one sentence; None where it takes all."""
    start = f"{header.architecture}."
    said = {key.removeprefix(start): value for key, value in header.metadata.items() if key.startswith(start)}
    scaling = said.get("rope.scaling.type", "none" if said.get("rope.scaling.factor", 1.0) == 1.0 else "linear")
    if scaling != "none":
        return f"Its rotary positions are scaled ({scaling}), which transformers does not read from GGUF. {WAY_OUT}"
    window = said.get("attention.sliding_window", 0)
    if window and getattr(config, "sliding_window", None) != window:
        return f"Its sliding window of {window} tokens is not read from GGUF by transformers. {WAY_OUT}"
    return None


def _stops(header: GgufHeader) -> int | list[int] | None:
    """The ids that end an answer: end of sequence, and end of turn where the file names another one."""
    named = [header.metadata.get(f"tokenizer.ggml.{key}_token_id") for key in ("eos", "eot")]
    stops = sorted({token for token in named if token is not None})
    return stops[0] if len(stops) == 1 else stops or None


@contextmanager
def _memoised() -> Iterator[None]:
    """Let transformers parse the file once instead of three times, map names once per model, and draw no bar.

    For a model of 30 layers that takes 9 s instead of 30 s.
    """
    with (
        _swapped(gguf, "GGUFReader", functools.cache(gguf.GGUFReader)),
        _swapped(gguf, "get_tensor_name_map", functools.cache(gguf.get_tensor_name_map)),
        _swapped(modeling_gguf_pytorch_utils, "tqdm", lambda items, **_: items),
    ):
        yield


@contextmanager
def _swapped(module: ModuleType, name: str, value: object) -> Iterator[None]:
    original = getattr(module, name)
    setattr(module, name, value)
    try:
        yield
    finally:
        setattr(module, name, original)
