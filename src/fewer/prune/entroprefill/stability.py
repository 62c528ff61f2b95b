"""How much the retained chunks change from one monitored layer to the next: (19) of the paper.

A condition for when to act, not a reason to be right: a choice that stays the same may be wrong at every layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from fewer.errors import bad
from fewer.types.number import check_number

__all__ = ["change", "streak"]

Kept = frozenset[int] | NDArray[np.bool_]


def change(kept_a: Kept, kept_b: Kept) -> float:
    """d_l: chunks retained in one of two layers but not both, over those retained in either.

    In [0, 1]; 0 for two empty sets. Sets of chunk numbers, or booleans [k] over the same chunks. Raises BadInput for
    one of each, or other lengths.
    """
    if isinstance(kept_a, np.ndarray) and isinstance(kept_b, np.ndarray):
        if kept_a.dtype != np.bool_ or kept_b.dtype != np.bool_ or kept_a.shape != kept_b.shape:
            shapes = (kept_a.shape, kept_b.shape)
            raise bad("retained chunks", shapes, "booleans over the same chunks", "Compare layers of one prompt.")
        differ, either = int((kept_a ^ kept_b).sum()), int((kept_a | kept_b).sum())
    elif isinstance(kept_a, frozenset) and isinstance(kept_b, frozenset):
        differ, either = len(kept_a ^ kept_b), len(kept_a | kept_b)
    else:
        types = (type(kept_a).__name__, type(kept_b).__name__)
        raise bad("retained chunks", types, "two frozensets or two arrays", "Pass both in one form.")
    return differ / max(1, either)


def streak(history: Sequence[Kept | None], theta: float) -> int:
    """How many changes in a row, ending with the newest layer, are at most theta in [0, 1].

    history: of each monitored layer so far its retained chunks, or None where it had no valid candidate. The first
    valid one has a streak of 0, and so has every one after an invalid one. Raises BadInput.
    """
    check_number("theta", theta, float, 0.0, 1.0, "Use 0 to ask for the same chunks.")
    length = 0
    for newer, older in pairwise(reversed(history)):
        if newer is None or older is None or change(older, newer) > theta:
            break
        length += 1
    return length
