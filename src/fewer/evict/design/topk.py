"""Top-k: the rows with the largest scores stay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from fewer.evict.design.rows import as_selection
from fewer.evict.inclusion import count_rows
from fewer.types import Selection

__all__ = ["TopK"]


@dataclass(frozen=True, slots=True)
class TopK:
    """Keep exactly `keep` rows per head, those with the largest scores; of equal scores the later row stays.

    Nothing is drawn, so nothing is known about what an evicted row would have added: there is no variance, no
    certificate, and no estimator but plug-in. Scores may be negative; only their order counts.
    """

    @property
    def name(self) -> str:
        """Its name on the command line and on receipts."""
        return "topk"

    def draw(self, score: Tensor, keep: Tensor, generator: torch.Generator) -> Selection:
        """Choose; the generator is not used. As in `fewer.types.Design`. Runs on the device of `score`."""
        rows, _ = count_rows(score, keep)
        stays = torch.zeros(score.shape, dtype=torch.bool, device=score.device)
        order = score.shape[1] - 1 - score.flip(1).sort(dim=1, descending=True, stable=True).indices
        rank = torch.arange(score.shape[1], device=score.device)
        best = rank < torch.minimum(keep.to(score.device), rows)[:, None]
        return as_selection(stays.scatter(1, order, best))

    def describe(self) -> Mapping[str, str | int | float | None]:
        """No settings."""
        return {}
