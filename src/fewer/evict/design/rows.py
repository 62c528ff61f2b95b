"""From which rows stay, as a mask, to the indices that the cache is gathered with."""

from __future__ import annotations

import torch
from torch import Tensor

from fewer.types import Sample, Selection

__all__ = ["as_sample", "as_selection"]

_BELOW_ONE = 1.0 - 2.0**-24  # the largest float32 below 1


def as_selection(stays: Tensor) -> Selection:
    """The rows that stay. stays: [kv_heads, n] bool. A head in which none does has count 0 and repeats row 0."""
    return Selection(*_list_rows(stays))


def as_sample(stays: Tensor, pi: Tensor, device: torch.device) -> Sample:
    """The rows that stay, with their probabilities, on a device. stays, pi: [kv_heads, n], pi in float64.

    The sample's pi is 1 only for rows that were certain: what float32 would round up to 1 is rounded down.
    """
    idx, count = _list_rows(stays)
    kept = pi.gather(1, idx)
    rounded = kept.float()
    rounded = torch.where(kept < 1.0, rounded.clamp(max=_BELOW_ONE), rounded)
    valid = torch.arange(idx.shape[1], device=idx.device) < count[:, None]
    return Sample(idx.to(device), count.to(device), torch.where(valid, rounded, 1.0).to(device))


def _list_rows(stays: Tensor) -> tuple[Tensor, Tensor]:
    """idx [kv_heads, m], ascending, its padding repeating the last row that counts; and the counts [kv_heads]."""
    count = stays.sum(1)
    widest = int(count.max()) if count.numel() else 0
    idx = (~stays).to(torch.uint8).sort(dim=1, stable=True).indices[:, :widest]
    last = idx.gather(1, (count[:, None] - 1).clamp(min=0)) if widest else idx
    valid = torch.arange(widest, device=idx.device) < count[:, None]
    return torch.where(valid, idx, torch.where(count[:, None] > 0, last, 0)), count
