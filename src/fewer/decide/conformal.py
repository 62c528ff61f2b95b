"""A gate's threshold from held-out answers, by conformal risk control (Angelopoulos et al. 2022, arXiv 2208.02814).

Each answer has its signal's value and the loss of not recomputing it, from 0 to 1: for example 1 where the compressed
cache broke an answer that the full cache gets right. A recomputed answer is counted as loss 0, so the loss of an answer
under a threshold t is loss x 1{value <= t}, which only grows with t. The threshold is the largest t with

    n / (n + 1) x (mean loss under t) + 1 / (n + 1) <= alpha                  (their rule, for losses of at most B = 1)

and then the expected loss of one more answer is at most alpha (their theorem 1), IF that answer and the held-out ones
are exchangeable. The expectation is over the held-out data too: one calibration may be above alpha. Answers over one
prompt are not exchangeable one by one. With `clusters` the loss is the mean over a cluster's answers, n counts
clusters, and the claim is about the mean of a new cluster.

The theorem asks for a loss that is continuous from the side of safety, which this one is not at its jumps: the infimum
there is a number just below the first value that fails, and the inequality holds from every number below it.

Not covered: other models, policies, budgets, tasks or prompts than those the data come from; drift; a claim that holds
for this calibration with a stated probability; recomputing with anything that can itself break the answer.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate

import numpy as np

from fewer.decide.gate import LARGEST, as_value
from fewer.errors import bad
from fewer.types.number import check_number

__all__ = ["ControlledRisk", "control_risk"]


@dataclass(frozen=True, slots=True)
class ControlledRisk:
    """A threshold and what it did on the data it was chosen on; those are descriptions, only `alpha` is the claim.

    threshold: values above it are recomputed; the largest finite number where alpha allows to accept everything. risk:
    mean loss of what is accepted under it, over clusters. risk_without: the same if all were accepted. recomputed: the
    share of answers above it.
    """

    threshold: float
    alpha: float
    num_answers: int
    num_clusters: int
    risk: float
    risk_without: float
    recomputed: float


def control_risk(
    values: Sequence[float | None],
    losses: Sequence[float | bool],
    alpha: float,
    clusters: Sequence[Hashable] | None = None,
) -> ControlledRisk:
    """Choose the threshold as the module says. One value (None: no value, always recomputed) and loss each answer.

    clusters: of each answer, what makes answers belong together, such as the prompt; None: each is its own. Raises
    BadInput for numbers out of range, and for an alpha below 1 / (n + 1), at which even recomputing everything cannot
    be certified.
    """
    check_number("alpha", alpha, float, 0.0, 1.0, "0.1 is one broken answer in ten.", open_low=True)
    groups: Sequence[Hashable] = range(len(values)) if clusters is None else clusters
    for name, given in (("losses", losses), ("clusters", groups)):
        if len(given) != len(values):
            raise bad(f"the number of {name}", len(given), f"{len(values)}, one a value", "Pass one for every answer.")
    if not len(values):
        raise bad("values", [], "at least one answer", "Pass held-out answers.")
    lost = [_as_loss(loss) for loss in losses]
    sizes: dict[Hashable, int] = {}
    for group in groups:
        sizes[group] = sizes.get(group, 0) + 1
    count = len(sizes)
    most = Fraction(str(alpha)) * (count + 1) - 1  # of the clusters' losses added up, exactly
    if most < 0:
        what = "answers" if clusters is None else "clusters"
        legal = f"at least 1 / (n + 1) = {1 / (count + 1):.4g} with n = {count} {what}"
        way_out = f"Allow that much, or calibrate on at least {math.ceil(1 / Fraction(str(alpha))) - 1} {what}."
        raise bad("alpha", alpha, legal, way_out)
    found = [as_value(value) for value in values]
    if -LARGEST in found:
        raise bad("value", -math.inf, "above minus infinity", "No threshold is below it; pass None to recompute it.")
    order = sorted((value, index) for index, value in enumerate(found) if value is not None)
    ordered = np.array([value for value, _ in order])
    exact = (Fraction(str(lost[index])) / sizes[groups[index]] for _, index in order)
    sums = list(accumulate(exact))  # losses added up, if everything up to this one is accepted
    over = bisect_right(sums, most)  # the first that is too much
    threshold = LARGEST if over == len(order) else math.nextafter(ordered[over], -math.inf)
    accepted = int(np.searchsorted(ordered, threshold, side="right"))
    return ControlledRisk(
        threshold=threshold,
        alpha=alpha,
        num_answers=len(values),
        num_clusters=count,
        risk=float(sums[accepted - 1]) / count if accepted else 0.0,
        risk_without=sum(loss / sizes[group] for loss, group in zip(lost, groups, strict=True)) / count,
        recomputed=1 - accepted / len(values),
    )


def _as_loss(loss: object) -> float:
    """A number from 0 to 1, or whether the answer was broken. Raises BadInput."""
    number = float(loss) if isinstance(loss, (bool, np.bool_)) else as_value(loss)
    check_number("loss", number, float, 0.0, 1.0, "1 is an answer that the cache broke.")
    assert number is not None
    return number
