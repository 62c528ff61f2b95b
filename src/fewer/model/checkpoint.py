"""A directory as transformers saves models: is everything there, and is it what it claims to be?

Reads names, JSON and the heads of the weight files; a file with the right length and wrong numbers passes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from transformers import CONFIG_MAPPING

from fewer.errors import ModelError
from fewer.model.quiet import summarise

__all__ = ["TOKENIZERS", "Weights", "check_directory"]

SAFE = "model.safetensors"
PICKLED = "pytorch_model.bin"
PICKLE_ENDINGS = (".bin", ".pt", ".pth", ".ckpt")
TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "spiece.model", "tekken.json")


@dataclass(frozen=True)
class Weights:
    """The weight files of a directory, all of one kind."""

    files: tuple[Path, ...]
    pickled: bool


def check_directory(directory: Path, *, allow_pickle: bool = False) -> Weights:
    """The directory's weights; ModelError that names the first thing missing, broken or refused."""
    try:
        names = {path.name for path in directory.iterdir()}
        if not names:
            raise ModelError(f"{directory} is empty. {_needs()}")
        if "config.json" not in names:
            ggufs = sorted(name for name in names if name.endswith(".gguf"))
            hint = f"Pass the GGUF file itself: {directory / ggufs[0]}." if ggufs else _needs()
            raise ModelError(f"{directory} has no config.json. {hint}")
        _check_config(directory / "config.json")
        weights = _find_weights(directory, names, allow_pickle)
    except OSError as error:
        raise ModelError(f"{directory} cannot be read ({error.strerror}). Check its permissions.") from error
    if not names & set(TOKENIZERS):
        raise ModelError(f"{directory} has no tokenizer ({', '.join(TOKENIZERS)}). Copy the model's tokenizer into it.")
    return weights


def _needs() -> str:
    return "A model directory holds config.json, model.safetensors and tokenizer.json."


def _check_config(path: Path) -> None:
    config = _read_json(path)
    family = config.get("model_type")
    if not isinstance(family, str):
        raise ModelError(f"{path} names no model_type. Take the config.json that belongs to the weights.")
    if "auto_map" in config and family not in CONFIG_MAPPING:
        raise ModelError(f"{path.parent} is a {family!r} model with its own code, which is never run. Pass another.")
    if quantization := config.get("quantization_config"):
        method = quantization.get("quant_method", "unknown") if isinstance(quantization, dict) else "unknown"
        raise ModelError(
            f"{path.parent} stores weights quantized by {method!r}. Pass the unquantized model, or a GGUF."
        )


def _find_weights(directory: Path, names: set[str], allow_pickle: bool) -> Weights:
    pickles = sorted(name for name in names if name.endswith(PICKLE_ENDINGS))
    others = sorted(name for name in names if name.endswith((".safetensors", ".gguf")))
    if found := _named(directory, names, SAFE):
        for file in found:
            _check_safetensors(file)
        return Weights(found, pickled=False)
    if pickles and not allow_pickle:
        raise ModelError(
            f"{directory} has its weights in pickle files ({', '.join(pickles[:3])}), which can run code when opened. "
            "Convert them to safetensors, or pass allow_pickle=True if you trust where they come from."
        )
    if found := _named(directory, names, PICKLED):
        return Weights(found, pickled=True)
    others += pickles
    instead = f", but there is {', '.join(others[:3])}" if others else ""
    wanted = f"{SAFE} or {PICKLED}" if allow_pickle else SAFE
    raise ModelError(f"{directory} has no weights named {wanted} (or their index){instead}. {_needs()}")


def _named(directory: Path, names: set[str], whole: str) -> tuple[Path, ...]:
    """The weights under this name in one file, or in the files that its index names; empty where there are none."""
    if whole in names:
        return (directory / whole,)
    index = f"{whole}.index.json"
    return _shards(directory / index) if index in names else ()


def _shards(index: Path) -> tuple[Path, ...]:
    """The files an index names, all of them there."""
    table = _read_json(index).get("weight_map")
    if not isinstance(table, dict) or not table:
        raise ModelError(f"{index} has no weight_map. Copy or download it again.")
    files = tuple(index.parent / name for name in sorted({str(name) for name in table.values()}))
    missing = [file.name for file in files if not file.is_file()]
    if missing:
        raise ModelError(
            f"{index.parent} lacks {len(missing)} of its {len(files)} weight files: {', '.join(missing[:3])}. "
            "Copy or download them."
        )
    return files


def _check_safetensors(path: Path) -> None:
    """ModelError unless the file is as long as its own header says."""
    try:
        with safe_open(path, framework="pt"):
            pass
    except SafetensorError as error:
        raise ModelError(
            f"{path} is cut short or is not a safetensors file ({summarise(error)}). Copy or download it again."
        ) from error


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:  # also bytes that are not UTF-8
        raise ModelError(f"{path} is not valid JSON ({error}). Copy or download it again.") from error
    if not isinstance(content, dict):
        raise ModelError(f"{path} holds a {type(content).__name__}, not a JSON object. Copy or download it again.")
    return content
