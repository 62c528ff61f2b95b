"""Files written whole or not at all, and what is said when a disk refuses."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from fewer.errors import StorageError

__all__ = ["append_whole", "hash_folder", "hash_json", "refuse", "sync", "write_whole"]


def hash_json(content: Any) -> str:
    """SHA-256 of a value's canonical JSON: sorted keys, ASCII, no spaces."""
    text = json.dumps(content, sort_keys=True, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def hash_folder(folder: Path) -> str:
    """SHA-256 over the names and contents of all files in a folder, not of those in its subfolders."""
    found = {}
    for path in sorted(folder.iterdir()):
        if path.is_file() and not path.name.startswith("."):
            with open(path, "rb") as file:
                found[path.name] = hashlib.file_digest(file, "sha256").hexdigest()
    return hash_json(found)


def write_whole(path: Path, text: str) -> None:
    """Write a file whole or not at all. Raises StorageError."""
    waiting = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        waiting.write_text(text, encoding="utf-8")
        sync(waiting)
        os.replace(waiting, path)
    except OSError as error:
        waiting.unlink(missing_ok=True)
        raise refuse(path, error) from error


def append_whole(path: Path, data: bytes) -> None:
    """Add to the end of a file, whole or not at all, and wait until it is on the disk. Raises StorageError."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    except OSError as error:
        raise refuse(path, error) from error
    before = os.fstat(descriptor).st_size
    try:
        left = memoryview(data)
        while left:
            left = left[os.write(descriptor, left) :]
        os.fsync(descriptor)
    except OSError as error:
        os.ftruncate(descriptor, before)
        raise refuse(path, error) from error
    finally:
        os.close(descriptor)


def sync(path: Path) -> None:
    """Wait until a file is on the disk."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())


def refuse(path: Path, error: OSError) -> StorageError:
    """The error to raise where the disk said no."""
    return StorageError(
        f"{path} cannot be written: {error.strerror or error}. Free space or choose another --out; what was finished "
        "before is kept, and the same command goes on from there."
    )
