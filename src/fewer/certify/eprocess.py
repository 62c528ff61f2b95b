"""Evidence, readable at any time, that a cache hurts more than was allowed.

The null hypothesis of one head and one draw: the mean square error of its (linearised) output under the design is at
most `allowed` squared. It is a statement about two fixed numbers, and E[Vhat] is the first of them: so
1 + bet (Vhat/allowed^2 - 1) is never negative and is at most 1 on average while the null holds, which makes it an
e-value. No range has to be known, and there is no direction to choose: Vhat is a scalar.

What it is not: evidence that the error *of this draw* is large or small. Given what was kept, that error is not
identified; only its distribution over draws is. Not rejecting says nothing.
"""

from __future__ import annotations

import torch
from torch import Tensor

from fewer.certify.variance import check_delta
from fewer.errors import bad
from fewer.types.number import check_number

__all__ = ["EProcess"]


class EProcess:
    """One e-value per head and fresh draw; products over draws; the arithmetic mean over heads.

    Valid (Ville: the probability that `value` ever reaches 1/delta is at most delta, whenever one reads or stops) if

    1. every draw is independent of all that came before it, given the rows it drew from, and each is counted once;
    2. Vhat belongs to a query and an `allowed` that were fixed before that draw: in decoding, the first step after it;
    3. E[Vhat] is at most the variance. That is so for **Poisson designs** (independent draws) alone, exactly for the
       Horvitz-Thompson form, with the true y and N; for designs of fixed size the single sum was .56 to 1.95 times the
       variance on average on populations of eight, so with them this is no e-value. Hájek's form puts
       out and Nhat in their place, which moves the average by a share of the order 1/m in m sampled rows; raise
       `allowed` by what that may be.

    The mean over heads needs each head's product to be an e-process with respect to the history of *all* heads, which
    (1) gives; then heads may depend on each other in any way, also by sharing the draw. It tests that *all* heads'
    nulls hold: a rejection says that some head is worse than allowed, not which.

    bet: the share of the capital that is put on each draw, in (0, 1]; 1 is Vhat/allowed^2 itself and can lose it all.
    Sources: Vovk and Wang (2021) for means of e-values; Ville (1939). Raises BadInput.
    """

    def __init__(self, num_heads: int, bet: float = 0.5) -> None:
        check_number("num_heads", num_heads, int, 1, None, "Count the heads of all layers that are watched.")
        check_number("bet", bet, float, 0.0, 1.0, "0.5 is a fair choice.", open_low=True)
        self.bet = bet
        self.heads = torch.ones(num_heads, dtype=torch.float64)  # the product of each head
        self.largest = 1.0  # what `value` was at its largest
        self._last: int | None = None

    @property
    def value(self) -> float:
        """The mean of the heads' products, now."""
        return float(self.heads.mean())

    def add(self, draw: int, vhat: Tensor, allowed: Tensor) -> float:
        """One draw's e-values; returns `value`.

        draw: its number, above that of all before: the steps that share a draw share its luck, so a second of them
        is no new evidence, and a product over them is no e-value. vhat: [num_heads], squared units of the output.
        allowed: [num_heads] or one number, in units of the output, above 0, and known before the draw. Raises BadInput.
        """
        if self._last is not None and draw <= self._last:
            raise bad(
                "draw",
                draw,
                f"above {self._last}",
                "Steps that share a draw are not fresh evidence; add the first step after each draw and no other.",
            )
        squares, limits = vhat.detach().double().cpu().flatten(), allowed.detach().double().cpu()
        if squares.shape != self.heads.shape:
            raise bad("vhat", list(vhat.shape), f"{self.heads.numel()} numbers, one a head", "Pass every head's.")
        if not bool(((squares >= 0) & squares.isfinite()).all()):
            raise bad("vhat", squares.tolist(), "finite and at least 0", "Pass what the certifier measured.")
        if not bool(((limits > 0) & limits.isfinite()).all()):
            raise bad("allowed", limits.tolist(), "finite and above 0", "Pass the error that is allowed.")
        self.heads = self.heads * (1 + self.bet * (squares / limits.flatten().square() - 1))
        self._last = draw
        self.largest = max(self.largest, self.value)
        return self.value

    def rejects(self, delta: float) -> bool:
        """Whether the null was rejected at this level at any time so far. Raises BadInput as `radius` does."""
        return self.largest >= 1 / check_delta(delta)
