"""Where and in which type to run. Measured once on a machine, remembered, and said on the receipt."""

from __future__ import annotations

import json
import os
import platform
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import psutil
import torch
import torch.nn.functional as F

from fewer.errors import bad

__all__ = ["choose_device", "choose_dtype", "measure_peak"]

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def choose_device(device: str) -> torch.device:
    """`auto` is CUDA where there is one, then Apple's GPU, then the processor."""
    if device == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        chosen = torch.device(device)
        torch.zeros(1, device=chosen).item()
    except (RuntimeError, AssertionError, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise bad("device", device, f"one that PyTorch can use here ({reason})", "Use 'auto' or 'cpu'.") from None
    return chosen


def choose_dtype(dtype: str | torch.dtype, device: torch.device, cache: Path) -> tuple[torch.dtype, str]:
    """The type to run in, and why. `auto` is bfloat16 where this device computes it faster, float32 otherwise.

    The measurement takes a few hundred milliseconds, once; its result is kept in `cache`.
    """
    name = str(dtype).removeprefix("torch.")
    if name in _DTYPES:
        return _DTYPES[name], "asked for"
    if name != "auto":
        raise bad("dtype", name, "'auto', 'float32' or 'bfloat16'", "Use 'auto' for the faster one.")
    if device.type == "cuda":
        if torch.cuda.is_bf16_supported():
            return torch.bfloat16, "auto: this GPU computes bfloat16"
        return torch.float32, "auto: this GPU does not compute bfloat16"
    ratio = _recall(cache, device)
    if ratio is None:
        ratio = _time_products(torch.bfloat16, device) / _time_products(torch.float32, device)
        _remember(cache, device, ratio)
    chosen = torch.bfloat16 if ratio < 0.9 else torch.float32
    return chosen, f"auto: a bfloat16 product takes {ratio:.2f} of the time of a float32 one here"


def measure_peak(device: torch.device) -> tuple[int, str]:
    """The most memory held so far in bytes, and what that number is."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device), "GPU memory allocated by PyTorch since the process started"
    scope = "the process's peak resident memory since it started"
    try:  # not getrusage, whose peak on Linux begins with that of the parent process
        lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) * 1024, scope
    except (OSError, StopIteration):
        pass
    try:
        import resource
    except ImportError:  # Windows
        return int(getattr(psutil.Process().memory_info(), "peak_wset", 0)), scope
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024), scope


def _time_products(dtype: torch.dtype, device: torch.device) -> float:
    """Seconds of a few products of the size that prefills are made of; the best of several."""
    x, weight = torch.ones(512, 576, device=device, dtype=dtype), torch.ones(1536, 576, device=device, dtype=dtype)
    best = float("inf")
    for _ in range(12):
        begin = time.perf_counter()
        F.linear(x, weight).sum().item()
        best = min(best, time.perf_counter() - begin)
    return best


def _machine(device: torch.device) -> str:
    """What the measurement depends on."""
    name = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        name = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), name)
    except OSError:
        pass
    kernels, threads = torch.backends.cpu.get_cpu_capability(), torch.get_num_threads()
    return f"{device.type}, {name}, {kernels}, torch {torch.__version__}, {threads} threads"


def _recall(cache: Path, device: torch.device) -> float | None:
    try:
        ratio = json.loads((cache / "dtype.json").read_text(encoding="utf-8"))[_machine(device)]
        return float(ratio)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _remember(cache: Path, device: torch.device, ratio: float) -> None:
    """Keep the measurement; a cache that cannot be written only means measuring again."""
    path = cache / "dtype.json"
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        known = {}
    if not isinstance(known, dict):
        known = {}
    text = json.dumps(known | {_machine(device): round(ratio, 4)})
    with suppress(OSError):
        cache.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=cache, prefix="dtype-")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
            os.replace(name, path)
        except OSError:
            os.unlink(name)
