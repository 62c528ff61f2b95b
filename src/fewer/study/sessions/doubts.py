"""Signals of an answer as doubts: larger = more doubt, for all of them; NaN where an answer has none.

Those of `fewer.decide` are columns of the log, and point that way already. The rest is turned here: log-probability and
margins, of which a small one is doubtful. Two-draw disagreement is found by joining the rows of an arm's seeds, and a
name that begins with "radii:" is a summary of the answer's radii (`summaries.py`).
"""

from __future__ import annotations

import numpy as np

from fewer.decide.signals import SIGNALS
from fewer.errors import bad
from fewer.study.row import SCHEMA
from fewer.study.sessions.places import Floats, Place
from fewer.study.sessions.summaries import PREFIX, parse_summary, read_radii

__all__ = ["COLUMNS", "DOUBTS", "check_doubt", "list_present", "read_doubt"]

_TURNED = {"logprob": "mean_logprob", "first_margin": "first_margin", "min_margin": "min_margin"}
"""Doubts that are minus a column."""
_STRAIGHT = tuple(name for name in SIGNALS if name in SCHEMA.names and name not in _TURNED)
_JOINED = "disagreement"
DOUBTS: tuple[str, ...] = (*_STRAIGHT, *_TURNED, _JOINED)
"""Every doubt that has a name of its own."""
COLUMNS: tuple[str, ...] = tuple(
    name for name in (*_STRAIGHT, *_TURNED.values(), "ids", "radii") if name in SCHEMA.names
)
"""Columns of the log that doubts are read from."""


def check_doubt(name: str) -> None:
    """Raise BadInput unless it names a doubt."""
    if name.startswith(PREFIX):
        parse_summary(name)
    elif name not in DOUBTS:
        raise bad("signal", name, f"one of {', '.join(DOUBTS)}, or a summary: {PREFIX}...", "Name one of them.")


def read_doubt(name: str, place: Place) -> Floats:
    """The doubts of a place's answers (n,). Raises BadInput for a name that is none."""
    check_doubt(name)
    if name.startswith(PREFIX):
        radii = read_radii([answer.values["radii"] for answer in place.answers])
        return parse_summary(name).values(radii, place.column("mean_logprob"))
    if name == _JOINED:
        return _read_disagreement(place)
    return -place.column(_TURNED[name]) if name in _TURNED else place.column(name)


def list_present(place: Place) -> list[str]:
    """The named doubts that at least one of the answers has."""
    return [name for name in DOUBTS if np.isfinite(read_doubt(name, place)).any()]


def _read_disagreement(place: Place) -> Floats:
    """One minus the share of tokens before the first that differs, over the longer; the mean over the other draws."""
    drawn: dict[str, list[list[int]]] = {}
    for answer in place.answers:
        if answer.values["ids"] is not None:
            drawn.setdefault(answer.item, []).append(answer.values["ids"])
    return np.array([_differ(answer.values["ids"], drawn.get(answer.item, [])) for answer in place.answers])


def _differ(mine: list[int] | None, drawn: list[list[int]]) -> float:
    if mine is None or len(drawn) < 2:
        return np.nan
    total = 0.0
    for other in drawn:  # the answer itself among them: it differs by 0
        longer = max(len(mine), len(other))
        pairs = zip(mine, other, strict=False)
        same = next((number for number, (a, b) in enumerate(pairs) if a != b), min(len(mine), len(other)))
        total += 1 - same / longer if longer else 0.0
    return total / (len(drawn) - 1)
