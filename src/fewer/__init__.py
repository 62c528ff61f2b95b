"""fewer: run decoder-only language models on fewer tokens, with a receipt for the ones left out."""

__version__ = "0.1.0"

from fewer.engine import Answer, Engine, Request, Stream, TokenLogprob
from fewer.errors import (
    BadInput,
    DocumentError,
    FewerError,
    ModelError,
    NonFiniteError,
    PromptTooLong,
    StorageError,
)
from fewer.prune import EndsPrune, RandomPrune, StaticPrune
from fewer.receipt import Receipt
from fewer.types import Chunk, Document, Keep, Observation, Plan, Planner, Prompt, Sampling

__all__ = [
    "Answer",
    "BadInput",
    "Chunk",
    "Document",
    "DocumentError",
    "EndsPrune",
    "Engine",
    "FewerError",
    "Keep",
    "ModelError",
    "NonFiniteError",
    "Observation",
    "Plan",
    "Planner",
    "Prompt",
    "PromptTooLong",
    "RandomPrune",
    "Receipt",
    "Request",
    "Sampling",
    "StaticPrune",
    "StorageError",
    "Stream",
    "TokenLogprob",
    "__version__",
]
