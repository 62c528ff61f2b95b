"""`fewer doctor`: what this machine offers, what is supported and what is not, and whether one token comes out."""

from __future__ import annotations

import json
import os
import platform
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

import fewer
from fewer.cli.program import Debug
from fewer.cli.terminal import Terminal, join_lines, print_result

if TYPE_CHECKING:
    from fewer.model.store import ModelEntry

__all__ = ["doctor"]

REFUSED = ("t5", "deepseek_v3", "mamba2", "qwen3_next", "gpt_oss", "mixtral", "gemma2")
"""Well-known families of each kind that is refused; the reasons are the adapter's own."""


def doctor(
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object instead of a table.", metavar="")
    ] = False,
    debug: Debug = False,
) -> None:
    """Say what runs here, on what, and why not. Exits with 1 where something is wrong."""
    with Terminal().busy("Examining"):
        found = _examine()
    print_result(_to_table(found)) if not as_json else print(json.dumps(found))
    if found["problems"]:
        raise typer.Exit(1)


def _examine() -> dict[str, Any]:
    """Every finding; nothing here raises over what it finds."""
    import torch
    import transformers

    from fewer.engine.device import choose_device, choose_dtype
    from fewer.model.adapter import SUPPORTED
    from fewer.model.store import cache_directory, list_models

    device = choose_device("auto")
    cache = _examine_cache(cache_directory())
    dtype, reason = choose_dtype("auto", device, cache_directory())
    embedded = list_models()[0]
    check = _run_one_token(embedded)
    found: dict[str, Any] = {
        "versions": {
            "fewer": fewer.__version__,
            "python": platform.python_version(),
            "torch": torch.__version__,
            "transformers": transformers.__version__,
        },
        "device": str(device),
        "hardware": torch.cuda.get_device_name(device) if device.type == "cuda" else _name_processor(),
        "threads": torch.get_num_threads(),
        "dtype": {"chosen": str(dtype).removeprefix("torch."), "reason": reason},
        "kernels": {
            "instructions": torch.backends.cpu.get_cpu_capability(),
            "onednn": torch.backends.mkldnn.is_available(),  # type: ignore[no-untyped-call]
            "mkl": torch.backends.mkl.is_available(),  # type: ignore[no-untyped-call]
            "cuda": torch.version.cuda if torch.cuda.is_available() else None,
        },
        "cache": cache,
        "embedded_model": {
            "name": embedded.name,
            "ready": embedded.ready,
            "path": str(embedded.path) if embedded.path else None,
            "command": embedded.command or None,
        },
        "supported": list(SUPPORTED),
        "refused": _list_refused(),
        "self_check": check,
    }
    found["problems"] = _list_problems(found)
    return found


def _examine_cache(cache: Path) -> dict[str, Any]:
    """Where conversions are kept, whether they can be, and the room there."""
    existing = next(path for path in (cache, *cache.absolute().parents) if path.exists())
    return {
        "path": str(cache),
        "exists": cache.exists(),
        "writable": existing.is_dir() and os.access(existing, os.W_OK),
        "free_bytes": shutil.disk_usage(existing).free,
    }


def _name_processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())


def _list_refused() -> dict[str, str]:
    """Family to reason, as the adapter would give it for the family's usual configuration."""
    from transformers import AutoConfig

    from fewer.model.adapter import refusal

    reasons = {kind: refusal(AutoConfig.for_model(kind)) or "" for kind in REFUSED}
    return {kind: reason.partition(": ")[2].partition(". Supported")[0] for kind, reason in reasons.items() if reason}


def _run_one_token(embedded: ModelEntry) -> dict[str, Any]:
    """One token of the embedded model, if that takes no installation or conversion first."""
    if not embedded.ready or embedded.path is None or not embedded.path.is_dir():
        why = "the embedded model is converted at its first use" if embedded.ready else "the embedded model is missing"
        return {"ran": False, "ok": None, "seconds": None, "detail": why}
    from fewer.engine import Engine

    begin = time.perf_counter()
    try:
        answer = Engine.load(embedded.path).ask("Say yes.", max_tokens=1)
    except Exception as error:  # whatever is wrong is what this command is there to report
        return {"ran": True, "ok": False, "seconds": None, "detail": join_lines(f"{type(error).__name__}: {error}")}
    seconds = round(time.perf_counter() - begin, 3)
    return {"ran": True, "ok": True, "seconds": seconds, "detail": f"one token: {answer.text!r}"}


def _list_problems(found: dict[str, Any]) -> list[str]:
    problems = []
    if not found["cache"]["writable"]:
        problems.append(f"{found['cache']['path']} cannot be written. Set FEWER_CACHE to a folder that can.")
    if not found["embedded_model"]["ready"]:
        problems.append(f"The embedded model is missing. Run `{found['embedded_model']['command']}`.")
    if found["self_check"]["ok"] is False:
        problems.append(f"The self-check failed. {found['self_check']['detail']}")
    return problems


def _group(refused: dict[str, str]) -> dict[str, str]:
    """Reason to the families it holds for."""
    return {reason: ", ".join(kind for kind in refused if refused[kind] == reason) for reason in refused.values()}


def _to_table(found: dict[str, Any]) -> Table:
    """The findings, one line each."""
    from fewer.receipt.units import format_bytes, format_count, format_seconds

    kernels, cache, embedded, check = (found[key] for key in ("kernels", "cache", "embedded_model", "self_check"))
    parts = [f"instructions {kernels['instructions']}"]
    parts += [f"{name} {'yes' if kernels[name] else 'no'}" for name in ("onednn", "mkl")]
    parts += [f"CUDA {kernels['cuda'] or 'no'}"]
    writable = "can be written" if cache["writable"] else "cannot be written"
    lines = [
        *((name, version) for name, version in found["versions"].items()),
        ("device", f"{found['device']} ({found['hardware']}), {format_count(found['threads'], 'thread')}"),
        ("dtype", f"{found['dtype']['chosen']} ({found['dtype']['reason']})"),
        ("kernels", ", ".join(parts)),
        ("cache", f"{cache['path']} ({writable}, {format_bytes(cache['free_bytes'])} free)"),
        (
            "embedded model",
            f"{embedded['name']}: " + (f"ready in {embedded['path']}" if embedded["ready"] else "missing"),
        ),
        ("self-check", check["detail"] + (f" in {format_seconds(check['seconds'])}" if check["seconds"] else "")),
        ("supported", ", ".join(found["supported"])),
        *(("refused", f"{kinds}: {reason}") for reason, kinds in _group(found["refused"]).items()),
        *(("problem", problem) for problem in found["problems"]),
    ]
    table = Table.grid(padding=(0, 1))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for label, value in lines:
        table.add_row(label, Text(value))
    return table
