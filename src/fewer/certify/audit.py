"""The audit: when rows leave by chance the whole cache is still at hand, and the sample's true error can be seen.

For a few queries, and for nothing after them: what is seen is by how much the formula was wrong there, and decoding's
radii are made larger by that factor. It catches samples that missed a row their formula knows nothing of, where the
observed queries want that row.
"""

from __future__ import annotations

import torch
from torch import Tensor

from fewer.certify.variance import LEAST_REST, TINY_NORM, check_delta, radius
from fewer.types import CacheView, Sample

__all__ = ["audit"]

MOST = 16  # queries that are looked at
_LEAST = 1e-3  # a smaller radius is taken to be this: errors of a thousandth are none, and factors stay finite


@torch.inference_mode()
def audit(view: CacheView, sample: Sample, delta: float = 0.1) -> Tensor | None:
    """The audit factor of every query head, [heads] float32 of at least 1; None where no query was observed.

    kappa = max(1, the largest error/radius) over the newest 16 of the observed queries: error = ||out - y||/||y||, out
    the Hájek estimate from the sample and y the output of all rows the view holds; radius = (4) with leave-one-out
    terms, at this delta, or .001 where it is below. A query sees rows up to its own position. In a sliding-window layer
    it sees those of its window that a later query can still see, since the others leave for certain. A query that sees
    no row of the sample counts for nothing. All in float32, one key-value head at a time.

    Not covered: the errors of earlier draws, if rows have left before: y is then itself an estimate, and only this
    draw's error is seen. Nor queries unlike the observed ones. Raises BadInput for a delta outside (0, 1).
    """
    check_delta(delta)
    heads, count, dim = view.q.shape
    kv_heads = view.k.shape[0]
    if not count:
        return None
    if not bool((sample.pi < 1).any()):
        return view.k.new_ones(heads, dtype=torch.float32)
    q = view.q[:, -MOST:].to(view.k.device).float() * view.scaling
    found = []
    for head, queries in enumerate(q.reshape(kv_heads, -1, dim)):  # of each query head of the group in turn
        bias = _hide(view, head, q.shape[1])
        found.append(_compare(queries, view.k[head], view.v[head], bias, *_pick(sample, head), delta))
    ratio = torch.stack(found).view(heads, -1)
    return ratio.amax(1).clamp(min=1.0)


def _hide(view: CacheView, head: int, count: int) -> Tensor:
    """What is added to the logits of the newest queries: [count, n] float32, -inf where a row is not seen."""
    pos, at = view.pos[head], view.q_pos[-count:].to(view.pos.device)[:, None]
    hidden = pos > at
    if view.window is not None:
        hidden = hidden | (pos <= at - view.window) | (pos <= view.next_pos - view.window)
    bias = torch.zeros(hidden.shape, device=pos.device) if view.log_w is None else view.log_w[head].float()
    return bias.expand(hidden.shape).masked_fill(hidden, float("-inf"))


def _pick(sample: Sample, head: int) -> tuple[Tensor, Tensor, Tensor]:
    """Of one head: the rows that stayed, their probabilities, and which entries are rows."""
    return sample.idx[head], sample.pi[head].float(), sample.valid[head]


def _compare(
    q: Tensor, k: Tensor, v: Tensor, bias: Tensor, idx: Tensor, pi: Tensor, valid: Tensor, delta: float
) -> Tensor:
    """error/radius of every query of one key-value head: [group * m].

    q: [group * m, d], scaled; k, v: [n, d]; bias: [m, n]; idx, pi, valid: [s].
    """
    v = v.float()
    logits = (q @ k.float().T).view(-1, *bias.shape).add_(bias).flatten(0, 1)
    weights = logits.index_select(1, idx).sub_(pi.log()).masked_fill_(~valid, float("-inf"))
    blind = torch.isneginf(weights.amax(1))
    weights = torch.softmax(weights, 1).masked_fill_(blind[:, None], 0.0)
    y, values = torch.softmax(logits, 1).nan_to_num_(0.0) @ v, v[idx]
    out = weights @ values
    rest = (1 - weights).clamp_(min=LEAST_REST)
    terms = weights.div_(rest).square_().mul_(1 - pi).mul_(_square_distances(out, values))
    found = radius(terms.sum(1), terms.amax(1).sqrt(), out.norm(dim=1), delta)
    ratio: Tensor = (out - y).norm(dim=1) / (y.norm(dim=1) + TINY_NORM) / found.clamp(min=_LEAST)
    return ratio.masked_fill(blind, 1.0)


def _square_distances(out: Tensor, values: Tensor) -> Tensor:
    """||v - out||^2 of every pair, [r, s] float32. In float64, in which the expanded square does not cancel."""
    out, values = out.double(), values.double()
    found = values.square().sum(1) + out.square().sum(1)[:, None]
    return found.addmm_(out, values.T, alpha=-2.0).clamp_(min=0.0).float()
