"""Files a command will write when it is done, checked before it begins."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from fewer.errors import BadInput, bad

__all__ = ["check_targets"]


def check_targets(targets: dict[str, Path | None], sources: Sequence[str] = ()) -> None:
    """BadInput, with the option's name, unless each can be written, no two are one file, and none is a source.

    Not covered: what changes on the disk until then. The write itself still refuses, and leaves nothing half-written.
    """
    seen: dict[Path, str] = {}
    for option, path in targets.items():
        if path is None:
            continue
        target = _check(option, path)
        if target in seen:
            raise BadInput(f"{seen[target]} and {option} both name {str(path)!r}. Give them two files.")
        if any(source != "-" and Path(source).resolve() == target for source in sources):
            raise BadInput(f"{option} names {str(path)!r}, which is one of the documents. Give it another file.")
        seen[target] = option


def _check(option: str, path: Path) -> Path:
    try:
        target = path.resolve()
        taken = target.exists() and not target.is_file()
        housed = target.parent.is_dir()
    except (OSError, ValueError, RuntimeError) as error:  # a null byte, a name too long, a loop of links
        reason = getattr(error, "strerror", None) or error
        raise bad(option, str(path), f"a file's name ({reason})", "Name another file.") from None
    if taken:
        raise bad(option, str(path), "a file, or a name not taken yet", "Name a file, not a folder or a device.")
    if not housed:
        raise bad(option, str(path), "in a folder that exists", f"Make the folder first: {target.parent}")
    if not os.access(target.parent, os.W_OK):
        raise bad(option, str(path), "in a folder that can be written", "Name a file in another folder.")
    return target
