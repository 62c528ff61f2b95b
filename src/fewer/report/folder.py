"""A report's folder on disk: what may be replaced there, and how it is put in its place.

    OUT/report.json    the names and SHA-256 of the other files; a file that it does not name with its hash is not ours

The new report is written whole beside the old one; then the two folders change places in one step where the system can
(Linux), and are renamed one after the other elsewhere. Of the old one only the files of its list are removed. Not
covered: two reports written to one folder at a time; a killed run's unfinished `.OUT.*.part` stays and may be removed.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import secrets
import shutil
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from fewer.errors import StorageError, bad

__all__ = ["MANIFEST", "check_target", "list_files", "put"]

MANIFEST = "report.json"
FORMAT = "fewer report, 1"
WAY_OUT = "Choose another --out, or move what is there away."
AT_FDCWD, RENAME_EXCHANGE = -100, 2  # of Linux's renameat2


def list_files(contents: Mapping[str, bytes]) -> bytes:
    """The list of a report's files, by which a later one knows them again."""
    files = {name: hashlib.sha256(content).hexdigest() for name, content in sorted(contents.items())}
    return (json.dumps({"format": FORMAT, "files": files}, indent=1) + "\n").encode()


def check_target(out: Path) -> Path:
    """The folder's full path. Raises BadInput where it is no folder or holds what no report wrote; StorageError."""
    try:
        target = out.resolve()
        above = next(folder for folder in (target, *target.parents) if folder.exists())
        if not above.is_dir():
            what = "a folder, or a name not taken yet" if above == target else f"in a folder; {above} is a file"
            raise bad("the report's folder", str(out), what, "Choose another --out.")
        foreign = _find_foreign(target) if above == target else []
    except (OSError, RuntimeError) as error:
        raise _refuse(out, error) from error
    if foreign:
        more = f" and {len(foreign) - 1} more" if len(foreign) > 1 else ""
        legal = f"empty, new, or an earlier report as it was written; it holds {foreign[0]}{more}"
        raise bad("the report's folder", str(out), legal, WAY_OUT)
    return target


def put(target: Path, contents: Mapping[str, bytes]) -> None:
    """Write all files beside the target, then put the folder in its place. Raises StorageError; then all is as it was.

    However it ends, by a signal too, the old report or the new one is there whole.
    """
    token = secrets.token_hex(4)
    waiting, old = (target.parent / f".{target.name}.{token}.{end}" for end in ("part", "old"))
    written = False
    try:
        for name, content in contents.items():
            _write(waiting / name, content)
        written = True
        _swap(waiting, target, old)
    except OSError as error:
        raise _refuse(target, error) from error
    finally:
        if not written:
            shutil.rmtree(waiting, ignore_errors=True)
        elif target.exists() or not old.exists():  # else the old report is at `old` and could not be brought back
            _remove_ours(waiting)
            _remove_ours(old)


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _swap(waiting: Path, target: Path, old: Path) -> None:
    """Put `waiting` in the target's place; what was there is then at `waiting` or `old`, or was an empty folder."""
    if not target.exists():
        os.replace(waiting, target)
        return
    if _exchange(waiting, target):
        return
    try:
        os.replace(target, old)
        os.replace(waiting, target)
    except BaseException:
        if old.exists() and not target.exists():
            os.replace(old, target)
        raise


def _exchange(one: Path, other: Path) -> bool:
    """Let two folders change places in one step. False where the system or the disk cannot."""
    if sys.platform != "linux":
        return False
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError):
        return False
    names = (os.fsencode(one), os.fsencode(other))
    return bool(rename(AT_FDCWD, names[0], AT_FDCWD, names[1], ctypes.c_uint(RENAME_EXCHANGE)) == 0)


def _read_list(folder: Path) -> dict[str, str]:
    """The hash of each file that a report wrote into a folder; empty where no report did."""
    try:
        content = json.loads((folder / MANIFEST).read_bytes())
        ours = content["format"] == FORMAT and not (folder / MANIFEST).is_symlink()
        return dict(content["files"].items()) if ours else {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _find_ours(folder: Path) -> set[str]:
    """The files in a folder that a report wrote and nobody changed, its list among them."""
    listed = _read_list(folder)
    ours = {name for name in _list_all(folder) if name in listed and _hash(folder / name) == listed[name]}
    return {*ours, MANIFEST} if listed else set()


def _find_foreign(folder: Path) -> list[str]:
    """What a report did not write."""
    parents = {parent.as_posix() for name in _read_list(folder) for parent in Path(name).parents}
    folders = {name for name in parents if (folder / name).is_dir() and not (folder / name).is_symlink()}
    ours = _find_ours(folder)
    return [name for name in _list_all(folder) if name not in ours | folders]


def _remove_ours(folder: Path) -> None:
    """Remove a report; what came in since it was looked at stays, with its folder."""
    with suppress(OSError):
        for name in sorted(_find_ours(folder), key=lambda name: name == MANIFEST):
            (folder / name).unlink()
        for name in sorted(_list_all(folder), reverse=True):
            (folder / name).rmdir()
        folder.rmdir()


def _list_all(folder: Path) -> list[str]:
    """Files, links and folders in a folder, by their path in it, sorted; links are not followed."""
    found = [Path(top) / name for top, folders, files in os.walk(folder, onerror=_raise) for name in folders + files]
    return sorted(path.relative_to(folder).as_posix() for path in found)


def _raise(error: OSError) -> None:
    raise error


def _hash(path: Path) -> str:
    """Of a plain file; empty for anything else."""
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() and not path.is_symlink() else ""


def _refuse(target: Path, error: Exception) -> StorageError:
    reason = getattr(error, "strerror", None) or error
    return StorageError(
        f"{target} cannot be written: {reason}. Free space or choose another --out; what was there before is untouched."
    )
