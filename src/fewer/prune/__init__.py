"""Which prompt tokens go deeper: planners, pure functions of an observation."""

from fewer.prune.baselines import EndsPrune, RandomPrune, StaticPrune
from fewer.prune.entroprefill import EntroPrefill
from fewer.prune.lazyllm import LazyLLM
from fewer.prune.lexical import LexicalPrune
from fewer.prune.names import PLANNERS, make_planner, settings_of

__all__ = [
    "PLANNERS",
    "EndsPrune",
    "EntroPrefill",
    "LazyLLM",
    "LexicalPrune",
    "RandomPrune",
    "StaticPrune",
    "make_planner",
    "settings_of",
]
