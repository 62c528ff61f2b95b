"""Compress a sequence's cache: score, integer budget, draw, select; the bytes of what leaves are freed.

Uses nothing that comes after this moment. All layers are chosen before anything leaves one, so that what fails changes
nothing; then one after the other is copied, so that only one is held twice at a time. Not covered: caches whose prompt
tokens can still come back (a LazyLLM that revives).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fewer.errors import bad
from fewer.evict.boundary import measure_boundary
from fewer.evict.checks import check_score, check_selection
from fewer.evict.policy import Policy
from fewer.evict.size import find_sizes, mark_core, score_rows
from fewer.kv import LayerKV, State
from fewer.types import CacheView, Sample, Selection

__all__ = ["Audit", "Eviction", "compress"]

Audit = Callable[[CacheView, Sample], None]


@dataclass(frozen=True)
class Eviction:
    """What one compression did. Rows are counted per layer and key-value head, without padding."""

    num_seen: int  # tokens the sequence had seen
    rows_before: Tensor  # [L, kv_heads] int64
    rows_after: Tensor  # [L, kv_heads] int64
    padding: tuple[int, ...]  # per layer: rows that hold nothing, over its heads
    bytes_before: int  # of the storages, free rows included
    bytes_after: int
    pi: Tensor | None  # [L, 10] int64: kept rows by the tenth in which their pi lies; None where it is not known
    certain: int  # kept rows with pi = 1, or all of them where it is not known
    seconds: float
    mass: Tensor | None = None  # [L, kv_heads] float32, the share of the score that left; see `measure_boundary`
    margin: Tensor | None = None  # [L, kv_heads] float32, between kept and evicted scores, in their SD; or NaN
    repeated_tokens: int = 0  # read once more for the score

    @property
    def num_evicted(self) -> int:
        """Rows that left, over all layers and heads."""
        return int((self.rows_before - self.rows_after).sum())


@torch.inference_mode()
def compress(
    state: State,
    policy: Policy,
    seed: int,
    turn: int = 0,
    num_tokens: int | None = None,
    audit: Audit | None = None,
    repeated: Sequence[Tensor] | None = None,
) -> Eviction:
    """Bring the cache down to the policy's budget. turn: which compression of this sequence it is, from 0.

    num_tokens: what a budget that is a share is a share of; None is the tokens seen. Samples depend on (seed, turn,
    layer) and the cache alone. audit: shown each layer's rows and what was drawn from them by chance, before the others
    leave; the time it takes is part of `seconds`. repeated: what a score with needs "repeat" looks at, [heads, n] of
    each layer. Raises BadInput where the budget cannot hold what always stays.
    """
    if state.aux is not None:
        raise bad("evict", policy.name, "left out where pruned tokens can come back", "Prune with aux off, or not.")
    begin = time.perf_counter()
    held, certain = state.nbytes, 0
    after, padding, known = [], [], []
    looked = [
        _score(_look(state, index, None if repeated is None else repeated[index]), policy)
        for index in range(len(state.layers))
    ]
    before = [_rows(each.view) for each in looked]
    keeps = policy.budget.over(
        [each.rows for each in looked],
        num_tokens or state.num_seen,
        [each.marked for each in looked],
        [each.minimum for each in looked],
    )
    chosen: list[Selection] = []
    measured: list[tuple[Tensor, Tensor]] = []
    for each, keep in zip(looked, keeps, strict=True):
        view, selection = each.view, _choose(each, keep, policy, seed, turn)
        chosen.append(selection)
        measured.append(measure_boundary(each.marked, selection))
        after.append(selection.count.cpu())
        padding.append(int(selection.idx.numel() - selection.count.sum()))
        certain += int(selection.count.sum())
        if isinstance(selection, Sample):
            shares = selection.pi[selection.valid]
            tenths = (shares * 10).ceil().clamp(1, 10).long() - 1
            tail = shares < 1
            known.append(torch.bincount(tenths[tail], minlength=10).cpu())
            certain -= int(tail.sum())
            if audit is not None:
                audit(view, selection)
    for kv, each, selection in zip(state.layers, looked, chosen, strict=True):
        if policy.score.gathers:
            kv.gather(each.score)
        _apply(kv, selection, policy)
    if state.queries is not None:
        state.queries.compressed()
    mass, margin = (torch.stack(parts).cpu() for parts in zip(*measured, strict=True))
    return Eviction(
        num_seen=state.num_seen,
        rows_before=torch.stack(before),
        rows_after=torch.stack(after),
        padding=tuple(padding),
        bytes_before=held,
        bytes_after=state.nbytes,
        pi=torch.stack(known) if known else None,
        certain=certain,
        seconds=time.perf_counter() - begin,
        mass=mass,
        margin=margin,
    )


@dataclass(frozen=True)
class _Scored:
    """A layer before anything is chosen."""

    view: CacheView
    score: Tensor  # [kv_heads, n]
    attention: Tensor | None  # that it was pooled from, where it tells
    marked: Tensor  # the score with inf for what always stays, -inf for what cannot
    rows: Tensor  # [kv_heads] of those that can
    minimum: Tensor  # [kv_heads] of those that have to


def _look(state: State, index: int, repeated: Tensor | None) -> CacheView:
    """What there is to see of a layer, heads apart."""
    kv = state.layers[index]
    heads = kv.k.shape[0]
    log = state.queries
    q, q_pos = log.at(index) if log is not None else (kv.k[:, :0], kv.pos[0, :0])
    scaling, window = log.attends(index) if log is not None else (1.0, None)
    return CacheView(
        layer=index + 1,
        num_layers=len(state.layers),
        k=kv.k,
        v=kv.v,
        pos=kv.pos.to(kv.k.device).expand(heads, -1),
        q=q,
        q_pos=q_pos,
        scaling=scaling,
        next_pos=state.num_seen,
        log_w=None if kv.log_w is None else kv.log_w.expand(heads, -1),
        pi=kv.pi,
        window=window,
        gathered=kv.gathered,
        repeated=repeated,
    )


def _rows(view: CacheView) -> Tensor:
    """Rows of each head that hold something: [kv_heads]."""
    heads, size = view.pos.shape
    return torch.full((heads,), size) if view.padding is None else (~view.padding).sum(1).cpu()


def _score(view: CacheView, policy: Policy) -> _Scored:
    """Score the rows, and mark those that are not up for choice."""
    found, attention = score_rows(view, policy.score)
    score = check_score(found, view, policy.score.name)
    keeps = view.pos >= view.next_pos - policy.recent
    if policy.sinks:
        keeps |= view.pos < policy.sinks
    marked = score.masked_fill(keeps, float("inf"))
    gone = view.padding
    if view.window is not None:  # no later query sees them
        behind = view.pos <= view.next_pos - view.window
        gone = behind if gone is None else gone | behind
    if gone is not None:
        marked = marked.masked_fill(gone, float("-inf"))
    certain = torch.isposinf(marked).sum(1)
    rows = torch.isfinite(marked).sum(1) + certain
    minimum = certain + (certain < rows).long() if policy.known else certain
    return _Scored(view, score, attention, marked, rows, minimum)


def _choose(each: _Scored, keep: Tensor, policy: Policy, seed: int, turn: int) -> Selection:
    """Let the design draw. keep: [kv_heads]."""
    view, drawn_by = each.view, each.marked
    if policy.known:
        marked = mark_core(each.marked, keep, policy.certain_core)
        attention = each.score if each.attention is None else each.attention
        if each.attention is not None and view.gathered is not None:
            attention = _fill_in(each.attention, each.score)
        sizes = find_sizes(view, attention) if policy.sizes == "spread" else each.score
        drawn_by = torch.where(torch.isinf(marked), marked, sizes)
    generator = torch.Generator().manual_seed((seed * 1_000_003 + turn * 8191 + view.layer) % 2**63)
    return check_selection(policy.design.draw(drawn_by, keep, generator), drawn_by, policy.design.name)


def _fill_in(attention: Tensor, score: Tensor) -> Tensor:
    """The attention, and for rows that nothing looked at this time what their score keeps from before, in its unit.

    Both [kv_heads, n]. The unit is the mean ratio over the rows that were looked at.
    """
    seen = attention > 0
    unit = attention.sum(1, keepdim=True) / (score * seen).sum(1, keepdim=True).clamp(min=1e-30)
    return torch.where(seen, attention, score * unit)


def _apply(kv: LayerKV, selection: Selection, policy: Policy) -> None:
    """Keep the rows; one that every head keeps whole is left as it is."""
    size = selection.idx.shape[1]
    ragged = bool((selection.count < size).any())
    if size == kv.num_rows and not ragged:
        return
    pi = selection.pi if isinstance(selection, Sample) else None
    log_w = -pi.log() if pi is not None and policy.weighs == "hajek" else None
    if ragged:
        log_w = torch.zeros(selection.idx.shape, device=selection.idx.device) if log_w is None else log_w
        log_w = log_w.masked_fill(~selection.valid, float("-inf"))
    kv.select(selection.idx, log_w, pi)
