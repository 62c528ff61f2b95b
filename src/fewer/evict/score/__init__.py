"""How much a row is wanted: one score a file, each a pure function of a `fewer.types.CacheView`."""

from fewer.evict.score.h2o import H2O
from fewer.evict.score.keynorm import KeyNorm
from fewer.evict.score.kvzip import KVzip
from fewer.evict.score.names import SCORES, check_score_name, make_score
from fewer.evict.score.question import QuestionAware
from fewer.evict.score.snapkv import SnapKV
from fewer.evict.score.spread import ValueSpread
from fewer.evict.score.streaming import StreamingLLM
from fewer.evict.score.tova import TOVA
from fewer.evict.score.uniform import Uniform

__all__ = [
    "H2O",
    "SCORES",
    "TOVA",
    "KVzip",
    "KeyNorm",
    "QuestionAware",
    "SnapKV",
    "StreamingLLM",
    "Uniform",
    "ValueSpread",
    "check_score_name",
    "make_score",
]
