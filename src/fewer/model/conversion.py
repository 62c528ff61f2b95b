"""Conversions of GGUF files, kept in the user's cache: safetensors with config, tokenizer and checksums.

The weights are there twice, in float32 and rounded to bfloat16, so that either can be mapped from its file as it is:
rounding while loading would hold both in memory at once.

A conversion is written into a temporary directory beside its place and renamed into it, so it is whole or absent,
also after kill -9 or on a full disk. A lock for each file makes a second process wait for the first. Every use checks
every byte against SHA-256 (about 0.6 s per GB); a conversion that does not match is made again. Not covered: a
conversion changed on disk while a process already runs on it.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import platformdirs
import torch
from filelock import FileLock, Timeout
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from fewer.errors import bad
from fewer.model.disk import check_space, storage_errors
from fewer.model.gguf_header import read_header
from fewer.model.gguf_model import read_model
from fewer.model.quiet import quiet

__all__ = [
    "ROUNDED",
    "Conversion",
    "cache_directory",
    "convert",
    "digest_file",
    "find_conversion",
    "list_conversions",
    "models_dir",
]

MANIFEST = "manifest.json"
ROUNDED = "bf16"  # the variant's name as transformers knows it
FORMAT = 2  # raise it when what is written changes: older conversions are then made again
SLACK_BYTES = 32 * 2**20  # tokenizer, configuration and headers beside the weights
WAY_OUT = "Free some space, or set FEWER_CACHE to a directory with room that can be written."

Report = Callable[[str], None]


@dataclass(frozen=True)
class Conversion:
    """One finished conversion as its manifest describes it. `files` maps each name to its size and SHA-256."""

    name: str
    path: Path
    source_sha256: str
    files: dict[str, tuple[int, str]]

    @property
    def num_bytes(self) -> int:
        """What its files take on disk."""
        return sum(size for size, _ in self.files.values())

    def is_whole(self) -> bool:
        """Whether every file is there with the bytes that were written. Reads all of them."""
        try:
            return all(
                (self.path / name).stat().st_size == size and digest_file(self.path / name) == digest
                for name, (size, digest) in self.files.items()
            )
        except OSError:
            return False


def cache_directory() -> Path:
    """What this machine keeps between runs: $FEWER_CACHE, or the user's cache directory. It may not exist yet."""
    named = os.environ.get("FEWER_CACHE", "")
    try:
        return Path(named or platformdirs.user_cache_dir("fewer")).expanduser()
    except RuntimeError as error:  # no home directory, or no such user
        raise bad(
            "FEWER_CACHE", named, f"a directory ({error})", "Set it to a directory that can be written."
        ) from None


def models_dir() -> Path:
    """Where the conversions lie in it."""
    return cache_directory() / "models"


def digest_file(path: Path) -> str:
    """SHA-256 of the file's bytes, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def list_conversions() -> list[Conversion]:
    """Every finished conversion in the cache, by name. Their bytes are not checked here."""
    found = (_read_manifest(directory) for directory in models_dir().glob("gguf-*"))
    return sorted((entry for entry in found if entry), key=lambda entry: (entry.name, entry.path))


def find_conversion(source_sha256: str) -> Path | None:
    """The directory of this GGUF file's conversion, every byte checked; None where it is absent or damaged."""
    conversion = _read_manifest(_place(source_sha256))
    return conversion.path if conversion and conversion.is_whole() else None


def convert(gguf: Path, source_sha256: str, name: str, report: Report) -> Path:
    """The directory of this file's conversion, made now unless it is there and whole.

    `source_sha256` is the file's own digest and `name` what to call the model. ModelError for a file that cannot be
    read or converted exactly, StorageError where the cache cannot be written.
    """
    header = read_header(gguf)
    if (found := find_conversion(source_sha256)) is not None:
        return found
    place = _place(source_sha256)
    what, needed = f"The conversion of {name}", 6 * header.num_elements + SLACK_BYTES
    with storage_errors(place.parent, what, needed, WAY_OUT), _locked(place, name, report):
        if (found := find_conversion(source_sha256)) is not None:
            return found
        if place.exists():
            report(f"The cached conversion of {name} is damaged or out of date; making it again.")
        for leftover in (place, *place.parent.glob(f".{place.name}-*")):
            shutil.rmtree(leftover, ignore_errors=True)
        check_space(place.parent, what, needed, WAY_OUT)
        report(f"Converting {name}, once ({needed / 1e6:.0f} MB in {place.parent}).")
        model, tokenizer = read_model(gguf, header, name)
        with tempfile.TemporaryDirectory(prefix=f".{place.name}-", dir=place.parent) as temporary:
            work = Path(temporary) / place.name
            _write(work, model, tokenizer, name, source_sha256)
            os.replace(work, place)
    return place


def _place(source_sha256: str) -> Path:
    return models_dir() / f"gguf-{source_sha256[:16]}"


@contextmanager
def _locked(place: Path, name: str, report: Report) -> Iterator[None]:
    """Hold this conversion's lock; wait, and say so, while another process has it. The lock dies with its process."""
    place.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(place.with_suffix(".lock"))
    try:
        lock.acquire(timeout=0)
    except Timeout:
        report(f"Another process is converting {name}; waiting for it.")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _write(
    directory: Path, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, name: str, source_sha256: str
) -> None:
    """Write model and tokenizer, then a manifest with the size and digest of every file."""
    with quiet():
        model.save_pretrained(directory)
        once = dict(model.named_parameters())  # tied weights once, as in the float32 file
        rounded = {key: value.detach().to(torch.bfloat16) for key, value in once.items()}
        model.save_pretrained(directory, state_dict=rounded, variant=ROUNDED)
        tokenizer.save_pretrained(directory)
    files = {}
    for path in sorted(directory.iterdir()):
        path.chmod((directory / "config.json").stat().st_mode)  # safetensors makes its file private
        files[path.name] = path.stat().st_size, digest_file(path)
    manifest = {"format": FORMAT, "name": name, "source_sha256": source_sha256, "files": files}
    (directory / MANIFEST).write_text(json.dumps(manifest, indent=1), encoding="utf-8")


def _read_manifest(directory: Path) -> Conversion | None:
    """What the manifest says, or None where there is none of this format."""
    try:
        manifest = json.loads((directory / MANIFEST).read_text(encoding="utf-8"))
        if manifest["format"] != FORMAT or not manifest["files"]:
            return None
        files = {name: (int(size), str(digest)) for name, (size, digest) in manifest["files"].items()}
        return Conversion(manifest["name"], directory, manifest["source_sha256"], files)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
