"""The head of a GGUF file: its metadata, and how long the file must be. Milliseconds; tensor data is not read.

The `gguf` package reads the same and every value of every array with it, which takes seconds for a vocabulary. Not
covered: GGUF version 1 and big-endian files (both are refused).
"""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

from fewer.errors import ModelError

__all__ = ["GgufHeader", "read_header"]

MAGIC = b"GGUF"
VERSIONS = (2, 3)
SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
STRING, ARRAY = 8, 9


@dataclass(frozen=True)
class GgufHeader:
    """What the file says about itself. An array in `metadata` is given as its length."""

    metadata: dict[str, Any]
    num_elements: int  # values in all tensors together
    num_bytes: int  # how long the file must be to hold its last tensor

    @property
    def architecture(self) -> str:
        """llama.cpp's name of the model family."""
        return str(self.metadata.get("general.architecture", ""))


def read_header(path: Path) -> GgufHeader:
    """Parse the head of the file; ModelError for a file that is not GGUF, is damaged, cut short, or one of several."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            start = file.read(len(MAGIC))
            if start != MAGIC:
                found = f"it begins with {start!r} and not with {MAGIC!r}" if start else "it is empty"
                raise ModelError(
                    f"{path} is not a GGUF file: {found}. "
                    "Pass a .gguf file, a directory with safetensors weights, or a hub name such as org/name."
                )
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                header = _parse(_Cursor(data, len(MAGIC)), path)
    except OSError as error:
        raise ModelError(f"{path} cannot be read ({error.strerror}). Check the path and its permissions.") from error
    except struct.error:
        raise ModelError(f"{path} is cut short or damaged in its header ({size} bytes). Download it again.") from None
    if header.num_bytes > size:
        raise ModelError(
            f"{path} is cut short: its header promises {header.num_bytes} bytes and it has {size}. Download it again."
        )
    parts = header.metadata.get("split.count", 1)
    if parts > 1:
        raise ModelError(
            f"{path} is one of {parts} parts of a model. Join them first: llama-gguf-split --merge FIRST_PART MERGED."
        )
    return header


def _parse(cursor: _Cursor, path: Path) -> GgufHeader:
    version, num_tensors, num_keys = cursor.take("<IQQ")
    if version not in VERSIONS:
        raise ModelError(f"{path} is GGUF version {version}; versions 2 and 3 (little-endian) can be read. Convert it.")
    metadata = {}
    for _ in range(num_keys):
        key = cursor.string()
        metadata[key] = cursor.value(cursor.take("<I")[0])
    num_elements, end = 0, 0
    for _ in range(num_tensors):
        name = cursor.string()
        shape = cursor.take(f"<{min(cursor.take('<I')[0], 8)}Q")
        kind, offset = cursor.take("<IQ")
        try:
            block, block_bytes = GGML_QUANT_SIZES[GGMLQuantizationType(kind)]
        except ValueError:
            raise ModelError(f"{path} stores {name} in an unknown format, number {kind}. Convert it to Q8_0.") from None
        num_elements += prod(shape)
        end = max(end, offset + prod(shape) // block * block_bytes)
    alignment = metadata.get("general.alignment", 32)
    return GgufHeader(metadata, num_elements, -(-cursor.position // alignment) * alignment + end)


class _Cursor:
    """Walks through mapped bytes; struct.error when they end."""

    def __init__(self, data: mmap.mmap, position: int) -> None:
        self.data = data
        self.position = position

    def take(self, layout: str) -> tuple[Any, ...]:
        values = struct.unpack_from(layout, self.data, self.position)
        self.position += struct.calcsize(layout)
        return values

    def string(self) -> str:
        (length,) = self.take("<Q")
        start = self.position
        self._skip(length)
        return self.data[start : self.position].decode("utf-8", errors="replace")

    def value(self, kind: int) -> Any:
        if kind in SCALARS:
            return self.take(SCALARS[kind])[0]
        if kind == STRING:
            return self.string()
        if kind != ARRAY:
            raise struct.error(f"unknown kind of value {kind}")
        element, length = self.take("<IQ")
        if element in SCALARS:
            self._skip(length * struct.calcsize(SCALARS[element]))
        elif element == STRING:
            for _ in range(length):
                self._skip(self.take("<Q")[0])
        else:
            raise struct.error(f"unknown kind of array {element}")
        return length

    def _skip(self, length: int) -> None:
        if length > len(self.data) - self.position:
            raise struct.error("beyond the end")
        self.position += length
