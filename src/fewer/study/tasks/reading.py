"""Files of JSON rows, one a line, plain or gzipped; whatever is wrong is said with its file and line.

Lines end at a line feed alone, so that other separators may stand in texts. Lines without text are passed over.
Not covered: a JSON file that is one list (`read_list` reads those whole), other compressions, files too large to hold.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from fewer.errors import BadInput, DocumentError, bad

__all__ = ["Line", "name_group", "read_first", "read_lines", "read_list"]

_WAY_OUT = "Correct the row, or take it out."


@dataclass(frozen=True, slots=True)
class Line:
    """A row and where it stands, for error messages."""

    path: Path
    number: int
    row: Mapping[str, Any]
    unit: str = "line"

    @property
    def place(self) -> str:
        """File and line, as messages name them."""
        return f"{self.path}, {self.unit} {self.number}"

    def fault(self, name: str, value: object, legal: str) -> BadInput:
        """The error for a field with an illegal value, ready to raise."""
        return bad(f"{self.place}: {name}", value, legal, _WAY_OUT)

    def get(self, name: str) -> Any:
        """A field, whatever it is. Raises BadInput where the row has none of that name."""
        if name not in self.row:
            has = ", ".join(self.row) or "nothing"
            raise BadInput(f"{self.place}: {name} is missing; the row has {has}. {_WAY_OUT}")
        return self.row[name]

    def text(self, name: str, blank: bool = False) -> str:
        """A field's text; not blank unless `blank`. Raises BadInput."""
        return self.check_text(name, self.get(name), blank)

    def texts(self, name: str) -> tuple[str, ...]:
        """A field's list of at least one text, none of them blank. Raises BadInput."""
        value = self.get(name)
        if not isinstance(value, list) or not value:
            raise self.fault(name, value, "a list of at least one text")
        return tuple(self.check_text(f"{name}[{number}]", text) for number, text in enumerate(value))

    def check_text(self, name: str, value: object, blank: bool = False) -> str:
        """`value`, if it is a text of valid Unicode (a lone surrogate is not). Raises BadInput."""
        if not isinstance(value, str):
            raise self.fault(name, value, "a text")
        if not blank and not value.strip():
            raise self.fault(name, value, "a text that is not blank")
        try:
            value.encode()
        except UnicodeEncodeError:
            raise self.fault(name, value, "valid Unicode, and it holds half of a surrogate pair") from None
        return value


def name_group(text: str, kind: str = "context") -> str:
    """A name for what several rows share, from its text."""
    return f"{kind} {hashlib.sha256(text.encode()).hexdigest()[:16]}"


def read_lines(path: Path) -> Iterator[Line]:
    """The rows of a .jsonl or .jsonl.gz file, one by one, each a JSON object.

    Raises DocumentError where the file cannot be read (half a gzip file among them) and BadInput where a line is not a
    JSON object in UTF-8; both name file and line.
    """
    number = 0
    try:
        with gzip.open(path, "rb") if path.name.endswith(".gz") else path.open("rb") as file:
            for raw in file:
                number += 1
                if raw.strip():
                    yield Line(path, number, _parse(path, number, raw))
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DocumentError(f"{path} is a broken gzip file after line {number} ({error}). Fetch it again.") from None
    except OSError as error:
        raise DocumentError(f"{path} cannot be read after line {number}: {error.strerror or error}.") from None


def read_first(path: Path) -> Line | None:
    """The first row, or None where there is none. Raises as `read_lines`."""
    return next(iter(read_lines(path)), None)


def read_list(path: Path) -> list[Line]:
    """The rows of a .json file that is one list of objects; `number` is then the place in the list, from 1.

    Raises DocumentError where it cannot be read and BadInput where it is no such list.
    """
    try:
        content = json.loads(path.read_bytes().decode(), parse_constant=_refuse_constant)
    except OSError as error:
        raise DocumentError(f"{path} cannot be read: {error.strerror or error}.") from None
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{path} is not JSON in UTF-8 ({error}). Fetch it again.") from None
    if not isinstance(content, list) or not all(isinstance(row, dict) for row in content):
        raise BadInput(f"{path} is not one list of JSON objects. Write one row a line into a .jsonl file instead.")
    return [Line(path, number, row, "row") for number, row in enumerate(content, 1)]


def _parse(path: Path, number: int, raw: bytes) -> Mapping[str, Any]:
    try:
        row = json.loads(raw.decode(), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:  # a wrong encoding is a ValueError too
        raise BadInput(f"{path}, line {number} is not JSON in UTF-8 ({error}). {_WAY_OUT}") from None
    if not isinstance(row, dict):
        raise bad(f"{path}, line {number}", row, "a JSON object", _WAY_OUT)
    return row


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")
