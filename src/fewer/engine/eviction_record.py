"""The parts of a receipt about a cache kept within a policy: what left it, and how wrong that may have been."""

from __future__ import annotations

import torch

from fewer.certify import Certificate
from fewer.engine.evidence import finished_steps
from fewer.engine.keeper import Keeper
from fewer.engine.sequence import Sequence
from fewer.evict import Eviction, Policy
from fewer.receipt import CertificateRecord, CompressionRecord, EvictionRecord
from fewer.types import FIRST_STEPS

__all__ = ["write_certificate", "write_eviction"]


def write_eviction(sequence: Sequence) -> EvictionRecord | None:
    """What the policy did with the cache; None where there was no policy."""
    keeper = sequence.keeper
    if keeper is None:
        return None
    first = sequence.state.layers[0].buffer
    head_row = 0 if first is None else 2 * first.shape[3] * first.dtype.itemsize  # bytes of one row
    return EvictionRecord(
        name=keeper.policy.name,
        compressions=tuple(_compression(each, head_row) for each in keeper.evictions),
        most_bytes=keeper.most_bytes,
        rows_per_chunk=_count_rows(sequence),
    )


def _compression(each: Eviction, head_row: int) -> CompressionRecord:
    return CompressionRecord(
        num_seen=each.num_seen,
        rows_before=tuple(map(tuple, each.rows_before.tolist())),
        rows_after=tuple(map(tuple, each.rows_after.tolist())),
        padding_per_layer=each.padding,
        used_bytes_before=head_row * int(each.rows_before.sum()),
        used_bytes_after=head_row * int(each.rows_after.sum()),
        bytes_before=each.bytes_before,
        bytes_after=each.bytes_after,
        evict_s=each.seconds,
        num_certain=each.certain,
        rows_by_pi=None if each.pi is None else tuple(each.pi.sum(0).tolist()),
        repeated_tokens=each.repeated_tokens,
    )


def _count_rows(sequence: Sequence) -> tuple[tuple[int, ...], ...]:
    """Rows of each chunk's tokens that each layer holds, heads together: [chunks][L]; by the positions of the keys."""
    chunks = sequence.request.prompt.chunks
    if not chunks:
        return ()
    edges = torch.tensor([[chunk.start, chunk.stop] for chunk in chunks])  # [chunks, 2]
    by_layer = []
    for layer in sequence.state.layers:
        pos = layer.pos.cpu()
        if layer.num_padding:
            pos = pos[~torch.isneginf(layer.log_w).cpu()]  # type: ignore[arg-type]  # padding means that there are weights
        shared = 1 if layer.pos.shape[0] > 1 or layer.buffer is None else layer.buffer.shape[1]
        below = torch.searchsorted(pos.flatten().sort().values, edges)
        by_layer.append(shared * (below[:, 1] - below[:, 0]))
    return tuple(map(tuple, torch.stack(by_layer, dim=1).tolist()))


def write_certificate(sequence: Sequence, num_steps: int) -> CertificateRecord:
    """Of the decode steps since the first compression; where there is none, with the reason.

    num_steps: decode steps that gave a token.
    """
    keeper = sequence.keeper
    if keeper is None:
        return CertificateRecord.none()
    policy = keeper.policy
    if policy.certified is None:
        return CertificateRecord.none(_say_why_none(policy))
    steps = finished_steps(sequence, keeper.certificates, num_steps)
    found = Certificate.of(steps, policy.level, policy.certified.variance)
    if found.kind == "none":
        return CertificateRecord.none(_say_why_empty(keeper))
    return CertificateRecord(
        kind=found.kind,
        delta=found.delta,
        radius=found.first,
        mean=found.mean,
        largest=found.largest,
        per_layer=found.per_layer,
        steps=found.steps,
        clipped=found.clipped,
        clipped_per_layer=found.clipped_per_layer,
        clipped_steps=found.clipped_steps,
        assumptions=found.assumptions,
        says=_say(policy.level, len(found.steps)),
    )


def _say_why_none(policy: Policy) -> str:
    """Why none of this policy's answers has a certificate."""
    if not policy.known:
        return f"{policy.design.name} keeps rows for certain, and what stays then says nothing of what left"
    if policy.weighs == "plug-in":
        return "the plug-in estimator leaves out the probabilities that a certificate is made of"
    return "no certificate was asked for"


def _say_why_empty(keeper: Keeper) -> str:
    """Why this answer has none, where its policy could have one."""
    if not keeper.turns:
        return "the cache was not compressed"
    if not keeper.evictions:
        return "every row stayed"
    return "no decode step came after the compression"


def _say(delta: float, num_steps: int) -> str:
    """What the number is, in one sentence."""
    which = "the first six steps" if num_steps >= FIRST_STEPS else f"{num_steps} step{'s' * (num_steps != 1)}"
    each = f"estimated relative errors of attention outputs, each at level {delta:g}"
    return f"{each}, averaged over layers and heads, largest of {which}; an average bounds nothing"
