"""Weights that are mapped from a file: let go of their resident pages once they have been copied.

Joining or packing a weight reads it, and its pages then count as this process's memory for as long as anything of the
file is mapped. The content stays reachable; a later read maps the pages again. Only pages of safetensors files that
nobody wrote to are touched. Not covered: systems other than Linux, where the pages simply stay until needed elsewhere.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
from bisect import bisect_right
from collections.abc import Iterable

from torch import Tensor

__all__ = ["forget_pages"]

Range = tuple[int, int]


def forget_pages(tensors: Iterable[Tensor]) -> int:
    """Give back the whole pages that lie inside these tensors and a mapped safetensors file; the bytes given back."""
    if sys.platform != "linux":
        return 0
    mapped, given = _mapped_files(), 0
    for tensor in tensors:
        start, stop = _whole_pages(tensor)
        at = bisect_right(mapped, (start, sys.maxsize)) - 1
        if at >= 0 and start < stop <= mapped[at][1]:
            done = ctypes.CDLL(None).madvise(ctypes.c_void_p(start), ctypes.c_size_t(stop - start), mmap.MADV_DONTNEED)
            given += stop - start if done == 0 else 0
    return given


def _whole_pages(tensor: Tensor) -> Range:
    """The addresses of the pages that hold nothing but this contiguous tensor."""
    size, start = mmap.PAGESIZE, tensor.data_ptr()
    return -(-start // size) * size, (start + tensor.nbytes) // size * size


def _mapped_files() -> list[Range]:
    """The address ranges of mapped safetensors files, ascending."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
            lines = [line.split() for line in file if ".safetensors" in line]
    except OSError:
        return []
    ranges = ([int(address, 16) for address in fields[0].split("-")] for fields in lines)
    return sorted((start, stop) for start, stop in ranges)
