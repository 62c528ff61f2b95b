"""fewer: run decoder-only language models on fewer tokens, with a receipt for the ones left out.

Importing this loads nothing heavy. A public name brings in the module it lives in when it is first used; the
attention function is registered when that is the model's.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from fewer.errors import (
    BadInput,
    DocumentError,
    FewerError,
    ModelError,
    NonFiniteError,
    PromptTooLong,
    StorageError,
)

if TYPE_CHECKING:
    from fewer.engine import Answer, Diagnosis, Engine, Outcome, Request, Score, Stream, TokenLogprob
    from fewer.prune import EndsPrune, EntroPrefill, LazyLLM, RandomPrune, StaticPrune
    from fewer.receipt import Receipt
    from fewer.types import (
        Chunk,
        Decision,
        Document,
        Keep,
        Look,
        Looked,
        ModelFacts,
        Observation,
        Plan,
        Planner,
        Prompt,
        Sampling,
        StepPlanner,
        Wording,
    )

__version__ = "0.1.0"

__all__ = [
    "Answer",
    "BadInput",
    "Chunk",
    "Decision",
    "Diagnosis",
    "Document",
    "DocumentError",
    "EndsPrune",
    "Engine",
    "EntroPrefill",
    "FewerError",
    "Keep",
    "LazyLLM",
    "Look",
    "Looked",
    "ModelError",
    "ModelFacts",
    "NonFiniteError",
    "Observation",
    "Outcome",
    "Plan",
    "Planner",
    "Prompt",
    "PromptTooLong",
    "RandomPrune",
    "Receipt",
    "Request",
    "Sampling",
    "Score",
    "StaticPrune",
    "StepPlanner",
    "StorageError",
    "Stream",
    "TokenLogprob",
    "Wording",
    "__version__",
]

_HOMES = {
    "fewer.engine": ("Answer", "Diagnosis", "Engine", "Outcome", "Request", "Score", "Stream", "TokenLogprob"),
    "fewer.prune": ("EndsPrune", "EntroPrefill", "LazyLLM", "RandomPrune", "StaticPrune"),
    "fewer.receipt": ("Receipt",),
    "fewer.types": (
        "Chunk",
        "Decision",
        "Document",
        "Keep",
        "Look",
        "Looked",
        "ModelFacts",
        "Observation",
        "Plan",
        "Planner",
        "Prompt",
        "Sampling",
        "StepPlanner",
        "Wording",
    ),
}


def __getattr__(name: str) -> object:
    """A public name on its first use."""
    for home, names in _HOMES.items():
        if name in names:
            value: object = getattr(import_module(home), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
