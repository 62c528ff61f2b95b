"""What a row says of an answer's evidence: one column a signal, and the radii themselves, thinned out.

With the radii in the log, other summaries of them can be looked for afterwards. Two-draw disagreement has no column:
the two answers are two rows.
"""

from __future__ import annotations

import json
from typing import Any

from torch import Tensor

from fewer.decide import SIGNALS, Evidence

__all__ = ["COLUMNS", "describe_evidence"]

COLUMNS = tuple(name for name in SIGNALS if name != "disagreement")
"""The columns, named like their signals: larger = more doubt, null where the signal has no value."""

QUESTION_ROWS = 64  # of a question, the newest
STEPS = 24  # of an answer, the first
_DIGITS = 4


def describe_evidence(evidence: Evidence | None) -> dict[str, Any]:
    """The row's columns; none where no evidence was collected."""
    if evidence is None:
        return {}
    return {name: SIGNALS[name](evidence) for name in COLUMNS} | {"radii": _write_radii(evidence)}


def _write_radii(evidence: Evidence) -> str | None:
    """JSON: of "question" (the newest 64 rows) and "answer" (the first 24 steps) the "mean", "median" and "largest".

    Each is taken over heads: [L][rows], four significant digits. A part that has no radii is null; None where neither
    has.
    """
    question, answer = evidence.question, evidence.answer
    parts = {
        "question": None if question is None else question[..., -QUESTION_ROWS:],
        "answer": None if answer is None else answer[..., :STEPS],
    }
    if not any(part is not None and part.shape[2] for part in parts.values()):
        return None
    return json.dumps({name: _by_layer(part) for name, part in parts.items()}, separators=(",", ":"))


def _by_layer(radii: Tensor | None) -> dict[str, list[list[float]]] | None:
    """[L, H, rows] to lists of [L][rows]."""
    if radii is None or not radii.shape[2]:
        return None
    exact = radii.double()
    found = {"mean": exact.mean(1), "median": exact.quantile(0.5, dim=1), "largest": exact.amax(1)}
    return {
        name: [[float(f"{value:.{_DIGITS}g}") for value in row] for row in part.tolist()]
        for name, part in found.items()
    }
