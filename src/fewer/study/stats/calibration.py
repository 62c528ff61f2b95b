"""Whether probabilities come true as often as they say: reliability, calibration error, Brier score.

`labels` are 0/1 outcomes and `probabilities` what was forecast for the outcome 1, both (items,).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fewer.errors import bad
from fewer.study.stats.bins import BinnedMean, Scheme, binned_means, find_bins
from fewer.study.stats.means import mean
from fewer.study.stats.ratio import Method
from fewer.study.stats.results import Interval
from fewer.study.stats.sample import Codes, Floats, Labels, read_numbers, read_outcomes


@dataclass(frozen=True, slots=True)
class CalibrationError:
    """The expected calibration error, and what it would be on average if the probabilities were exactly right."""

    value: float
    if_calibrated: float
    bins: int  # that hold items
    n: int


@dataclass(frozen=True, slots=True)
class BrierParts:
    """score = reliability - resolution + uncertainty + within_bins, exactly."""

    score: float
    reliability: float  # mean squared gap between a bin's mean probability and its share of ones; 0 is best
    resolution: float  # mean squared distance of the bins' shares of ones from the overall share; larger is better
    uncertainty: float  # of the outcome itself, p (1 - p)
    within_bins: float  # what probabilities that differ inside a bin add (Stephenson, Coelho and Jolliffe 2008)


def reliability(
    labels: ArrayLike,
    probabilities: ArrayLike,
    clusters: Labels,
    *,
    bins: int = 10,
    scheme: Scheme = "mass",
    level: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> list[BinnedMean]:
    """The share of ones with its interval in each bin of probability; calibrated where it equals the bin's `centre`."""
    truth, forecast = _read(labels, probabilities)
    return binned_means(
        truth,
        forecast,
        clusters,
        bins=bins,
        scheme=scheme,
        span=(0, 1),
        level=level,
        resamples=resamples,
        seed=seed,
    )


def calibration_error(
    labels: ArrayLike, probabilities: ArrayLike, *, bins: int = 10, scheme: Scheme = "mass"
) -> CalibrationError:
    """The mean over items of |share of ones - mean probability| in the item's bin (Naeini et al. 2015).

    A mean of absolute values is never 0 by luck: with few items per bin even perfect probabilities have a large one.
    Compare with `if_calibrated`, its expectation for independent outcomes that come true exactly as often as forecast
    (by the normal approximation of each bin's sum). No interval is given: the bootstrap adds the same bias again.
    """
    truth, forecast = _read(labels, probabilities)
    codes = find_bins(forecast, bins, scheme, (0, 1))
    gaps = np.abs(_sum(codes, truth - forecast))
    chance = np.sqrt(2 / np.pi * _sum(codes, forecast * (1 - forecast)))
    filled = int(np.unique(codes).size)
    return CalibrationError(float(gaps.sum() / truth.size), float(chance.sum() / truth.size), filled, truth.size)


def brier(
    labels: ArrayLike,
    probabilities: ArrayLike,
    clusters: Labels,
    *,
    method: Method = "bca",
    level: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> Interval:
    """The mean squared difference of probability and outcome; lower is better, 0.25 is a coin forecast as 0.5."""
    truth, forecast = _read(labels, probabilities)
    errors = (forecast - truth) ** 2
    return mean(errors, clusters, method=method, bounds=(0, 1), level=level, resamples=resamples, seed=seed)


def brier_parts(labels: ArrayLike, probabilities: ArrayLike, *, bins: int = 10, scheme: Scheme = "mass") -> BrierParts:
    """Murphy's (1973) decomposition over bins of the probability, made exact by the part within bins."""
    truth, forecast = _read(labels, probabilities)
    codes = find_bins(forecast, bins, scheme, (0, 1))
    counts = np.maximum(_sum(codes, np.ones_like(truth)), 1)
    ones, centre = (_sum(codes, truth) / counts)[codes], (_sum(codes, forecast) / counts)[codes]
    rate, off = truth.mean(), forecast - centre
    return BrierParts(
        score=float(np.mean((forecast - truth) ** 2)),
        reliability=float(np.mean((centre - ones) ** 2)),
        resolution=float(np.mean((ones - rate) ** 2)),
        uncertainty=float(rate * (1 - rate)),
        within_bins=float(np.mean(off**2) - 2 * np.mean(off * (truth - ones))),
    )


def _read(labels: ArrayLike, probabilities: ArrayLike) -> tuple[Floats, Floats]:
    truth = read_outcomes("labels", labels)
    if truth.size == 0:
        raise bad("len(labels)", 0, "1 or more", "Calibration needs items.")
    return truth, read_numbers("probabilities", probabilities, size=truth.size, within=(0, 1))


def _sum(codes: Codes, values: Floats) -> Floats:
    return np.bincount(codes, weights=values).astype(np.float64)
