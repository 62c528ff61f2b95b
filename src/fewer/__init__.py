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
    from fewer.decide import Gate
    from fewer.engine import Answer, Diagnosis, Engine, Outcome, Request, Score, Stream, TokenLogprob
    from fewer.evict import Budget, Eviction, Method, Policy
    from fewer.prune import EndsPrune, EntroPrefill, LazyLLM, LexicalPrune, RandomPrune, StaticPrune
    from fewer.receipt import Receipt
    from fewer.session import Session
    from fewer.types import (
        CacheView,
        Chunk,
        Decision,
        Design,
        Document,
        Keep,
        KnownDesign,
        Look,
        Looked,
        Meter,
        ModelFacts,
        Needs,
        Observation,
        Plan,
        Planner,
        Prompt,
        RowScore,
        Sample,
        Sampling,
        Selection,
        StepPlanner,
        Witness,
        Wording,
    )

__version__ = "0.1.0"

__all__ = [
    "Answer",
    "BadInput",
    "Budget",
    "CacheView",
    "Chunk",
    "Decision",
    "Design",
    "Diagnosis",
    "Document",
    "DocumentError",
    "EndsPrune",
    "Engine",
    "EntroPrefill",
    "Eviction",
    "FewerError",
    "Gate",
    "Keep",
    "KnownDesign",
    "LazyLLM",
    "LexicalPrune",
    "Look",
    "Looked",
    "Meter",
    "Method",
    "ModelError",
    "ModelFacts",
    "Needs",
    "NonFiniteError",
    "Observation",
    "Outcome",
    "Plan",
    "Planner",
    "Policy",
    "Prompt",
    "PromptTooLong",
    "RandomPrune",
    "Receipt",
    "Request",
    "RowScore",
    "Sample",
    "Sampling",
    "Score",
    "Selection",
    "Session",
    "StaticPrune",
    "StepPlanner",
    "StorageError",
    "Stream",
    "TokenLogprob",
    "Witness",
    "Wording",
    "__version__",
]

_HOMES = {
    "fewer.decide": ("Gate",),
    "fewer.engine": ("Answer", "Diagnosis", "Engine", "Outcome", "Request", "Score", "Stream", "TokenLogprob"),
    "fewer.evict": ("Budget", "Eviction", "Method", "Policy"),
    "fewer.prune": ("EndsPrune", "EntroPrefill", "LazyLLM", "LexicalPrune", "RandomPrune", "StaticPrune"),
    "fewer.receipt": ("Receipt",),
    "fewer.session": ("Session",),
    "fewer.types": (
        "CacheView",
        "Chunk",
        "Decision",
        "Design",
        "Document",
        "Keep",
        "KnownDesign",
        "Look",
        "Looked",
        "Meter",
        "ModelFacts",
        "Needs",
        "Observation",
        "Plan",
        "Planner",
        "Prompt",
        "RowScore",
        "Sample",
        "Sampling",
        "Selection",
        "StepPlanner",
        "Witness",
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
