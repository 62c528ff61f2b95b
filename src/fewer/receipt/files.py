"""Writing a file whole or not at all."""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path

from fewer.errors import StorageError, bad


def write_file(path: str | os.PathLike[str], text: str) -> None:
    """Write `text` in UTF-8 under a temporary name beside `path`, then put it in place.

    A link is followed and its target replaced. Raises BadInput where the path cannot name a file, and StorageError
    where the system refuses the write; then an older file at `path` is untouched and nothing else is left behind.
    """
    data = text.encode("utf-8")
    if not isinstance(path, (str, os.PathLike)):
        raise bad("path", path, "a file's name", "Name a file.")
    try:
        target = Path(path).resolve()
        taken = target.exists() and not target.is_file()
        housed = target.parent.is_dir()
    except (OSError, ValueError, RuntimeError) as error:  # a null byte, a name too long, a loop of links
        raise bad("path", os.fspath(path), f"a file's name ({error})", "Name another file.") from None
    if not os.fspath(path) or taken:
        raise bad("path", os.fspath(path), "a file, or a name not taken yet", "Name a file, not a folder or a device.")
    if not housed:
        raise bad("path", os.fspath(path), "in a folder that exists", f"Make the folder first: {target.parent}")
    temporary = target.parent / f".fewer-{secrets.token_hex(8)}.tmp"
    try:
        with open(temporary, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            os.chmod(temporary, stat.S_IMODE(target.stat().st_mode))
        os.replace(temporary, target)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        reason = error.strerror or str(error)
        raise StorageError(
            f"{target} could not be written: {reason}. Free some space or name another place."
        ) from error
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
