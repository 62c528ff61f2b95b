"""The parts of a receipt about a cache kept within a policy: what left it, and how wrong that may have been."""

from __future__ import annotations

from fewer.certify import Certificate
from fewer.certify.certificate import FIRST
from fewer.engine.keeper import Keeper
from fewer.engine.sequence import Sequence
from fewer.evict import Eviction
from fewer.receipt import CertificateRecord, CompressionRecord, EvictionRecord

__all__ = ["write_certificate", "write_eviction"]


def write_eviction(keeper: Keeper | None) -> EvictionRecord | None:
    """What the policy did with the cache; None where there was no policy."""
    if keeper is None:
        return None
    return EvictionRecord(
        name=keeper.policy.name,
        compressions=tuple(_compression(each) for each in keeper.evictions),
        most_bytes=keeper.most_bytes,
    )


def _compression(each: Eviction) -> CompressionRecord:
    return CompressionRecord(
        num_seen=each.num_seen,
        rows_before=tuple(map(tuple, each.rows_before.tolist())),
        rows_after=tuple(map(tuple, each.rows_after.tolist())),
        padding_per_layer=each.padding,
        bytes_before=each.bytes_before,
        bytes_after=each.bytes_after,
        evict_s=each.seconds,
        num_certain=each.certain,
        rows_by_pi=None if each.pi is None else tuple(each.pi.sum(0).tolist()),
    )


def write_certificate(sequence: Sequence, num_steps: int) -> CertificateRecord:
    """Of the decode steps since the first compression; none for designs without known probabilities.

    num_steps: decode steps that gave a token. The pass of one that was interrupted is left out.
    """
    keeper = sequence.keeper
    if keeper is None or (design := keeper.policy.certified) is None:
        return CertificateRecord.none()
    unfinished = max(0, sequence.state.num_seen - len(sequence.request.prompt) - num_steps)
    steps = keeper.certificates[: len(keeper.certificates) - unfinished]
    found = Certificate.of(steps, keeper.policy.level, design.variance)
    if found.kind == "none":
        return CertificateRecord.none()
    return CertificateRecord(
        kind=found.kind,
        delta=found.delta,
        radius=found.first,
        mean=found.mean,
        largest=found.largest,
        per_layer=found.per_layer,
        steps=found.steps,
        assumptions=found.assumptions,
        says=_say(keeper.policy.level, len(found.steps)),
    )


def _say(delta: float, num_steps: int) -> str:
    """What the number is, in one sentence."""
    which = "the first six steps" if num_steps >= FIRST else f"{num_steps} step{'s' * (num_steps != 1)}"
    each = f"estimated relative errors of attention outputs, each at level {delta:g}"
    return f"{each}, averaged over layers and heads, largest of {which}; an average bounds nothing"
