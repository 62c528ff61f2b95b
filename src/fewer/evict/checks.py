"""What a score and a design answer is checked before anything leaves: both may be somebody else's."""

from __future__ import annotations

import torch
from torch import Tensor

from fewer.errors import bad
from fewer.types import CacheView, Sample, Selection

__all__ = ["check_score", "check_selection"]

_FAULT = "This is a fault of the score; its protocol is fewer.types.RowScore."
_WRONG = "This is a fault of the design; its protocol is fewer.types.Design."


def check_score(score: object, view: CacheView, name: str) -> Tensor:
    """It is one finite number of at least 0 for each row and key-value head; returned in float32."""
    what = f"the score {name}"
    if not isinstance(score, Tensor) or score.shape != view.pos.shape or not score.is_floating_point():
        shown = f"{score.dtype} {list(score.shape)}" if isinstance(score, Tensor) else type(score).__name__
        raise bad(what, shown, f"a float tensor of shape {list(view.pos.shape)}", _FAULT)
    score = score.float()
    held = score if view.padding is None else score.masked_fill(view.padding, 0.0)
    if not bool(((held >= 0) & torch.isfinite(held)).all()):
        worst = held[~((held >= 0) & torch.isfinite(held))][0].item()
        raise bad(what, str(worst), "finite and at least 0 for every row", _FAULT)
    return score


def check_selection(selection: object, score: Tensor, name: str) -> Selection:
    """It keeps rows that are there, each once, in order, and every certain one; a sample has probabilities above 0.

    score: [kv_heads, n] as the design got it. How many rows a design keeps is its own affair: a Poisson sample's number
    is random.
    """
    what = f"what the design {name} keeps"
    heads, size = score.shape
    if not isinstance(selection, Selection):
        raise bad(what, type(selection).__name__, "a Selection or a Sample", _WRONG)
    idx, count = selection.idx.to(score.device), selection.count.to(score.device)
    if idx.dim() != 2 or idx.shape[0] != heads or count.shape != (heads,) or idx.dtype != torch.int64:
        raise bad(what, list(idx.shape), f"int64 rows of {heads} heads, and a count for each", _WRONG)
    if not bool(((count >= 1) & (count <= idx.shape[1])).all()) or int(idx.min()) < 0 or int(idx.max()) >= size:
        raise bad(what, count.tolist(), f"at least one of {size} rows in every head", _WRONG)
    valid = torch.arange(idx.shape[1], device=idx.device) < count[:, None]
    if bool(((idx.diff(dim=1) <= 0) & valid[:, 1:]).any()):
        raise bad(what, idx.tolist()[0][:8], "ascending rows, each once", _WRONG)
    kept = torch.zeros(heads, size + 1, dtype=torch.bool, device=idx.device)
    kept = kept.scatter(1, idx.masked_fill(~valid, size), True)[:, :size]
    if bool((torch.isposinf(score) & ~kept).any()) or bool((torch.isneginf(score) & kept).any()):
        raise bad(what, idx.tolist()[0][:8], "every row that is certain, and none that is gone", _WRONG)
    if isinstance(selection, Sample):
        pi = selection.pi
        if pi.shape != idx.shape or not bool(((pi > 0) & (pi <= 1)).all()):
            raise bad(what, list(pi.shape), "probabilities above 0 and at most 1, one a row", _WRONG)
    return selection
