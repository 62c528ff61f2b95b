"""Designs: how rows are chosen by their scores. All but top-k draw with known probabilities.

What the probabilities give: sum_S x / pi is an unbiased estimate of sum x, for any x and however bad the score. Drawing
again from a sample multiplies them. The product is not the probability to survive both draws, since the second one's
depends on what the first left; it is what the estimate stays unbiased with (two-phase sampling; Särndal, Swensson and
Wretman 1992, chapter 9).

What they do not give is the variance, which also needs how often pairs stay together. Poisson's single sum is exact for
Poisson. In the pivotal and conditional Poisson designs pairs meet at most as often as independent rows, so the single
sum is an upper bound for numbers of one sign; deviations from an attention output sum to 0 and have both signs, and for
those it is not: with few rows the true variance can be twice as large.
"""

from __future__ import annotations

from collections.abc import Callable

from fewer.evict.design.conditional_poisson import ConditionalPoisson
from fewer.evict.design.pivotal import Pivotal
from fewer.evict.design.poisson import Poisson
from fewer.evict.design.systematic import Systematic
from fewer.evict.design.topk import TopK
from fewer.types import Design

__all__ = ["DESIGNS", "ConditionalPoisson", "Pivotal", "Poisson", "Systematic", "TopK"]

DESIGNS: dict[str, Callable[..., Design]] = {
    "topk": TopK,
    "poisson": Poisson,
    "systematic": Systematic,
    "pivotal": Pivotal,
    "conditional-poisson": ConditionalPoisson,
}
