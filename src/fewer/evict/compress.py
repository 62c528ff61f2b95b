"""Compress a sequence's cache: score, integer budget, draw, select; the bytes of what leaves are freed.

Uses nothing that comes after this moment. All layers are chosen before anything leaves one, so that what fails changes
nothing; then one after the other is copied, so that only one is held twice at a time. Not covered: caches whose prompt
tokens can still come back (a LazyLLM that revives).
"""

from __future__ import annotations

import time
from collections.abc import Callable
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

    @property
    def num_evicted(self) -> int:
        """Rows that left, over all layers and heads."""
        return int((self.rows_before - self.rows_after).sum())


@torch.inference_mode()
def compress(
    state: State, policy: Policy, seed: int, turn: int = 0, num_tokens: int | None = None, audit: Audit | None = None
) -> Eviction:
    """Bring the cache down to the policy's budget. turn: which compression of this sequence it is, from 0.

    num_tokens: what a budget that is a share is a share of; None is the tokens seen. Samples depend on (seed, turn,
    layer) and the cache alone. audit: shown each layer's rows and what was drawn from them by chance, before the others
    leave; the time it takes is part of `seconds`. Raises BadInput where the budget cannot hold what always stays.
    """
    if state.aux is not None:
        raise bad("evict", policy.name, "left out where pruned tokens can come back", "Prune with aux off, or not.")
    begin = time.perf_counter()
    before, held = [], state.nbytes
    after, padding, known = [], [], []
    certain = 0
    chosen: list[tuple[Selection, Tensor]] = []
    measured: list[tuple[Tensor, Tensor]] = []
    for index in range(len(state.layers)):
        view = _look(state, index)
        before.append(_rows(view))
        selection, scored, boundary = _choose(view, policy, num_tokens or state.num_seen, seed, turn)
        chosen.append((selection, scored))
        measured.append(boundary)
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
    for kv, (selection, scored) in zip(state.layers, chosen, strict=True):
        if policy.score.gathers:
            kv.gather(scored)
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


def _look(state: State, index: int) -> CacheView:
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
    )


def _rows(view: CacheView) -> Tensor:
    """Rows of each head that hold something: [kv_heads]."""
    heads, size = view.pos.shape
    return torch.full((heads,), size) if view.padding is None else (~view.padding).sum(1).cpu()


def _choose(
    view: CacheView, policy: Policy, num_tokens: int, seed: int, turn: int
) -> tuple[Selection, Tensor, tuple[Tensor, Tensor]]:
    """Score the rows, mark those that are not up for choice, and let the design draw.

    Also returns the score, and what the choice did to it.
    """
    found, attention = score_rows(view, policy.score)
    score = scored = check_score(found, view, policy.score.name)
    keeps = view.pos >= view.next_pos - policy.recent
    if policy.sinks:
        keeps |= view.pos < policy.sinks
    score = score.masked_fill(keeps, float("inf"))
    gone = view.padding
    if view.window is not None:  # no later query sees them
        behind = view.pos <= view.next_pos - view.window
        gone = behind if gone is None else gone | behind
    if gone is not None:
        score = score.masked_fill(gone, float("-inf"))
    rows = torch.isfinite(score).sum(1) + torch.isposinf(score).sum(1)
    certain = torch.isposinf(score).sum(1)
    minimum = certain + (certain < rows).long() if policy.known else certain
    keep = policy.budget.at(view.layer, view.num_layers, rows, num_tokens, score, minimum)
    drawn_by = score
    if policy.known:
        marked = mark_core(score, keep, policy.certain_core)
        sizes = find_sizes(view, scored if attention is None else attention) if policy.sizes == "spread" else scored
        drawn_by = torch.where(torch.isinf(marked), marked, sizes)
    generator = torch.Generator().manual_seed((seed * 1_000_003 + turn * 8191 + view.layer) % 2**63)
    selection = check_selection(policy.design.draw(drawn_by, keep, generator), drawn_by, policy.design.name)
    return selection, scored, measure_boundary(score, selection)


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
