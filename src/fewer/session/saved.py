"""A session on disk: a directory with session.json and cache.safetensors, whole or not there at all.

Written under another name beside the place, flushed to the disk, and renamed; both files have checksums. Replacing an
earlier session takes two renames: killed between them, the earlier one lies beside the place as .fewer-*.old. Read back
only by the model that wrote it, in the same number format: another one's keys and values mean nothing to it.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from fewer.engine.keeper import Keeper
from fewer.errors import BadInput, bad
from fewer.evict import Policy
from fewer.kv import State
from fewer.model.adapter import Adapter
from fewer.model.conversion import digest_file
from fewer.model.disk import check_space, storage_errors
from fewer.session.header import describe_keeper, describe_policy, remake_keeper, remake_policy
from fewer.session.tensors import read_attends, read_queries, read_state, write_state
from fewer.session.transcript import Transcript
from fewer.types import Prompt

__all__ = ["VERSION", "Saved", "read_session", "write_session"]

VERSION = 1
_FORMAT = "fewer session"
_HEADER, _CACHE = "session.json", "cache.safetensors"
_ROOM = "Free some space or name another place."


@dataclass(frozen=True)
class Saved:
    """Everything that a session is."""

    seed: int
    ids: tuple[int, ...]
    transcript: Transcript
    state: State
    keeper: Keeper | None
    policy: Policy | None


def write_session(saved: Saved, adapter: Adapter, directory: str | PathLike[str]) -> None:
    """Put it there. Raises BadInput for the place, StorageError for the disk; then what was there is untouched."""
    target = _find_place(directory)
    tensors = {"ids": torch.tensor(saved.ids, dtype=torch.int64), **write_state(saved.state)}
    if saved.keeper is not None:
        audited = {index: kappa for index, kappa in saved.keeper.kappa.items() if kappa is not None}
        tensors |= {f"kappa.{index}": kappa.clone().cpu() for index, kappa in audited.items()}
    header = {
        "format": _FORMAT,
        "version": VERSION,
        "model": _describe_model(adapter),
        "seed": saved.seed,
        "num_seen": saved.state.num_seen,
        "transcript": asdict(saved.transcript),
        "policy": describe_policy(saved.policy),
        "keeper": describe_keeper(saved.keeper),
        "attends": read_attends(saved.state),
    }
    needed = sum(tensor.nbytes for tensor in tensors.values()) + (1 << 16)
    temporary = target.parent / f".fewer-{secrets.token_hex(8)}.tmp"
    with storage_errors(target.parent, "The session", needed, _ROOM):
        check_space(target.parent, "The session", needed, _ROOM)
        try:
            temporary.mkdir()
            save_file(tensors, temporary / _CACHE)
            header["cache_sha256"] = digest_file(temporary / _CACHE)
            text = json.dumps({**header, "sha256": _digest(header)}, indent=1)
            (temporary / _HEADER).write_text(text + "\n", "utf-8")
            for path in (temporary / _CACHE, temporary / _HEADER, temporary):
                _flush(path)
            _put(temporary, target)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise


def read_session(directory: str | PathLike[str], adapter: Adapter, policy: Policy | None, headroom: int) -> Saved:
    """Read it back for this model. Raises BadInput as `Session.load` says."""
    place = _as_path(directory)
    header = _read_header(place)
    _check_model(header["model"], adapter)
    try:
        tensors = _read_tensors(place, header["cache_sha256"], adapter.device)
        made = remake_policy(header["policy"], policy)
        done, num_seen, attends = header["keeper"], header["num_seen"], header["attends"]
        rows = [] if done is None else done["rows"]
        state = read_state(tensors, adapter.num_layers, num_seen, rows, headroom)
        ids = tuple(tensors["ids"].tolist())
        keeper = None
        if made is not None and done is not None:
            keeper = Keeper(made, Prompt.from_ids(ids), header["seed"])
            remake_keeper(keeper, done)
            keeper.kappa = {
                index: tensors[name] for index in range(adapter.num_layers) if (name := f"kappa.{index}") in tensors
            }
            state.queries = read_queries(tensors, made.score.needs, attends, num_seen)
            keeper.watch(state)
        return Saved(header["seed"], ids, Transcript(**header["transcript"]), state, keeper, made)
    except (KeyError, TypeError, IndexError, RuntimeError) as error:
        raise _broken(place, f"{type(error).__name__}: {error}") from error


def _read_header(place: Path) -> dict[str, Any]:
    if not (place / _HEADER).is_file():
        raise bad("directory", str(place), f"a directory with {_HEADER} in it", "Name one that session.save wrote.")
    try:
        header = json.loads((place / _HEADER).read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise _broken(place, f"{_HEADER}: {error}") from error
    if not isinstance(header, dict) or header.get("format") != _FORMAT:
        raise bad("directory", str(place), "a saved session", f"{_HEADER} there is something else; name another one.")
    if header.get("version") != VERSION:
        way_out = "Load it with the version of fewer that wrote it."
        raise bad("version", header.get("version"), f"{VERSION} for this reader", way_out)
    if header.pop("sha256", None) != _digest(header):
        raise _broken(place, f"the checksum of {_HEADER} does not fit")
    return header


def _read_tensors(place: Path, digest: str, device: torch.device) -> dict[str, Tensor]:
    path = place / _CACHE
    if not path.is_file():
        raise _broken(place, f"{_CACHE} is missing")
    try:
        if digest_file(path) != digest:
            raise _broken(place, f"the checksum of {_CACHE} does not fit")
        return {name: tensor if name == "ids" else tensor.to(device) for name, tensor in load_file(path).items()}
    except (OSError, SafetensorError) as error:
        raise _broken(place, f"{_CACHE}: {error}") from error


def _describe_model(adapter: Adapter) -> dict[str, Any]:
    """By what a session knows its model; the name is for messages."""
    return {
        "name": adapter.name,
        "fingerprint": adapter.facts.fingerprint,
        "family": adapter.family,
        "num_layers": adapter.num_layers,
        "num_heads": adapter.num_heads,
        "num_kv_heads": adapter.num_kv_heads,
        "head_dim": adapter.head_dim,
        "dtype": str(adapter.dtype).removeprefix("torch."),
        "weights": adapter.weights,
    }


def _check_model(saved: Mapping[str, Any], adapter: Adapter) -> None:
    mine = _describe_model(adapter)
    differs = [name for name in mine if name != "name" and saved.get(name) != mine[name]]
    if differs:
        shown = ", ".join(f"{name} {mine[name]} (saved: {saved.get(name)})" for name in differs)
        way_out = f"Load {saved.get('name')!r} as it was, or append the session's ids to a new session."
        raise bad("engine", f"{mine['name']}: {shown}", "the model that the session was saved with", way_out)


def _as_path(directory: str | PathLike[str]) -> Path:
    way_out = "Pass the name of a directory."
    if not isinstance(directory, (str, os.PathLike)) or not os.fspath(directory):
        raise bad("directory", directory, "a directory's name", way_out)
    try:
        return Path(directory).resolve()
    except (OSError, ValueError, RuntimeError) as error:  # a null byte, a name too long, a loop of links
        raise bad("directory", os.fspath(directory), f"a directory's name ({error})", way_out) from None


def _find_place(directory: str | PathLike[str]) -> Path:
    """Where it may be written: a free name, an empty directory, or an earlier session."""
    target = _as_path(directory)
    held = {each.name for each in target.iterdir()} if target.is_dir() else set()
    if (target.exists() and not target.is_dir()) or (held and _HEADER not in held):
        raise bad("directory", str(target), "a free name, or a saved session to replace", "Name another directory.")
    if others := sorted(held - {_HEADER, _CACHE}):  # they would go with the session that is replaced
        shown = f"{target}, which also holds {', '.join(others[:3])}"
        raise bad("directory", shown, "a saved session alone where it is replaced", "Move them, or name another one.")
    if not target.parent.is_dir():
        raise bad("directory", str(target), "in a directory that exists", f"Make it first: {target.parent}")
    return target


def _put(temporary: Path, target: Path) -> None:
    """Rename it into place; what was there comes back where that fails."""
    old = target.parent / f".fewer-{secrets.token_hex(8)}.old"
    replaces = target.exists()
    if replaces:
        target.rename(old)
    try:
        temporary.rename(target)
    except BaseException:
        if replaces:
            old.rename(target)
        raise
    _flush(target.parent)
    shutil.rmtree(old, ignore_errors=True)


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _digest(header: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(header, sort_keys=True).encode()).hexdigest()


def _broken(place: Path, why: str) -> BadInput:
    way_out = "Its files were changed or cut; load another copy, or begin a new session."
    return bad("directory", f"{place} ({why})", "a saved session that is whole", way_out)
