"""The collision of an attention row, the sum of its squares, from blocks of logits: (33) of the paper.

A running maximum, sum and sum of squares stand in for the row, which is never held. They are of *one* row. Observers
are averaged before squaring (3), and the square of a mean has products of two rows in it: the collision of the averaged
row is not the mean of the rows' collisions, and cannot be had from these sums.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from fewer.errors import bad

__all__ = ["row_collision"]


def row_collision(blocks: Iterable[Tensor]) -> Tensor:
    """The sum of A_j^2 for A the softmax of logits that come in blocks [..., m]: [...] float64, each row by itself.

    Logits of any size; -inf is a position that is not seen. NaN for a row that sees none, or has NaN or inf among its
    logits. The logarithms of a row do for its logits. Raises BadInput without a block.
    """
    peak = total = squares = None
    for block in blocks:
        logits = block.to(torch.float64)
        if peak is None or total is None or squares is None:
            peak = logits.new_full(logits.shape[:-1], -torch.inf)
            total, squares = torch.zeros_like(peak), torch.zeros_like(peak)
        top = torch.maximum(peak, logits.amax(-1))
        base = top.masked_fill(top == -torch.inf, 0.0)
        shrink, terms = (peak - base).exp(), (logits - base[..., None]).exp()
        total = shrink * total + terms.sum(-1)
        squares = shrink.square() * squares + terms.square().sum(-1)
        peak = top
    if total is None or squares is None:
        raise bad("blocks", (), "at least one block of logits", "Pass the row's logits, in one block or several.")
    return squares / total.square()
