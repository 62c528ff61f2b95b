"""What a row says of an answer's cache, by its receipt: rows that stayed, bytes, seconds and the certificate."""

from __future__ import annotations

from typing import Any

from fewer.receipt import Receipt
from fewer.study.item import Item

__all__ = ["describe_eviction", "left_something_out", "share_supporting"]


def describe_eviction(receipt: Receipt) -> dict[str, Any]:
    """The row's columns; none where nothing was to be evicted."""
    eviction, certificate = receipt.eviction, receipt.certificate
    if eviction is None:
        return {}
    row: dict[str, Any] = {
        "kv_kept_fraction": _share_held(receipt),
        "kv_most_bytes": eviction.most_bytes or None,
        "evict_s": receipt.seconds.evict_s,
    }
    if certificate.kind != "none":
        row |= {
            "certificate": certificate.radius,
            "certificate_mean": certificate.mean,
            "certificate_largest": certificate.largest,
        }
    return row


def share_supporting(item: Item, receipt: Receipt, swallowed: int) -> float | None:
    """Of the rows of the supporting chunks' tokens, all layers and heads, the share held at the answer's end.

    None without eviction, and where no supporting chunk is in the prompt. swallowed: how many of the item's first
    chunks lie among the sinks, and are not the receipt's.
    """
    if receipt.eviction is None or not item.supporting:
        return None
    chunks, rows = receipt.prompt.chunks, receipt.eviction.rows_per_chunk
    places = [i - swallowed for i in item.supporting if 0 <= i - swallowed < len(chunks)]
    tokens = sum(chunks[place].stop - chunks[place].start for place in places)
    full = tokens * receipt.model.num_layers * receipt.model.num_kv_heads
    return sum(sum(rows[place]) for place in places) / full if full else None


def left_something_out(receipt: Receipt) -> bool:
    """Whether a method did anything, so that the answer is not a full run's."""
    tokens = receipt.prompt.num_tokens
    pruned = any(plan.num_dropped for plan in receipt.plans) or receipt.computed.prefill_rows_per_layer[-1] < tokens
    return pruned or (receipt.eviction is not None and bool(receipt.eviction.compressions))


def _share_held(receipt: Receipt) -> float:
    """Rows held once the prompt was read and compressed, over those of a full run: the mean over layers and heads."""
    tokens, memory = receipt.prompt.num_tokens, receipt.memory
    compressions = receipt.eviction.compressions if receipt.eviction is not None else ()
    cells = receipt.model.num_layers * receipt.model.num_kv_heads
    inside = [one for one in compressions if one.num_seen <= tokens]
    if inside:  # what was read after the last of them was added whole
        return (sum(map(sum, inside[-1].rows_after)) / cells + tokens - inside[-1].num_seen) / tokens
    if compressions:  # only while decoding: a row a step had come before the first
        return (sum(map(sum, compressions[0].rows_before)) / cells + tokens - compressions[0].num_seen) / tokens
    steps = receipt.computed.decode_steps
    used = sum(memory.kv_used_bytes_per_layer) / sum(memory.kv_bytes_full_estimate)
    return (used * (tokens + steps) - steps) / tokens
