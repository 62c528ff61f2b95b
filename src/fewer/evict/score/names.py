"""Scores by their names on the command line and in studies."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from inspect import signature
from typing import Any

from fewer.errors import bad
from fewer.evict.score.h2o import H2O
from fewer.evict.score.keynorm import KeyNorm
from fewer.evict.score.kvzip import KVzip
from fewer.evict.score.question import QuestionAware
from fewer.evict.score.snapkv import SnapKV
from fewer.evict.score.spread import SPREAD, ValueSpread
from fewer.evict.score.streaming import StreamingLLM
from fewer.evict.score.tova import TOVA
from fewer.evict.score.uniform import Uniform
from fewer.types import RowScore

__all__ = ["SCORES", "check_score_name", "make_score"]

SCORES: dict[str, Callable[..., RowScore]] = {
    "h2o": H2O,
    "snapkv": SnapKV,
    "tova": TOVA,
    "streaming": StreamingLLM,
    "keynorm": KeyNorm,
    "uniform": Uniform,
    "question": QuestionAware,
    "kvzip": KVzip,
}


def check_score_name(name: str) -> None:
    """Raise BadInput unless it is a key of SCORES, or one with "+spread" behind it."""
    base = name.removesuffix(SPREAD)
    if base not in SCORES:
        near = get_close_matches(base, SCORES, 1)
        way_out = f"Did you mean {near[0]}?" if near else "Use snapkv, or question where the question is known."
        raise bad("score", name, f"one of {', '.join(SCORES)}, or one of them with {SPREAD} behind it", way_out)


def make_score(name: str, **settings: Any) -> RowScore:
    """A score by its name: a key of SCORES, or that with "+spread" behind it for `ValueSpread`.

    settings: of the score without spread. Raises BadInput for an unknown name or setting, or a setting out of range.
    """
    check_score_name(name)
    make = SCORES[name.removesuffix(SPREAD)]
    known = list(signature(make).parameters)
    for key in settings:
        if key not in known:
            legal = f"one of {', '.join(known)}" if known else "left out: there are no settings"
            near = get_close_matches(key, known, 1)
            raise bad(
                f"the setting {key} of {name}", settings[key], legal, f"Use {near[0]}." if near else "Leave it out."
            )
    score = make(**settings)
    return ValueSpread(score) if name.endswith(SPREAD) else score
