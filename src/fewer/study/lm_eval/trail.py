"""The receipts of an evaluation, one JSON object a line: which request of which task, and its receipt.

A line is `{"request": "loglikelihood", "task": ..., "doc_id": ..., "idx": ..., "receipt": {...}}`; `idx` is the
harness's own number within a document, such as the choice. A text read in windows has a line for each `window`, and
the samples of a repeated request a line for each `repeat`. Requests that the harness answers from a cache have none.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fewer.errors import StorageError, bad
from fewer.receipt import Receipt

__all__ = ["Trail"]


class Trail:
    """A file of receipts, open for appending. None is no file.

    Raises BadInput where there is a file of that name already, or no folder for it, and StorageError for the disk.
    """

    def __init__(self, path: str | None) -> None:
        self._path = None if path is None else Path(str(path)).expanduser()
        if self._path is None:
            return
        try:
            with open(self._path, "xb"):
                pass
        except FileExistsError:
            way_out = "Name another file: receipts of two evaluations are not mixed."
            raise bad("receipts", str(path), "a name not taken yet", way_out) from None
        except FileNotFoundError:
            raise bad("receipts", str(path), "in a folder that exists", "Make the folder first.") from None
        except OSError as error:
            raise self._refused(error) from error

    def add(self, names: Sequence[dict[str, Any]], receipts: Sequence[Receipt]) -> None:
        """Append a line for each request: which one it is, and its receipt. On return all are on the disk, or none."""
        if self._path is None:
            return
        text = "".join(
            json.dumps({**name, "receipt": receipt.model_dump(mode="json")}, allow_nan=False) + "\n"
            for name, receipt in zip(names, receipts, strict=True)
        )
        try:
            with open(self._path, "ab") as file:
                before = file.tell()
                try:
                    file.write(text.encode())
                    file.flush()
                    os.fsync(file.fileno())
                except OSError:
                    os.truncate(self._path, before)
                    raise
        except OSError as error:
            raise self._refused(error) from error

    def _refused(self, error: OSError) -> StorageError:
        return StorageError(
            f"{self._path} could not be written: {error.strerror or error}. Free some space or name another place."
        )
