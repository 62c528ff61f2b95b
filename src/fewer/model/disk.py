"""Writing large things to disk: ask for the room first, and say what is missing when there is none."""

from __future__ import annotations

import errno
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError

from fewer.errors import StorageError

__all__ = ["REFUSALS", "check_space", "storage_error", "storage_errors"]

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
REFUSALS = (*FULL, errno.EACCES, errno.EPERM, errno.EROFS)


def check_space(directory: Path, what: str, needed: int, way_out: str) -> None:
    """StorageError unless `needed` bytes are free where `directory` is or would be."""
    if _free_bytes(directory) < needed:
        raise StorageError(_full(directory, what, needed, way_out))


@contextmanager
def storage_errors(directory: Path, what: str, needed: int, way_out: str) -> Iterator[None]:
    """Turn what the disk answers inside the block into StorageError; the caller removes what was written."""
    try:
        yield
    except StorageError:
        raise
    except (OSError, SafetensorError) as error:
        raise storage_error(error, directory, what, needed, way_out) from error


def storage_error(error: Exception, directory: Path, what: str, needed: int, way_out: str) -> StorageError:
    """The refused write as one sentence with the bytes needed and free, or the reason, and the way out."""
    named = re.search(r"os error (\d+)", str(error))  # how safetensors passes it on
    if (int(named[1]) if named else getattr(error, "errno", None)) in FULL:
        return StorageError(_full(directory, what, needed, way_out))
    reason = getattr(error, "strerror", None) or str(error)
    return StorageError(f"{what} cannot be written to {directory} ({reason}). {way_out}")


def _free_bytes(directory: Path) -> int:
    existing = next(path for path in (directory, *directory.absolute().parents) if path.exists())
    return shutil.disk_usage(existing).free


def _full(directory: Path, what: str, needed: int, way_out: str) -> str:
    return f"{what} needs {needed} bytes in {directory} and {_free_bytes(directory)} are free. {way_out}"
