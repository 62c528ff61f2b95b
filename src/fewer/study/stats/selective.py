"""Selective prediction: the risk of the answers that are kept when only the most confident ones are.

The selective risk at coverage c is the mean loss of the c n most confident items. Items of equal confidence have no
order, so every number here is the exact expectation over their orders; an item at the border counts by the part of
it that fits. AURC is the mean of the selective risks at coverages 1/n, 2/n, ..., 1, and E-AURC is what it has above
the least possible, that of sorting by the loss itself (Geifman, Uziel and El-Yaniv 2019). Confidence that says nothing
has an expected AURC of the mean loss.

Not covered: choosing a threshold with a guarantee. The risk at a coverage that was picked because its risk was low is
optimistic.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fewer.errors import bad
from fewer.study.stats.bootstrap import Resampling, Statistic, bootstrap, check_resampling
from fewer.study.stats.results import Interval
from fewer.study.stats.sample import Clusters, Floats, Labels, read_clusters, read_levels, read_numbers


@dataclass(frozen=True, slots=True, eq=False)
class RiskCoverage:
    """Selective risk (n,) at coverages 1/n, 2/n, ..., 1 (n,)."""

    coverage: Floats
    risk: Floats


def risk_coverage(confidence: ArrayLike, losses: ArrayLike) -> RiskCoverage:
    """The curve. `losses` (items,) are any finite losses, 0/1 or graded; `confidence` (items,) is higher if surer."""
    sure, lost = _read(confidence, losses)
    n = sure.size
    ranking = Ranking(sure, lost, Clusters(np.zeros(n, dtype=np.intp), 1))
    ones = np.ones((1, 1))
    items, losses = (np.append(0.0, np.cumsum(table @ ones)) for table in (ranking.items, ranking.losses))
    kept = np.arange(1, n + 1)
    return RiskCoverage(kept / n, np.interp(kept, items, losses) / kept)


def aurc(
    confidence: ArrayLike,
    losses: ArrayLike,
    clusters: Labels,
    *,
    method: Resampling = "bca",
    level: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> Interval:
    """The area under the risk-coverage curve; lower is better, and it depends on how hard the items are."""
    sure, lost = _read(confidence, losses)
    sample = read_clusters(clusters, sure.size)
    ranking = Ranking(sure, lost, sample)
    return bootstrap(
        ranking.area, sample, method=method, level=level, resamples=resamples, seed=seed, scale=ranking.scale
    )


def excess_aurc(
    confidence: ArrayLike,
    losses: ArrayLike,
    clusters: Labels,
    *,
    method: Resampling = "bca",
    level: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> Interval:
    """AURC minus that of the best order there is: 0 where confidence sorts the items by their loss."""
    sure, lost = _read(confidence, losses)
    sample = read_clusters(clusters, sure.size)
    ranking, best = Ranking(sure, lost, sample), Ranking(-lost, lost, sample)

    def excess(counts: Floats) -> Floats:
        return ranking.area(counts) - best.area(counts)

    return bootstrap(excess, sample, method=method, level=level, resamples=resamples, seed=seed, scale=ranking.scale)


def selective_risk(
    confidence: ArrayLike,
    losses: ArrayLike,
    clusters: Labels,
    coverages: Sequence[float],
    *,
    method: Resampling = "bca",
    level: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> list[Interval]:
    """The selective risk at each of the coverages (above 0, up to 1); every resample finds its own threshold."""
    sure, lost = _read(confidence, losses)
    sample = read_clusters(clusters, sure.size)
    check_resampling(method, level, resamples, seed)
    ranking = Ranking(sure, lost, sample)
    statistics = [ranking.risk_at(coverage) for coverage in coverages]
    return [
        bootstrap(statistic, sample, method=method, level=level, resamples=resamples, seed=seed, scale=ranking.scale)
        for statistic in statistics
    ]


class Ranking:
    """Items by falling confidence, as functions of how often each cluster was drawn: counts (clusters, r) -> (r,)."""

    def __init__(self, confidence: Floats, losses: Floats, sample: Clusters) -> None:
        levels = read_levels(-confidence)
        self.items = sample.table(levels, np.ones_like(losses))  # (levels, clusters)
        self.losses = sample.table(levels, losses)
        self.scale = float(np.abs(losses).max())

    def area(self, counts: Floats) -> Floats:
        """AURC. A level of g items with mean loss m, after b items with loss B, adds sum over t = 1..g of
        (B + t m) / (b + t) = g m + (B - b m) (H(b + g) - H(b)), with the harmonic numbers H.
        """
        items, losses = self.items @ counts, self.losses @ counts
        after, lost = np.cumsum(items, axis=0), np.cumsum(losses, axis=0)
        before = after - items
        typical = np.divide(losses, items, out=np.zeros_like(losses), where=items > 0)
        harmonic = np.concatenate([[0.0], np.cumsum(1 / np.arange(1, after.max() + 1))])
        steps = harmonic[after.astype(np.intp)] - harmonic[before.astype(np.intp)]
        areas: Floats = (losses + (lost - losses - before * typical) * steps).sum(axis=0) / after[-1]
        return areas

    def risk_at(self, coverage: float) -> Statistic:
        """The selective risk at one coverage."""
        if not 0 < coverage <= 1:
            raise bad("coverage", coverage, "above 0 and up to 1", "Coverage is the share of items that are kept.")

        def risk(counts: Floats) -> Floats:
            items, losses = self.items @ counts, self.losses @ counts
            after = np.cumsum(items, axis=0)
            kept = coverage * after[-1]
            part = np.clip((kept - (after - items)) / np.maximum(items, 1), 0, 1)  # of each level, in [0, 1]
            risks: Floats = (part * losses).sum(axis=0) / kept
            return risks

        return risk


def _read(confidence: ArrayLike, losses: ArrayLike) -> tuple[Floats, Floats]:
    lost = read_numbers("losses", losses)
    if lost.size == 0:
        raise bad("len(losses)", 0, "1 or more", "A risk needs items.")
    return read_numbers("confidence", confidence, size=lost.size), lost
