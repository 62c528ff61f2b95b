"""Gates as JSON: objects that name their format and its version, and read nothing else."""

from __future__ import annotations

import json
from os import PathLike
from pathlib import Path
from typing import Any

from fewer.errors import bad

__all__ = ["read_plain", "read_text"]


def read_text(path: str | PathLike[str]) -> str:
    """The text of a file. Raises BadInput where it cannot be read."""
    try:
        return Path(path).read_text("utf-8")
    except (OSError, ValueError, TypeError) as error:  # ValueErrors: a null byte in the name, text that is not UTF-8
        reason = getattr(error, "strerror", None) or error
        raise bad("path", str(path), f"a readable file ({reason})", "Name the file that save() wrote.") from None


def read_plain(text: str, form: str, version: int) -> dict[str, Any]:
    """The fields of a JSON object of this format and version, without these two. Raises BadInput."""
    try:
        plain = json.loads(text)
    except (TypeError, ValueError, RecursionError) as error:
        raise bad("gate", text, f"JSON ({error})", "Pass what to_json wrote.") from None
    if not isinstance(plain, dict) or plain.pop("format", None) != form:
        raise bad("gate", text, f"the JSON of a {form}", "Pass what to_json wrote.")
    if (found := plain.pop("version", None)) != version:
        raise bad("version", found, f"{version} for this reader", "Read it with the version of fewer that wrote it.")
    return plain
