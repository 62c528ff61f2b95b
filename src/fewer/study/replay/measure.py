"""One compressed cache against the full one: the true error of every layer, head and query, and what is said of it.

The decode queries are the full model's, and rows that came after the compression are there for all of them. Attention
and errors are computed in float64 from the keys, values and queries as the model stored them; certificates in float32
by `fewer.certify.Certifier`, as in a served model. Errors and variances are relative: to ||y|| and ||y||^2 of the full
cache's output y.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fewer.certify import Certifier, KnownProbabilities, StepCertificate
from fewer.certify.audit import audit
from fewer.evict import Policy, compress
from fewer.kv import LayerKV, State
from fewer.study.replay.capture import Captured
from fewer.types import CacheView, Sample

__all__ = ["Cells", "Full", "Kept", "keep_rows", "look", "measure"]


@dataclass(frozen=True, slots=True, eq=False)
class Full:
    """The decode queries' attention over the full cache, by layer."""

    weights: tuple[Tensor, ...]  # [heads, steps, N] float64, the softmax
    values: tuple[Tensor, ...]  # [kv_heads, N, d], as stored
    y: tuple[Tensor, ...]  # [heads, steps, d] float64

    def with_values(self, values: tuple[Tensor, ...]) -> Full:
        """The same attention over other values."""
        pairs = zip(self.weights, values, strict=True)
        return Full(self.weights, values, tuple(_mix(weights, v.double()) for weights, v in pairs))


@dataclass(frozen=True, slots=True, eq=False)
class Kept:
    """The rows of one layer that a compression left; row j of them is position pos[:, j]."""

    pos: Tensor  # [kv_heads, m] int64
    pi: Tensor | None  # [kv_heads, m] float32; None where nobody knows
    valid: Tensor  # [kv_heads, m] bool: not padding
    kappa: Tensor | None = None  # [heads], of the audit


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """[layers, heads, steps] each but `kept`. What is None is not known, for want of probabilities."""

    error: Tensor  # of the policy's estimate: Hájek's where probabilities are known, otherwise plug-in
    plug_in: Tensor  # of the same rows without weights
    kept: Tensor  # [layers, heads] int64: rows of the compressed cache
    asked: int  # rows that the budget allows
    radius: Tensor | None = None  # the audited form
    variance: Tensor | None = None  # its Vhat
    paper_radius: Tensor | None = None  # equation (4)
    paper_variance: Tensor | None = None
    kappa: Tensor | None = None  # [layers, heads]


def look(captured: Captured) -> Full:
    """Attention of the decode queries over everything before them and themselves."""
    weights = []
    steps, last = captured.steps, captured.k[0].shape[1]
    hidden = torch.arange(last) > torch.arange(last - steps, last)[:, None]
    for k, q, scaling in zip(captured.k, captured.q, captured.scaling, strict=True):
        asked = q[:, q.shape[1] - steps :].double() * scaling
        grouped = asked.view(k.shape[0], -1, k.shape[2])
        logits = torch.bmm(grouped, k.double().transpose(1, 2)).view(*asked.shape[:2], last)
        weights.append(torch.softmax(logits.masked_fill(hidden, float("-inf")), -1))
    pairs = zip(weights, captured.v, strict=True)
    return Full(tuple(weights), captured.v, tuple(_mix(one, v.double()) for one, v in pairs))


def keep_rows(state: State, policy: Policy, seed: int) -> list[Kept]:
    """Compress the state as a served one is, the audit included, and say which rows of each layer are left."""
    kappa: dict[int, Tensor | None] = {}

    def take(view: CacheView, sample: Sample) -> None:
        kappa[view.layer] = audit(view, sample, policy.level)

    compress(state, policy, seed, audit=take)
    return [_describe(kv, kappa.get(layer)) for layer, kv in enumerate(state.layers, 1)]


