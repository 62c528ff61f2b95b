"""What every row and every page of a run says about where it ran and how the model was asked."""

from __future__ import annotations

import platform
from typing import Any

import torch
import transformers

import fewer
from fewer.engine import Engine
from fewer.study.files import hash_folder
from fewer.study.spec import Study

__all__ = ["describe_environment", "describe_setting"]


def describe_environment(engine: Engine) -> dict[str, Any]:
    """Model, machine and versions; these are columns of every row."""
    adapter, source = engine.adapter, engine.setting.source
    dtype = str(adapter.dtype).removeprefix("torch.")
    return {
        "model": source.name,
        "model_sha256": source.sha256 or hash_folder(source.path),
        "device": str(adapter.device),
        "dtype": dtype,
        "weights": "int8" if adapter.weights == "int8" else dtype,
        "num_threads": torch.get_num_threads(),
        "fewer": fewer.__version__,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "python": platform.python_version(),
    }


def describe_setting(engine: Engine, study: Study) -> dict[str, Any]:
    """How the model was asked, as far as it is the same for every item."""
    tokenizer, most = engine.tokenizer, study.sampling.max_tokens
    return {
        "chat_template": tokenizer.chat_template is not None,
        "end_tokens": [str(tokenizer.decode([token])) for token in sorted(engine.end_tokens)],
        "max_positions": engine.adapter.max_positions,
        "truncation": "documents are cut from their end" if study.truncate else "none: too long is refused",
        "sinks": 4,
        "observation_window": "the last token of the prompt",
        "decoding": "greedy" if study.sampling.temperature == 0 else f"temperature {study.sampling.temperature:g}",
        "max_tokens": "the benchmark's" + (f", at most {most}" if most else ""),
        "share": study.share,
    }
