"""Two receipts side by side: ratios of what was measured, and what forbids reading them.

A receipt holds no text, so two prompts count as the same when their lengths and chunks are. Not covered: noise; one
run of each says nothing about the spread of the seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BaseModel, Field, JsonValue

from fewer.receipt.fields import STRICT, Number, Text
from fewer.receipt.model import Receipt
from fewer.receipt.summary import describe_bypass

if TYPE_CHECKING:
    from rich.console import RenderableType

Kind = Literal["work", "first token", "decoding", "KV bytes", "certificate"]
EVERYTHING: tuple[Kind, ...] = ("work", "first token", "decoding", "KV bytes", "certificate")
SECONDS: tuple[Kind, ...] = ("first token", "decoding")
REVIVAL = ("tokens that came back", "token-layers for them", "states held, bytes")
EVICTION = ("evicting, s", "KV at its largest, bytes", "KV after the last eviction, bytes", "KV padding, bytes")
CERTIFICATE = ("certificate, first steps", "certificate, mean", "certificate, largest", "certificate, clipped")
OPTIONAL = {*REVIVAL, *EVICTION, *CERTIFICATE}  # left out where neither receipt has them

# What must be equal before a ratio may be read: its name, where it stands, and the kinds of number it matters to.
CONDITIONS: tuple[tuple[str, Callable[[Receipt], object], tuple[Kind, ...]], ...] = (
    ("the number of layers", lambda receipt: receipt.model.num_layers, EVERYTHING),
    ("the number of parameters", lambda receipt: receipt.model.num_parameters, EVERYTHING),
    ("the prompt's length", lambda receipt: receipt.prompt.num_tokens, EVERYTHING),
    ("the number of tokens read before", lambda receipt: receipt.prompt.num_before, ("work", "first token")),
    ("the number of decode steps", lambda receipt: receipt.computed.decode_steps, ("work", "KV bytes")),
    ("the kind of certificate", lambda receipt: receipt.certificate.kind, ("certificate",)),
    ("the certificate's level", lambda receipt: receipt.certificate.delta or "none", ("certificate",)),
    ("the number of certified steps", lambda receipt: len(receipt.certificate.steps), ("certificate",)),
    ("the dtype", lambda receipt: receipt.run.dtype, (*SECONDS, "KV bytes")),
    ("the weights' format", lambda receipt: receipt.run.weights, SECONDS),
    ("the device", lambda receipt: receipt.run.device, SECONDS),
    ("the number of threads", lambda receipt: receipt.run.num_threads, SECONDS),
    ("the number of batch mates", lambda receipt: receipt.run.batch_mates, SECONDS),
    ("sharing of the prefill", lambda receipt: receipt.run.shared_prefill, SECONDS),
    ("the version of torch", lambda receipt: receipt.versions.torch, SECONDS),
    ("the version of transformers", lambda receipt: receipt.versions.transformers, SECONDS),
    ("the version of Python", lambda receipt: receipt.versions.python, SECONDS),
)


class Quantity(BaseModel):
    """One measured number of both receipts."""

    model_config = STRICT

    name: Text
    """What it is, with its unit."""
    kind: Kind
    """What it depends on, as in the notes."""
    this: Annotated[Number, Field(ge=0)] | None
    """In the receipt that was asked, or null where it has none."""
    other: Annotated[Number, Field(ge=0)] | None
    """In the receipt it was compared with, or null where it has none."""
    ratio: Annotated[Number, Field(ge=0)] | None
    """this / other; null where either is missing or other is 0."""
    comparable: bool
    """Whether no note forbids reading the ratio."""


class Comparison(BaseModel):
    """The numbers of two receipts. Ratios are this over other: below 1, this one is smaller."""

    model_config = STRICT

    quantities: tuple[Quantity, ...]
    """The numbers, work first."""
    differences: tuple[Text, ...]
    """How the two requests were set differently: usually what the comparison is about."""
    not_comparable: tuple[Text, ...]
    """What differs although it was not the request's setting, and which ratios that forbids reading."""

    def to_table(self) -> RenderableType:
        """A table for the terminal, from 60 columns on; print it with rich."""
        from fewer.receipt.table import ComparisonTable

        return ComparisonTable(self)


def compare_receipts(this: Receipt, other: Receipt) -> Comparison:
    """The ratios this / other, the settings that differ, and the reasons why a ratio may not be read."""
    reasons = _list_reasons(this, other)
    spoilt = {kind for _, kinds in reasons for kind in kinds}
    quantities = []
    for (name, kind, left), (_, _, right) in zip(_list_numbers(this), _list_numbers(other), strict=True):
        if left is None and right is None and name in OPTIONAL:
            continue
        ratio = left / right if left is not None and right else None
        quantities.append(
            Quantity(name=name, kind=kind, this=left, other=right, ratio=ratio, comparable=kind not in spoilt)
        )
    there = {each.kind for each in quantities}
    notes = []
    for reason, kinds in reasons:
        if shown := [kind for kind in kinds if kind in there]:
            notes.append(f"{', '.join(shown)}: not comparable because {reason}")
    differences = _list_differences(this, other)
    return Comparison(quantities=tuple(quantities), differences=differences, not_comparable=tuple(notes))


