"""From a name or path to a loaded model: the embedded one, hub names, local directories, GGUF files.

`resolve` gives a local directory with safetensors, configuration and tokenizer; `load_model` reads it onto the CPU.
Pickled weights are refused unless allowed, and code shipped with a model is never run.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from fewer.errors import FewerError, ModelError, bad
from fewer.model import embedded
from fewer.model.adapter import refusal
from fewer.model.checkpoint import check_directory
from fewer.model.conversion import ROUNDED, cache_directory, convert, digest_file, find_conversion, list_conversions
from fewer.model.embedded import fetch
from fewer.model.gguf_header import read_header
from fewer.model.hub import find_hub_model, list_hub_models
from fewer.model.quiet import quiet, summarise

__all__ = ["ModelEntry", "Source", "cache_directory", "fetch", "list_models", "load_model", "resolve"]

Kind = Literal["embedded", "hub", "directory", "gguf"]


@dataclass(frozen=True)
class Source:
    """Where a model comes from: a directory ready to be loaded, and what to call it.

    `sha256` is the digest of the original weights in one file, where that is known without reading them again: of a
    GGUF file, and of a single safetensors file in the hub's cache.
    """

    name: str
    kind: Kind
    path: Path
    sha256: str | None = None


@dataclass(frozen=True)
class ModelEntry:
    """One line of `fewer models`. `command` makes the model ready, and is empty where it is."""

    name: str
    kind: Kind
    path: Path | None
    num_bytes: int
    ready: bool
    command: str = ""


def resolve(
    name_or_path: str | Path | None = None,
    *,
    allow_pickle: bool = False,
    progress: Callable[[str], None] | None = None,
) -> Source:
    """The local directory for a name or path. None is the embedded model.

    A directory or file of that name comes first, then a hub name. A GGUF file is converted once, into the cache.
    `progress` is told, in a sentence, before anything that takes long. Raises BadInput, ModelError or StorageError.
    """
    report = progress or (lambda _: None)
    if name_or_path is None:
        return _resolve_embedded(allow_pickle, report)
    text, path, kind = _look(name_or_path)
    if kind == "directory":
        check_directory(path, allow_pickle=allow_pickle)
        return Source(text, "directory", path)
    if kind == "gguf":
        read_header(path)
        digest = digest_file(path)
        return Source(text, "gguf", convert(path, digest, path.name, report), digest)
    if text == embedded.NAME:
        return _resolve_embedded(allow_pickle, report)
    directory = find_hub_model(text, allow_pickle=allow_pickle, report=report)
    return Source(text, "hub", directory, _blob_digest(directory))


def load_model(
    source: Source, dtype: torch.dtype, *, allow_pickle: bool = False
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """The model on the CPU in this dtype, in eval mode and without gradients, and its tokenizer.

    Weights already stored in this dtype stay mapped from their file until written to. ModelError for a family that is
    not supported, weights that are missing, or anything else transformers cannot read.
    """
    weights = check_directory(source.path, allow_pickle=allow_pickle)
    local = {"local_files_only": True, "trust_remote_code": False}
    try:
        with quiet():
            config = AutoConfig.from_pretrained(source.path, **local)
            if reason := refusal(config):
                raise ModelError(reason)
            tokenizer = AutoTokenizer.from_pretrained(source.path, **local)
            model, loading = AutoModelForCausalLM.from_pretrained(
                source.path,
                config=config,
                dtype=dtype,
                use_safetensors=not weights.pickled,
                variant=_variant(source, dtype),
                weights_only=True,
                output_loading_info=True,
                **local,
            )
    except FewerError:
        raise
    except Exception as error:  # transformers raises many kinds for files it cannot read
        raise ModelError(
            f"{source.name} cannot be loaded: {summarise(error)}. Check that its files belong together."
        ) from error
    if missing := sorted(loading["missing_keys"]):
        raise ModelError(
            f"{source.name} has no weights for {len(missing)} tensors ({', '.join(missing[:3])}). "
            "Check that its config.json belongs to its weights."
        )
    return model.eval().requires_grad_(False), tokenizer


def _variant(source: Source, dtype: torch.dtype) -> str | None:
    """The rounded copy of the weights, where one lies beside them and is wanted."""
    rounded = source.path / f"model.{ROUNDED}.safetensors"
    return ROUNDED if dtype == torch.bfloat16 and rounded.is_file() else None


def list_models() -> list[ModelEntry]:
    """The embedded model, conversions in the cache, and the hub's cache, as far as they look loadable."""
    kept = {conversion.source_sha256: conversion for conversion in list_conversions()}
    own, package = kept.pop(embedded.SHA256, None), embedded.find_package()
    if own:
        first = ModelEntry(embedded.NAME, "embedded", own.path, own.num_bytes, True)
    elif package:
        first = ModelEntry(embedded.NAME, "embedded", package, package.stat().st_size, True)
    else:
        first = ModelEntry(embedded.NAME, "embedded", None, 0, False, embedded.FETCH)
    converted = [ModelEntry(entry.name, "gguf", entry.path, entry.num_bytes, True) for entry in kept.values()]
    return [first, *converted, *(ModelEntry(name, "hub", path, size, True) for name, path, size in list_hub_models())]


def _resolve_embedded(allow_pickle: bool, report: Callable[[str], None]) -> Source:
    """A conversion in the cache, else the installed package, else the hub, else an error that names the command."""
    if (found := find_conversion(embedded.SHA256)) is not None:
        return Source(embedded.NAME, "embedded", found, embedded.SHA256)
    if (gguf := embedded.find_package()) is not None:
        return Source(embedded.NAME, "embedded", embedded.convert_installed(gguf, report), embedded.SHA256)
    try:
        directory = find_hub_model(embedded.HUB_NAME, allow_pickle=allow_pickle, report=report)
    except ModelError as error:
        raise ModelError(f"The embedded model is not installed. Run `{embedded.FETCH}` to get it. ({error})") from error
    return Source(embedded.HUB_NAME, "hub", directory, _blob_digest(directory))


def _look(name_or_path: str | Path) -> tuple[str, Path, Kind]:
    """What the user wrote, as a path, and what is there: "hub" where nothing is and it may be a hub name."""
    text = str(name_or_path) if isinstance(name_or_path, str | Path) else ""
    legal = "a hub name such as org/name, or the path of a directory or a GGUF file"
    way_out = "Leave it out for the embedded model."
    if not text.strip():
        raise bad("model", name_or_path, legal, way_out)
    try:
        path = Path(text).expanduser()
        if path.is_dir():
            return text, path, "directory"
        if path.is_file():
            return text, path, "gguf"
        absent = not path.exists()
    except (OSError, RuntimeError, ValueError) as error:  # no permission, no such user, a name no system allows
        raise bad("model", name_or_path, f"{legal} ({summarise(error)})", way_out) from error
    certain = isinstance(name_or_path, Path) or text[0] in "./~" or "\\" in text or text.count("/") > 1
    if not absent or certain or path.suffix in (".gguf", ".safetensors"):
        what = "does not exist" if absent else "is neither a directory nor a regular file"
        raise ModelError(f"{text} {what}. Pass {legal}.")
    return text, path, "hub"


def _blob_digest(directory: Path) -> str | None:
    """The hub's cache names the blob of a large file by its SHA-256."""
    name = os.path.basename(os.path.realpath(directory / "model.safetensors"))
    return name if re.fullmatch("[0-9a-f]{64}", name) else None
