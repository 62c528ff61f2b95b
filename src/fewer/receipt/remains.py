"""Eviction and certificate on the page: what is left of the cache by layer and head, and radii by step and layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fewer.receipt import summary
from fewer.receipt.claims import CertificateRecord
from fewer.receipt.eviction import TENTHS, CompressionRecord, EvictionRecord
from fewer.receipt.model import Receipt
from fewer.receipt.picture import MAX_TITLE, Bar, Cell, Row, draw_steps
from fewer.receipt.units import clip, format_count, format_share


@dataclass(frozen=True, slots=True)
class Remains:
    """The section about eviction. Rows and bars are those of the last compression."""

    policy: str
    compressions: list[str]
    num_seen: int
    heads: list[Row]  # one for all heads where they keep alike
    pi_bars: list[Bar]  # none where the probabilities are not known
    pi_words: str
    most_rows: str  # in a tenth
    chunks: list[Row]  # of each chunk of the prompt, what the cache holds at the end


@dataclass(frozen=True, slots=True)
class Radii:
    """The pictures of a certificate; without bars where it claims nothing."""

    words: str
    steps: list[Bar]
    layers: list[Bar]
    highest_step: str
    highest_layer: str


def draw_remains(receipt: Receipt) -> Remains | None:
    """None where nothing was evicted."""
    record: EvictionRecord | None = receipt.eviction
    if record is None or not record.compressions:
        return None
    last = record.compressions[-1]
    return Remains(
        policy=summary.describe_policy(receipt.settings.evict or {}),
        compressions=[summary.describe_compression(each) for each in record.compressions],
        num_seen=last.num_seen,
        heads=_draw_heads(last),
        pi_bars=_draw_pi(last),
        pi_words=_count_pi(last),
        most_rows=f"{max(last.rows_by_pi or (0,)):,}",
        chunks=_draw_chunks(receipt, record),
    )


def draw_radii(claim: CertificateRecord) -> Radii:
    """Of each step, averaged over layers and heads, and of each layer, over heads; radii above 1 count as 1."""
    by_layer = claim.clipped_per_layer or ()
    highest = max(by_layer, default=0.0)
    return Radii(
        words=summary.describe_radii(claim),
        steps=draw_steps(claim.clipped_steps, _say_radius),
        layers=[
            Bar(value / (highest or 1.0), 0.0, f"layer {layer}: {value:.4g}") for layer, value in enumerate(by_layer, 1)
        ],
        highest_step=f"{max(claim.clipped_steps, default=0.0):.3g}",
        highest_layer=f"{highest:.3g}",
    )


def _say_radius(part: Sequence[float]) -> str:
    return f"radius {part[0]:.4g}" if len(part) == 1 else f"mean radius {sum(part) / len(part):.4g}"


def _draw_heads(last: CompressionRecord) -> list[Row]:
    kept = last.rows_after  # [L][heads]
    if all(len(set(heads)) <= 1 for heads in kept):
        return [_draw_head("every head", [heads[0] if heads else 0 for heads in kept], last.num_seen)]
    by_head = zip(*kept, strict=True)
    return [_draw_head(f"head {number}", list(rows), last.num_seen) for number, rows in enumerate(by_head, 1)]


def _draw_head(title: str, rows: list[int], num_seen: int) -> Row:
    cells = [
        Cell(
            count / num_seen,
            f"layer {layer}: {format_count(count, 'row')} of {format_count(num_seen, 'token')} "
            f"({format_share(count, num_seen)})",
        )
        for layer, count in enumerate(rows, 1)
    ]
    low, high = min(rows), max(rows)
    span = f"{low:,} to " if low < high else ""
    says = f"{title}: {span}{format_count(high, 'row')} a layer"
    return Row(title, f"{sum(rows):,}", format_share(sum(rows), num_seen * len(rows)), cells, says)


def _draw_chunks(receipt: Receipt, record: EvictionRecord) -> list[Row]:
    heads, drawn = receipt.model.num_kv_heads, []
    for number, (chunk, rows) in enumerate(zip(receipt.prompt.chunks, record.rows_per_chunk, strict=True), 1):
        full = (chunk.stop - chunk.start) * heads
        cells = [
            Cell(held / full if full else 0.0, f"layer {layer}: {held:,} of {format_count(full, 'row')} held")
            for layer, held in enumerate(rows, 1)
        ]
        share = format_share(sum(rows), full * len(rows))
        title = clip(chunk.title or f"chunk {number}", MAX_TITLE)
        says = f"{title}: {sum(rows):,} of {format_count(full * len(rows), 'row')} held"
        drawn.append(Row(title, f"{chunk.stop - chunk.start:,}", share, cells, says))
    return drawn


def _draw_pi(last: CompressionRecord) -> list[Bar]:
    counts = last.rows_by_pi or ()
    most = max(counts, default=0) or 1
    return [
        Bar(count / most, 0.0, f"pi {place / TENTHS:g} to {(place + 1) / TENTHS:g}: {format_count(count, 'row')}")
        for place, count in enumerate(counts)
    ]


def _count_pi(last: CompressionRecord) -> str:
    if last.rows_by_pi is None:
        return ""
    certain = format_count(last.num_certain, "row") + (" was" if last.num_certain == 1 else " were")
    return f"{certain} certain to stay (pi = 1), {format_count(sum(last.rows_by_pi), 'row')} stayed by chance"
