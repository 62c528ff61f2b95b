"""A slow reference for pruning that is decided anew at every step: float64, from the definitions.

A whole generation is one dense pass in which row t of layer l sees the set that was chosen when t went through l. The
sets are chosen as the steps come, by the dense pass's own attention weights. It shares no code with the package.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from reference import Dense, Windows


@dataclass
class Lazy:
    """One generation over given tokens. stops: how many prompt tokens go on after a layer (1..L)."""

    dense: Dense
    windows: Windows
    ids: Tensor  # the prompt and all that follows
    prompt_len: int
    stops: dict[int, int]
    protected: frozenset[int]
    per_step: bool = True
    revive: bool = True
    limit: int | None = None
    floor: float = 0.0
    seen: list[dict[int, set[int]]] = field(init=False)  # by layer: what each row that went through it saw
    first: dict[int, dict[int, float]] = field(default_factory=dict)  # the prefill's scores, by stop
    chosen: list[dict[int, list[int]]] = field(default_factory=list)  # by step and stop
    revived: list[int] = field(default_factory=list)  # by step
    worked: list[int] = field(default_factory=list)  # by step: token-layers of prompt tokens

    def __post_init__(self) -> None:
        self.seen = [{} for _ in self.windows]

    def step(self) -> Tensor:
        """The logits of the newest row: of the prompt at first, then of one more token at a time."""
        total = self.prompt_len + len(self.chosen)
        active, generated, moved = set(range(self.prompt_len)), set(range(self.prompt_len, total)), set()
        self.chosen.append({})
        self.revived.append(0)
        self.worked.append(0)
        for layer, seen in enumerate(self.seen, 1):
            for row in sorted(active | generated):
                if row not in seen:
                    seen[row] = {key for key in active | generated if key <= row}
                    if row < self.prompt_len:
                        moved.add(row)
                        self.worked[-1] += 1
            if layer in self.stops:
                active = self._choose(layer, active, total, moved)
        return self._run(total)[0][total - 1]

    def _choose(self, layer: int, active: set[int], total: int, moved: set[int]) -> set[int]:
        later = len(self.chosen) > 1
        if later and not self.per_step:
            score = {token: self.first[layer].get(token, -1.0) for token in active}
        else:
            newest = self._run(total)[1][layer - 1][:, total - 1].mean(0)
            score = {token: float(newest[token]) for token in active}
        order = sorted(active - self.protected, key=lambda token: (-score[token], token))
        room = max(0, self.stops[layer] - len(self.protected), 0 if self.protected else 1)
        kept = set(order if later and not self.per_step else order[:room]) | self.protected
        if not later:
            self.first[layer] = score
        else:
            above = self.seen[layer] if layer < len(self.seen) else {}
            waiting = [token for token in order if token in kept and token not in above]
            least = self.floor * sum(score.values()) / len(score) if self.per_step else float("-inf")
            waiting = [token for token in waiting if score[token] >= least]
            back = [] if not self.revive else waiting if self.limit is None else waiting[: self.limit]
            kept = {token for token in kept if token in above} | set(back)
            self.revived[-1] += len(set(back) - moved)
        self.chosen[-1][layer] = sorted(kept)
        return kept

    def _run(self, total: int) -> tuple[Tensor, list[Tensor]]:
        bias = torch.full((len(self.windows), total, total), float("-inf"), dtype=torch.float64)
        for layer, window in enumerate(self.windows):
            for row in range(total):
                for key in self.seen[layer].get(row, {row}) | {row}:
                    if window is None or row - key < window:
                        bias[layer, row, key] = 0.0
        return self.dense.run(self.ids[:total], bias)