def measure(full: Full, kept: Sequence[Kept], num_rows: int, policy: Policy) -> Cells:
    """Answer the decode queries from what is left of the first `num_rows` rows and all rows after them."""
    outs, passes = [], []
    heads = full.weights[0].shape[0]
    for weights, values, rows in zip(full.weights, full.values, kept, strict=True):
        kv_heads, size = rows.pos.shape
        later = torch.arange(num_rows, weights.shape[2]).expand(kv_heads, -1)
        at = torch.cat((rows.pos, later), 1)
        valid = torch.cat((rows.valid, torch.ones_like(later, dtype=torch.bool)), 1)
        left = values.gather(1, at[..., None].expand(-1, -1, values.shape[2]))
        grouped = weights.view(kv_heads, -1, weights.shape[2])
        seen = grouped.gather(2, at[:, None].expand(-1, grouped.shape[1], -1)) * valid[:, None]
        plain = _share(seen)
        pi = torch.ones(at.shape, dtype=torch.float64)
        if rows.pi is not None:
            pi[:, :size] = rows.pi.double()
        weighted = plain if rows.pi is None else _share(seen / pi[:, None])
        mixed = [torch.bmm(part, left.double()).view(heads, -1, left.shape[2]) for part in (weighted, plain)]
        outs.append(mixed)
        passes.append((weighted.view(heads, -1, at.shape[1]), mixed[0], left))
    errors = [torch.stack([_compare(out[i], y) for out, y in zip(outs, full.y, strict=True)]) for i in range(2)]
    group = heads // kept[0].pos.shape[0]
    counts = torch.stack([rows.valid.sum(1).repeat_interleave(group) for rows in kept])
    asked = policy.budget.keep.count(num_rows)
    if policy.certified is None:
        return Cells(errors[0], errors[1], counts, asked)
    audited = _certify(kept, passes, policy, "audited")
    paper = _certify(kept, passes, policy, "paper")
    power = torch.stack([y.square().sum(-1) for y in full.y])
    kappa = torch.stack([torch.ones(heads) if rows.kappa is None else rows.kappa for rows in kept])
    return Cells(
        errors[0],
        errors[1],
        counts,
        asked,
        radius=audited.radius,
        variance=audited.vhat / power,
        paper_radius=paper.radius,
        paper_variance=paper.vhat / power,
        kappa=kappa,
    )


def _certify(
    kept: Sequence[Kept], passes: Sequence[tuple[Tensor, Tensor, Tensor]], policy: Policy, form: str
) -> StepCertificate:
    """What the certifier says of the queries as one pass over the compressed cache. passes: weights, out, values."""
    design = policy.certified
    assert design is not None
    known = [None if rows.pi is None else KnownProbabilities(rows.pi, design.variance) for rows in kept]
    values = [left.float() for _, _, left in passes]
    at_first = [left[:, : rows.pos.shape[1]] for left, rows in zip(values, kept, strict=True)]
    if form == "paper":
        certifier = Certifier(known, at_first, policy.level, form="paper")
    else:
        certifier = Certifier(known, at_first, policy.level, form="audited", kappa=[rows.kappa for rows in kept])
    for index, ((weights, out, _), left) in enumerate(zip(passes, values, strict=True)):
        certifier.see(index, weights.float(), out.float().transpose(0, 1), left)
    found = certifier.finish()
    assert found is not None
    return found


def _describe(kv: LayerKV, kappa: Tensor | None) -> Kept:
    heads = kv.k.shape[0]
    pos = kv.pos.expand(heads, -1)
    log_w = kv.log_w
    valid = torch.ones_like(pos, dtype=torch.bool) if log_w is None else ~torch.isneginf(log_w.expand(heads, -1))
    return Kept(pos, kv.pi, valid, kappa)


def _mix(weights: Tensor, values: Tensor) -> Tensor:
    """weights: [heads, steps, n]; values: [kv_heads, n, d]. Returns [heads, steps, d]."""
    grouped = weights.view(values.shape[0], -1, weights.shape[2])
    return torch.bmm(grouped, values).view(*weights.shape[:2], -1)


def _share(weights: Tensor) -> Tensor:
    """Divided by their sum; nothing where nothing is left of the attention."""
    total = weights.sum(-1, keepdim=True)
    return weights / torch.where(total > 0, total, 1.0)


def _compare(out: Tensor, y: Tensor) -> Tensor:
    """||out - y|| / ||y||: [heads, steps]."""
    found: Tensor = (out - y).norm(dim=-1) / y.norm(dim=-1)
    return found
