"""The study of LazyLLM that comes with the package: needles, the four switches, share kept x depth, and seconds."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

__all__ = ["PARTS", "find_part"]

PARTS = {
    "needles": "100 items of each of four needle tasks, against the paper's score and the simple ways",
    "switches": "choosing at every step and bringing back, apart, on prompts that ask for several facts",
    "grid": "share kept x depth of the one stop, by the profile's score and the paper's",
    "speed": "seconds, each arm alone; for a quiet machine",
}


def find_part(name: str) -> Path:
    """The study's file."""
    return Path(str(files(__package__).joinpath(f"{name}.yaml")))