def _list_numbers(receipt: Receipt) -> list[tuple[str, Kind, float | None]]:
    work, seconds, each = receipt.computed, receipt.seconds, receipt.seconds.per_output_token_s
    revival = receipt.revival
    back = (revival.num_revived, revival.token_layers_revived, revival.aux_bytes) if revival else (None, None, None)
    claim, eviction, memory = receipt.certificate, receipt.eviction, receipt.memory
    evicted: tuple[float | None, ...] = (None,) * len(EVICTION)
    if eviction and eviction.compressions:
        left = eviction.compressions[-1].bytes_after
        evicted = (seconds.evict_s, eviction.most_bytes, left, sum(memory.kv_padding_bytes_per_layer))
    return [
        ("token-layers computed", "work", work.token_layers_computed),
        ("token-layers skipped", "work", work.token_layers_skipped),
        (REVIVAL[0], "work", back[0]),
        (REVIVAL[1], "work", back[1]),
        ("prefill, s", "first token", seconds.prefill_s),
        ("first token, s", "first token", seconds.first_token_s),
        ("later token (median), s", "decoding", each.median if each else None),
        (EVICTION[0], "first token", evicted[0]),
        ("KV in use, bytes", "KV bytes", sum(memory.kv_used_bytes_per_layer)),
        ("KV held, bytes", "KV bytes", memory.kv_total_bytes),
        (REVIVAL[2], "KV bytes", back[2]),
        *((name, "KV bytes", count) for name, count in zip(EVICTION[1:], evicted[1:], strict=True)),
        (CERTIFICATE[0], "certificate", claim.radius if claim.kind != "bound" else None),
        (CERTIFICATE[1], "certificate", claim.mean),
        (CERTIFICATE[2], "certificate", claim.largest),
        (CERTIFICATE[3], "certificate", claim.clipped),
    ]


def _list_reasons(this: Receipt, other: Receipt) -> list[tuple[str, tuple[Kind, ...]]]:
    """Every condition that is not met, and the kinds of number it matters to."""
    reasons = []
    left, right = this.model, other.model
    if left.sha256 and right.sha256:
        if left.sha256 != right.sha256:
            found = f"the weights differ: SHA-256 {left.sha256[:12]} here, {right.sha256[:12]} there"
            reasons.append((found, EVERYTHING))
    elif left.name != right.name:
        reasons.append((f"the model is {left.name} here and {right.name} there", EVERYTHING))
    for fact, read, kinds in CONDITIONS:
        if read(this) != read(other):
            reasons.append((f"{fact} is {read(this)} here and {read(other)} there", kinds))
    spans, others = ([(chunk.title, chunk.start, chunk.stop) for chunk in each.prompt.chunks] for each in (this, other))
    if spans != others and this.prompt.num_tokens == other.prompt.num_tokens:
        reasons.append(("the chunks have other titles or other places", EVERYTHING))
    return reasons


def _list_differences(this: Receipt, other: Receipt) -> tuple[str, ...]:
    """One sentence for each setting that differs, and for each pruning or eviction that left nothing out."""
    pairs: list[tuple[str, object, object]] = [
        ("fewer's version", this.versions.fewer, other.versions.fewer),
        ("seed", this.run.seed, other.run.seed),
        ("the gate", _write_gate(this), _write_gate(other)),
    ]
    for part in ("sampling", "prune", "evict"):
        left, right = getattr(this.settings, part), getattr(other.settings, part)
        if left is None or right is None:
            pairs.append((part, _write_settings(left), _write_settings(right)))
        else:
            names = [*left, *(name for name in right if name not in left)]
            pairs += [(f"{part}.{name}", left.get(name, "absent"), right.get(name, "absent")) for name in names]
    found = [f"{name} is {left} here and {right} there" for name, left, right in pairs if left != right]
    found += [f"{describe_bypass(this)} here: {reason}" for reason in this.bypass]
    found += [f"{describe_bypass(other)} there: {reason}" for reason in other.bypass]
    return tuple(found)


def _write_gate(receipt: Receipt) -> str:
    if receipt.gate is None:
        return "none"
    return f"{receipt.gate.rule}, which {'had it computed again' if receipt.gate.fired else 'let it stand'}"


def _write_settings(settings: dict[str, JsonValue] | None) -> str:
    return "none" if settings is None else "(" + ", ".join(f"{name} {value}" for name, value in settings.items()) + ")"
