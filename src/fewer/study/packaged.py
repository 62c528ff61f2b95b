"""The studies that come with the package, by method and part. Each part is one YAML file in the method's folder."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

__all__ = ["STUDIES", "find_part"]

STUDIES: dict[str, dict[str, str]] = {
    "lazyllm": {
        "speed": "seconds, each arm alone; for a quiet machine",
        "needles": "100 items of each of four needle tasks, against the paper's score and the simple ways",
        "switches": "choosing at every step and bringing back, apart, on prompts that ask for several facts",
        "matched": "the simple ways at the token-layers of mild and balanced: random, static, ends, BM25, shorter text",
        "grid": "share kept x depth of the one stop, by the profile's score and the paper's",
    },
    "entroprefill": {
        "needles": "many documents of which some hold what is asked: defaults, the paper's rule, orderings, audits",
        "documents": "questions over documents with labelled support, and the same tokens left out in other ways",
        "speed": "seconds, each arm alone; for a quiet machine",
    },
    "sessions": {
        "pilot": "which tasks and budgets have failures of both kinds, and which summary of the radii tells them apart",
        "needles": "every policy at three budgets, the question known or not, and what the signals are good for",
    },
}


def find_part(study: str, name: str) -> Path:
    """The file of one part of a study."""
    return Path(str(files("fewer.study").joinpath(study, f"{name}.yaml")))
