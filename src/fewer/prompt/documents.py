"""Where documents come from: files and folders, standard input, and Python values.

Every document that leaves here has a text that is not blank and can be written as UTF-8. Not covered: web
addresses, archives, and linked folders inside a folder (they are not followed, so a loop cannot trap the reader).
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from fewer.errors import DocumentError, bad
from fewer.prompt.formats import SUFFIXES, parse_file
from fewer.types import Document

__all__ = ["Reading", "as_documents", "read_paths"]


@dataclass(frozen=True, slots=True)
class Reading:
    """What was read, in order, and what was left out of folders: files of unknown suffix, and linked folders."""

    documents: tuple[Document, ...]
    skipped: tuple[Path, ...] = ()


def read_paths(paths: Sequence[str | Path], stdin: TextIO | None = None) -> Reading:
    """Read files, folders and, for `-`, standard input (plain text; `stdin` replaces `sys.stdin`).

    A folder is read through all its subfolders, sorted by path. Files and folders whose name starts with a dot are
    passed over without a word; linked folders, and files with a suffix that no reader knows, are in `skipped`. A file
    named directly is read whatever its suffix: an unknown one as plain text. Raises DocumentError, with the path and
    the way out, at the first file that is missing, unreadable, empty, binary or broken, and for a folder without text.
    """
    if isinstance(paths, str | Path):
        raise bad("paths", str(paths), "a list of paths", "Put it into a list.")
    documents: list[Document] = []
    skipped: list[Path] = []
    for path in paths:
        if str(path) == "-":
            documents += parse_file("standard input", ".txt", _read_stdin(stdin or sys.stdin))
        elif os.path.isdir(path):
            found = _list_folder(Path(path))
            known = {file for file in found if file.suffix.lower() in SUFFIXES and not file.is_dir()}
            skipped += sorted(file for file in found if file not in known)
            if not known:
                raise DocumentError(
                    f"The folder {_show(path)} holds no file to read ({len(found)} of another kind). Name a folder "
                    f"with {', '.join(SUFFIXES)} files, or name the files themselves to read them as text."
                )
            for file in sorted(known):
                documents += parse_file(_show(file), file.suffix, _read_file(file))
        else:
            documents += parse_file(_show(path), Path(path).suffix, _read_file(Path(path)))
    return Reading(as_documents(documents), tuple(skipped))


def as_documents(items: Sequence[str | Mapping[str, str] | Document]) -> tuple[Document, ...]:
    """Documents from texts, `{"text": ..., "title": ...}` (the title may be left out) and documents.

    Texts are kept letter for letter. Raises BadInput for another type or an unknown key, and DocumentError, naming
    the place in the list and the title, for a blank text or one that is not valid Unicode.
    """
    if isinstance(items, str | bytes | Mapping | Document) or not isinstance(items, Sequence):
        raise bad("documents", type(items).__name__, "a list", "Put the text, or the document, into a list.")
    return tuple(_as_document(index, item) for index, item in enumerate(items))


def _as_document(index: int, item: str | Mapping[str, str] | Document) -> Document:
    name, way_out = f"documents[{index}]", 'Pass "text", {"text": ...} or {"title": ..., "text": ...}.'
    if isinstance(item, str):
        item = Document(item)
    elif isinstance(item, Mapping):
        if "text" not in item or not item.keys() <= {"text", "title"}:
            raise bad(name, sorted(map(str, item)), "a mapping with the keys text and, if wanted, title", way_out)
        item = Document(item["text"], item.get("title", ""))
    elif not isinstance(item, Document):
        raise bad(name, type(item).__name__, "a text, a mapping or a Document", way_out)
    for key, value in (("text", item.text), ("title", item.title)):
        if not isinstance(value, str):
            raise bad(f"{name}.{key}", type(value).__name__, "a string", way_out)
    label = f"Document {index + 1}" + "".join(f" ({part})" for part in (item.title, item.source) if part)
    if not item.text.strip():
        raise DocumentError(f"{label} is empty. Leave it out, or put text into it.")
    try:
        (item.text + item.title).encode()
    except UnicodeEncodeError as error:
        raise DocumentError(
            f"{label.encode(errors='replace').decode()} is not valid Unicode: character {error.start} is half of a "
            "surrogate pair. Decode the text again from its source, with errors='replace' if need be."
        ) from None
    return item


def _list_folder(folder: Path) -> list[Path]:
    """The visible files below a folder and the linked folders, which are not followed."""

    def refuse(error: OSError) -> None:
        raise DocumentError(
            f"The folder {_show(error.filename)} cannot be read ({error.strerror}). Change its permissions, or leave "
            "it out."
        )

    files: list[Path] = []
    for parent, folders, names in os.walk(folder, onerror=refuse):
        folders[:] = [name for name in folders if not name.startswith(".")]
        links = [name for name in folders if os.path.islink(os.path.join(parent, name))]
        files += [Path(parent, name) for name in [*names, *links] if not name.startswith(".")]
    return files


def _read_file(path: Path) -> bytes:
    """The bytes of a file or a pipe."""
    name = _show(path)
    try:
        mode = path.stat().st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode)):
            raise DocumentError(f"{name} is neither a file nor a folder. Use - to read from standard input.")
        return path.read_bytes()
    except FileNotFoundError:
        raise DocumentError(f"{name} does not exist. Check the path; relative paths start at {Path.cwd()}.") from None
    except PermissionError:
        raise DocumentError(f"{name} cannot be read: permission denied. Change its permissions (chmod +r).") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise DocumentError(f"{name} cannot be read: {reason}. Check the path and the disk.") from None


def _read_stdin(stdin: TextIO) -> bytes:
    """All of standard input; its bytes where it has some, so that every encoding is checked in one place."""
    buffer = getattr(stdin, "buffer", None)
    return buffer.read() if buffer is not None else stdin.read().encode(errors="replace")


def _show(path: str | Path) -> str:
    """The path as it can be printed, whatever bytes its name holds."""
    return os.fsencode(path).decode(errors="replace")
