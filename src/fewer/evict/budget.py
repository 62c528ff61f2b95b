"""How many rows a layer and its heads may keep.

A budget counts rows per key-value head, and the protected rows (sinks, recent, question) are within it. A fraction is
of the tokens seen so far, not of the rows still held. Integers come out, and their totals are exact: over the layers
`num_layers * keep`, over the heads of a layer `kv_heads` times the layer's. Totals are smaller only where there are
fewer rows than that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    flatter. The total is exact where the minimum is the same in all layers. Or "adaptive" (KVzip, Kim et al. 2025,
    arXiv 2505.23416): rows go to the layers by how many of the highest scores of all layers are theirs. With "equal"
    heads a layer is as wide as the head that has most of them, and the others get as many: nothing is padded.

    heads: "equal"; or "adaptive" (Ada-KV, Feng et al. 2024, arXiv 2407.11550, algorithm 1): the layer's rows go to
    the heads by how many of the layer's highest scores are theirs. With "adaptive" layers, those of all layers count,
    and there is one total over all of them. The paper's bound is on the L1 error of top-k, not of sampled designs.

    Where something is adaptive, a part `safeguard` of the rows is shared equally, and the scores have to be comparable,
    as shares of attention are. Heads that keep more rows than others of their layer cost padding in those.

    beta (at least 1, default 20) belongs to "pyramid", safeguard (0 to 1; default 0.2 with adaptive heads, else 0) to
    "adaptive"; elsewhere they are refused. Raises BadInput.
    """

    keep: Keep
    layers: Literal["uniform", "pyramid", "adaptive"] = "uniform"
    heads: Literal["equal", "adaptive"] = "equal"
    beta: float | None = None
    safeguard: float | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.keep, Keep):
            raise bad("keep", self.keep, "a Keep", 'Use Keep.parse("25%") or Keep(tokens=512).')
        if self.layers not in ("uniform", "pyramid", "adaptive"):
            legal = "'uniform', 'pyramid' or 'adaptive'"
            raise bad("layers", self.layers, legal, "Use uniform, the same for every layer.")
        if self.heads not in ("equal", "adaptive"):
            raise bad("heads", self.heads, "'equal' or 'adaptive'", "Use equal, the same for every head.")
        if self.beta is not None:
            check_number("beta", self.beta, float, 1.0, None, "Leave it out for 20.")
            if self.layers != "pyramid":
                legal = f"left out where layers is {self.layers!r}"
                raise bad("beta", self.beta, legal, "It belongs to layers='pyramid'.")
        if self.safeguard is not None:
            check_number("safeguard", self.safeguard, float, 0.0, 1.0, "Leave it out for 0.2.")
            if "adaptive" not in (self.layers, self.heads):
                legal = "left out where neither layers nor heads is 'adaptive'"
                raise bad("safeguard", self.safeguard, legal, "Use layers='adaptive' or heads='adaptive'.")

    def over(
        self, num_rows: Sequence[Tensor], num_tokens: int, scores: Sequence[Tensor], minimums: Sequence[Tensor]
    ) -> list[Tensor]:
        """Rows to keep in each head of each layer: [kv_heads] int64 a layer, where its score is.

        By layer: num_rows, [kv_heads], what each head holds; scores, [kv_heads, n] as a design gets it: inf is
        protected, -inf is padding or cannot stay; minimums, [kv_heads], at most num_rows: the protected rows, and one
        more where the design has to draw. num_tokens: seen so far. A head that holds fewer rows than its share keeps
        them all; where heads (or layers) are "adaptive" the others get the rest, with "equal" nobody does. Raises
        BadInput where the budget is below a minimum.
        """
        if self.layers == "adaptive":
            return self._over_all(num_rows, num_tokens, scores, minimums)
        of_each = zip(num_rows, scores, minimums, strict=True)
        return [
            self._at(layer, len(scores), rows, num_tokens, score, low)
            for layer, (rows, score, low) in enumerate(of_each, 1)
        ]

    def _over_all(
        self, num_rows: Sequence[Tensor], num_tokens: int, scores: Sequence[Tensor], minimums: Sequence[Tensor]
    ) -> list[Tensor]:
        """Over all layers at once. With equal heads, what a layer keeps is the same in each."""
        rows, low = torch.stack(list(num_rows)).cpu().numpy(), torch.stack(list(minimums)).cpu().numpy()  # [L, kv]
        mean = self._of_layer(1, 1, num_tokens, int(low.max()))
        if self.heads == "equal":  # the j-th highest score of a layer's heads is what its j-th row is worth
            scores = [score.sort(dim=1, descending=True).values.amax(0, keepdim=True) for score in scores]
            low, rows = low.max(1, keepdims=True), rows.max(1, keepdims=True)
        total = min(mean * rows.size, int(rows.sum()))
        share = self._share(_count_highest(scores, total).reshape(rows.shape), mean)
        kept = apportion(share.ravel(), low.ravel(), rows.ravel(), total).reshape(rows.shape)
        return [
            torch.from_numpy(row).to(some.device).expand_as(some).minimum(some)
            for row, some in zip(kept, num_rows, strict=True)
        ]

    def _at(
        self, layer: int, num_layers: int, num_rows: Tensor, num_tokens: int, score: Tensor, minimum: Tensor
    ) -> Tensor:
        """Of one layer, from 1."""
        rows, low = num_rows.cpu().numpy(), minimum.cpu().numpy()
        kept = self._of_layer(layer, num_layers, num_tokens, int(low.max()))
        if self.heads == "equal":
            return torch.from_numpy(np.minimum(kept, rows)).to(score.device)
        total = min(kept * len(rows), int(rows.sum()))
        share = self._share(_count_highest([score], total), kept)
        return torch.from_numpy(apportion(share, low, rows, total)).to(score.device)

    def _share(self, counted: NDArray[np.float64], mean: int) -> NDArray[np.float64]:
        """Of the highest scores, with the part that is shared equally."""
        safeguard = self._safeguard
        return safeguard * mean + (1 - safeguard) * counted

    @property
    def _safeguard(self) -> float:
        usual = _SAFEGUARD if self.heads == "adaptive" else 0.0
        return usual if self.safeguard is None else self.safeguard

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
        if "adaptive" in (self.layers, self.heads):
            settings["safeguard"] = self._safeguard
        return settings

    def _of_layer(self, layer: int, num_layers: int, num_tokens: int, minimum: int) -> int:
        """Rows per head of this layer, at most `num_tokens`."""
        mean = self.keep.tokens if self.keep.tokens is not None else self.keep.count(num_tokens)
        if mean >= num_tokens:
            return num_tokens
        if mean < minimum:
            legal = f"at least {minimum} rows per head: what is protected, and one more where a design has to draw"
            raise bad("budget", f"{self.keep} ({mean} rows)", legal, "Keep more, or protect fewer tokens.")
        if self.layers != "pyramid" or num_layers == 1:
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


def _count_highest(scores: Sequence[Tensor], count: int) -> NDArray[np.float64]:
    """How many of the `count` highest scores each head has, layer by layer; ties at the border are shared out evenly.

    scores: [kv_heads, n] a layer.
    """
    if count == 0:
        return np.zeros(sum(score.shape[0] for score in scores))
    border = torch.cat([score.flatten() for score in scores]).topk(count).values[-1]
    above, level = (
        torch.cat([where.sum(1) for where in marked]).cpu().numpy()
        for marked in ([score > border for score in scores], [score == border for score in scores])
    )
    counted: NDArray[np.float64] = above + level * ((count - above.sum()) / level.sum())
    return counted
