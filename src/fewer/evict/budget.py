"""How many rows a layer and its heads may keep.

A budget counts rows per key-value head, and the protected rows (sinks, recent, question) are within it. A fraction is
of the tokens seen so far, not of the rows still held. Integers come out, and their totals are exact: over the layers
`num_layers * keep`, over the heads of a layer `kv_heads` times the layer's. Totals are smaller only where there are
fewer rows than that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fewer.errors import bad
from fewer.types import Keep
from fewer.types.number import check_number

__all__ = ["Budget", "apportion"]

_BETA = 20.0  # of the published experiments
_SAFEGUARD = 0.2


@dataclass(frozen=True, slots=True)
class Budget:
    """`keep` for every layer and head, or unevenly with the same total.

    layers: "uniform"; or "pyramid" (PyramidKV, Cai et al. 2024, arXiv 2406.02069): linear from many rows in layer 1 to
    few in the last. Of what is beyond the minimum that every head keeps anyway, the last layer has 1/beta of the mean
    and the first twice the mean less that. Where the first would have more rows than there are tokens, the line is
    flatter. The total is exact where the minimum is the same in all layers.

    heads: "equal"; or "adaptive" (Ada-KV, Feng et al. 2024, arXiv 2407.11550, algorithm 1): the layer's rows go to
    the heads by how many of the layer's highest scores are theirs; a part `safeguard` is shared equally. The scores of
    the heads have to be comparable, as shares of attention are. The paper's bound is on the L1 error of top-k, not of
    sampled designs.

    beta (at least 1, default 20) belongs to "pyramid", safeguard (0 to 1, default 0.2) to "adaptive"; elsewhere they
    are refused. Raises BadInput.
    """

    keep: Keep
    layers: Literal["uniform", "pyramid"] = "uniform"
    heads: Literal["equal", "adaptive"] = "equal"
    beta: float | None = None
    safeguard: float | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.keep, Keep):
            raise bad("keep", self.keep, "a Keep", 'Use Keep.parse("25%") or Keep(tokens=512).')
        if self.layers not in ("uniform", "pyramid"):
            raise bad("layers", self.layers, "'uniform' or 'pyramid'", "Use uniform, the same for every layer.")
        if self.heads not in ("equal", "adaptive"):
            raise bad("heads", self.heads, "'equal' or 'adaptive'", "Use equal, the same for every head.")
        if self.beta is not None:
            check_number("beta", self.beta, float, 1.0, None, "Leave it out for 20.")
            if self.layers != "pyramid":
                raise bad("beta", self.beta, "left out where layers is 'uniform'", "It belongs to layers='pyramid'.")
        if self.safeguard is not None:
            check_number("safeguard", self.safeguard, float, 0.0, 1.0, "Leave it out for 0.2.")
            if self.heads != "adaptive":
                raise bad("safeguard", self.safeguard, "left out where heads is 'equal'", "Use heads='adaptive'.")

    def at(
        self, layer: int, num_layers: int, num_rows: Tensor, num_tokens: int, score: Tensor, minimum: Tensor
    ) -> Tensor:
        """Rows to keep in each head of a layer: [kv_heads] int64, where the score is.

        layer: 1..num_layers. num_rows: [kv_heads], what each head holds. num_tokens: seen so far. score: [kv_heads, n]
        as a design gets it: inf is protected, -inf is padding or cannot stay. minimum: [kv_heads], at most num_rows:
        the protected rows, and one more where the design has to draw. A head that holds fewer rows than its share keeps
        them all; with "adaptive" the layer's other heads get the rest, with "equal" nobody does. Raises BadInput where
        the budget is below a minimum.
        """
        rows, low = num_rows.cpu().numpy(), minimum.cpu().numpy()
        kept = self._of_layer(layer, num_layers, num_tokens, int(low.max()))
        if self.heads == "equal":
            return torch.from_numpy(np.minimum(kept, rows)).to(score.device)
        total = min(kept * len(rows), int(rows.sum()))
        safeguard = _SAFEGUARD if self.safeguard is None else self.safeguard
        share = safeguard * kept + (1 - safeguard) * _count_highest(score, total)
        return torch.from_numpy(apportion(share, low, rows, total)).to(score.device)

    def check(self, num_tokens: int, minimum: int) -> None:
        """Raise BadInput where so many tokens have a budget below the minimum of every head."""
        self._of_layer(1, 1, num_tokens, minimum)

    def describe(self) -> Mapping[str, str | int | float | None]:
        """The settings, for the receipt."""
        settings: dict[str, str | int | float | None] = {
            "keep": str(self.keep),
            "layers": self.layers,
            "heads": self.heads,
        }
        if self.layers == "pyramid":
            settings["beta"] = _BETA if self.beta is None else self.beta
        if self.heads == "adaptive":
            settings["safeguard"] = _SAFEGUARD if self.safeguard is None else self.safeguard
        return settings

    def _of_layer(self, layer: int, num_layers: int, num_tokens: int, minimum: int) -> int:
        """Rows per head of this layer, at most `num_tokens`."""
        mean = self.keep.tokens if self.keep.tokens is not None else self.keep.count(num_tokens)
        if mean >= num_tokens:
            return num_tokens
        if mean < minimum:
            legal = f"at least {minimum} rows per head: what is protected, and one more where a design has to draw"
            raise bad("budget", f"{self.keep} ({mean} rows)", legal, "Keep more, or protect fewer tokens.")
        if self.layers == "uniform" or num_layers == 1:
            return mean
        last = minimum + (mean - minimum) / (_BETA if self.beta is None else self.beta)
        last = max(last, 2 * mean - num_tokens)
        line = np.linspace(2 * mean - last, last, num_layers)
        low, high = np.full(num_layers, minimum), np.full(num_layers, num_tokens)
        return int(apportion(line, low, high, num_layers * mean)[layer - 1])


def apportion(
    share: NDArray[np.float64], low: NDArray[np.int64], high: NDArray[np.int64], total: int
) -> NDArray[np.int64]:
    """Whole numbers near `share`, each from low to high, that add up to `total` or as near as the limits let them.

    Where a share is outside its limits, it is set to the limit and the others move by one common amount. Then each is
    rounded down, and what is missing goes to the largest remainders, the earlier of equal ones (Hamilton's method).
    Shares in order stay in order where the limits are the same for all. All arrays have one axis and one length.
    """
    total = min(max(total, int(low.sum())), int(high.sum()))
    breaks = np.sort(np.concatenate([low - share, high - share]))
    sums = np.clip(share + breaks[:, None], low, high).sum(1)  # grows with the common amount, linear between breaks
    exact = np.clip(share + np.interp(total, sums, breaks), low, high)
    whole: NDArray[np.int64] = np.clip(np.floor(exact + 1e-9), low, high).astype(np.int64)
    missing = total - int(whole.sum())
    remainder = np.where(whole < high, exact - whole, -1.0)
    whole[np.argsort(-np.round(remainder, 9), kind="stable")[:missing]] += 1
    return whole


def _count_highest(score: Tensor, count: int) -> NDArray[np.float64]:
    """How many of the `count` highest scores of all heads each head has; ties at the border are shared out evenly."""
    if count == 0:
        return np.zeros(score.shape[0])
    border = score.flatten().topk(count).values[-1]
    above, level = (score > border).sum(1).cpu().numpy(), (score == border).sum(1).cpu().numpy()
    counted: NDArray[np.float64] = above + level * ((count - above.sum()) / level.sum())
    return counted
