"""What a doubt is good for: withholding the most doubted answers, or giving the full run's answer in their place.

The most doubted are found within each place by itself, as a gate at a fixed rate finds them when it knows all answers
beforehand; one that works online has to guess where its threshold lies, and chooses others near it. Equal doubts have
no order: every number is the exact expectation over their orders, and the answer at the border counts by the part of it
that fits. An answer without a doubt is doubted least. Over several places a number is the mean over all of their
answers.

A random gate is its exact expectation, and is never drawn. Intervals resample clusters, and each draw finds its own
thresholds. "oracle" is the doubt that knows what it is for: how wrong an answer is, or what the full run's gains.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fewer.errors import bad
from fewer.study.sessions.doubts import read_doubt
from fewer.study.sessions.places import Floats, Place
from fewer.study.stats import Interval
from fewer.study.stats.bootstrap import bootstrap
from fewer.study.stats.sample import Clusters, read_clusters
from fewer.study.stats.selective import Ranking

__all__ = ["ORACLE", "RANDOM", "Gating", "Worth"]

ORACLE, RANDOM = "oracle", "random"
Worth = Callable[[Floats], Floats]
"""What scores (n,) are worth: themselves, or 1 where they are right and else 0."""


class Gating:
    """Places whose answers are gated by a doubt. how: level, resamples and seed of the intervals.

    Raises BadInput without answers.
    """

    def __init__(self, places: Sequence[Place], worth: Worth, **how: Any) -> None:
        labels = [cluster for place in places for cluster in place.clusters]
        if not labels:
            raise bad("places", len(places), "at least one with answers", "A gate needs answers.")
        self.places = places
        self.how: dict[str, Any] = {"method": "bca", "level": 0.95, "resamples": 10_000, "seed": 0} | how
        self.arms, self.fulls = [worth(place.score) for place in places], [worth(place.full) for place in places]
        self.sample = read_clusters(labels, len(labels))
        ends = np.cumsum([len(place.answers) for place in places])
        codes = np.split(self.sample.codes, ends[:-1])
        self._samples = [Clusters(part, self.sample.count) for part in codes]
        self._items = [sample.sum(np.ones(sample.n)) for sample in self._samples]  # answers by cluster

    def error(self, name: str, withheld: float) -> Interval:
        """The mean of 1 - worth among the answers that are given when this share, the most doubted, is withheld."""
        _check_rate("withheld", withheld, below=True)
        rankings = self._rank(name, [1 - arm for arm in self.arms], surest=True)
        risks = [one.risk_at(1 - withheld) for one in rankings]
        return self._estimate(lambda counts: self._mean([risk(counts) for risk in risks], counts))

    def area(self, name: str) -> Interval:
        """AURC: the mean of that error over all numbers of answers given; lower is better."""
        rankings = self._rank(name, [1 - arm for arm in self.arms], surest=True)
        return self._estimate(lambda counts: self._mean([one.area(counts) for one in rankings], counts))

    def accuracy(self, name: str, rate: float) -> Interval:
        """The mean worth when this share, the most doubted, is recomputed with the full cache."""
        gained, base = self._gain(name, rate), self._level(self.arms)
        return self._estimate(lambda counts: base(counts) + gained(counts))

    def gain(self, name: str, rate: float, over: str = RANDOM) -> Interval:
        """That accuracy minus the accuracy of another doubt, or of a random gate, at the same rate."""
        mine, theirs = self._gain(name, rate), self._gain(over, rate)
        return self._estimate(lambda counts: mine(counts) - theirs(counts))

    def _gain(self, name: str, rate: float) -> Callable[[Floats], Floats]:
        """What recomputing adds to the mean worth: counts (clusters, r) -> (r,)."""
        _check_rate("rate", rate)
        gains = [full - arm for full, arm in zip(self.fulls, self.arms, strict=True)]
        if rate == 0 or name == RANDOM:
            level = self._level(gains)
            return lambda counts: rate * level(counts)
        rankings = self._rank(name, gains, surest=False)
        means = [one.risk_at(rate) for one in rankings]
        return lambda counts: rate * self._mean([mean(counts) for mean in means], counts)

    def _rank(self, name: str, values: Sequence[Floats], surest: bool) -> list[Ranking]:
        """Each place's answers, the surest or the most doubted first."""
        rankings = []
        for place, value, sample in zip(self.places, values, self._samples, strict=True):
            doubt = value if name == ORACLE else fill(read_doubt(name, place))
            rankings.append(Ranking(-doubt if surest else doubt, value, sample))
        return rankings

    def _level(self, values: Sequence[Floats]) -> Callable[[Floats], Floats]:
        """The mean over all answers of all places: counts (clusters, r) -> (r,)."""
        sums = np.sum([sample.sum(value) for sample, value in zip(self._samples, values, strict=True)], axis=0)
        items = np.sum(self._items, axis=0)
        return lambda counts: np.asarray((sums @ counts) / (items @ counts))

    def _mean(self, means: Sequence[Floats], counts: Floats) -> Floats:
        """Means of the places (r,) together, each by its number of answers in the draw."""
        drawn = np.stack([items @ counts for items in self._items])
        weighed = np.where(drawn > 0, np.nan_to_num(np.stack(means)) * drawn, 0.0)
        return np.asarray(weighed.sum(axis=0) / drawn.sum(axis=0))

    def _estimate(self, statistic: Callable[[Floats], Floats]) -> Interval:
        def quietly(counts: Floats) -> Floats:
            with np.errstate(invalid="ignore", divide="ignore"):  # a place without a cluster of the draw
                return statistic(counts)

        return bootstrap(quietly, self.sample, **self.how)


def fill(doubt: Floats) -> Floats:
    """The doubts (n,) with a number below all others where there was none."""
    known = np.isfinite(doubt)
    least = doubt[known].min() if known.any() else 0.0
    return np.where(known, doubt, least - 1)


def _check_rate(name: str, rate: float, below: bool = False) -> None:
    if not (0 <= rate < 1 if below else 0 <= rate <= 1):
        legal = "from 0 to below 1" if below else "from 0 to 1"
        raise bad(name, rate, legal, "Give the share of answers, such as 0.25.")
