"""The nouns that every part of the house speaks.

Shapes are in trailing comments. `T` is the prompt length, `n` the number of keys a layer holds, `d` the
head dimension. Layers are numbered 1..L as the papers do: "after layer l" means on the output of block l,
and 0 is the embedding. Nothing here computes with a model.
"""

from fewer.types.eviction import (
    FIRST_STEPS,
    LARGEST_RADIUS,
    CacheView,
    Design,
    KnownDesign,
    Meter,
    Needs,
    Observers,
    RowScore,
    Sample,
    Selection,
    Witness,
)
from fewer.types.facts import ModelFacts
from fewer.types.planning import Decision, Look, Looked, Observation, Plan, Planner, StepPlanner
from fewer.types.prompt import Chunk, Document, Prompt, Wording
from fewer.types.sampling import Keep, Sampling

__all__ = [
    "FIRST_STEPS",
    "LARGEST_RADIUS",
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
    "Observers",
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
]
