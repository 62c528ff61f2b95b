"""The intervals of a report: one rule for the method, every difference counted, NaN never averaged in.

The same estimates as the verdicts', with fewer resamples: below 20 clusters Student's t over clusters, else the
bias-corrected cluster bootstrap; both from `fewer.study`. Everything is at 95%, for one number at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from fewer.report.log import Floats, Log, Mask
from fewer.study.answers import ByItem, read_answers
from fewer.study.eligibility import FEW_CLUSTERS, Eligibility, assess, choose_method
from fewer.study.estimate import COLUMNS, NotEstimable, estimate_claim
from fewer.study.spec import Claim
from fewer.study.stats import Interval, mean, mean_difference
from fewer.study.stats.ratio import Ratio
from fewer.study.stats.sample import read_clusters

__all__ = ["HOW", "HOW_TO_READ", "LEVEL", "RESAMPLES", "UNIT", "Estimates"]

LEVEL = 0.95
RESAMPLES = 2_000
UNIT = (0.0, 1.0)
"""The least and the largest score."""
HOW = (
    f"Brackets: {LEVEL:.0%} intervals over clusters, BCa bootstrap ({RESAMPLES:,} resamples), Student's t below "
    f"{FEW_CLUSTERS} clusters."
)
HOW_TO_READ = (
    "Scores are from 0 to 1 by each task's own metric. Means are over items, an arm's seeds averaged within an item "
    "first; n counts items, and intervals resample whole clusters of items, since the items of one document go "
    f"together. Below {FEW_CLUSTERS} clusters a bootstrap is too narrow and Student's t is taken, cut at the "
    "score's range. Where there are no brackets there is no honest interval; where a second n stands behind "
    "them, so many items had that measure. The CSV of each table has every number as computed, with its n, clusters "
    "and method, or why there is no interval."
)


class Estimates:
    """Estimates from one run's log. `differences` counts the intervals of differences, for the note on many."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.clusters = log.of_items("cluster")
        self.differences = 0
        self._known: dict[Any, Interval] = {}
        self._claims: dict[Any, tuple[Interval | None, str]] = {}

    @cached_property
    def answers(self) -> dict[str, ByItem]:
        """Answers by arm and item, as the verdicts read them."""
        return read_answers(self.log.run.rows, COLUMNS)

    @cached_property
    def eligibility(self) -> tuple[Eligibility, ...]:
        """Which tasks, and lengths of them, can carry claims."""
        return assess(self.log.run.rows, resamples=RESAMPLES)

    def mean(self, values: Floats, among: Mask, bounds: tuple[float, float] | None = None) -> Interval:
        """The mean of item values (items,) over the items `among` that have one."""
        found = among & np.isfinite(values)
        key = ("mean", values[found].tobytes(), found.tobytes(), bounds)
        return self._once(key, lambda: mean(values[found], self.clusters[found], bounds=bounds, **self._rule(found)))

    def difference(self, a: Floats, b: Floats, among: Mask, bounds: tuple[float, float] | None = None) -> Interval:
        """The mean of a - b over the items `among` that have both; counted, unless there are none."""
        found = among & np.isfinite(a) & np.isfinite(b)
        key = ("difference", a[found].tobytes(), b[found].tobytes(), found.tobytes(), bounds)
        self.differences += key not in self._known and bool(found.any())
        return self._once(
            key, lambda: mean_difference(a[found], b[found], self.clusters[found], bounds=bounds, **self._rule(found))
        )

    def share(self, part: Floats, whole: Floats, among: Mask) -> Interval:
        """sum(part) / sum(whole) over the items `among`, paired; for wholes that may be 0 on an item."""
        ratio = Ratio.of(part[among], whole[among], read_clusters(self.clusters[among], int(among.sum())))
        return ratio.interval(**self._rule(among), seed=0)

    def speedup(self, arm: str, among: Mask) -> tuple[Interval | None, str]:
        """Seconds to the first token, full over arm, as claims estimate it; or None and why not."""
        return self._claim({"kind": "speedup", "arm": arm}, arm, among)

    def auc(self, arm: str, signal: str, outcome: str, among: Mask) -> tuple[Interval | None, str]:
        """How well a signal ranks the arm's answers by an outcome, as claims estimate it; or None and why not."""
        return self._claim({"kind": "auc", "arm": arm, "signal": signal, "outcome": outcome}, arm, among)

    def _claim(self, fields: dict[str, Any], arm: str, among: Mask) -> tuple[Interval | None, str]:
        claim = Claim(id="-", statement="-", at_least=0, kill_below=0, level=LEVEL, **fields)
        key = (*fields.values(), among.tobytes())
        if key not in self._claims:
            self._claims[key] = self._estimate(claim, self._items_of(arm, among))
        return self._claims[key]

    def _estimate(self, claim: Claim, items: Sequence[str]) -> tuple[Interval | None, str]:
        if not items:
            return None, "no item has answers of the arm and of the full run"
        try:
            found = estimate_claim(self.log.study, claim, self.answers, items, resamples=RESAMPLES, seed=0)
        except NotEstimable as why:
            return None, str(why)
        return found.interval, ""

    def _items_of(self, arm: str, among: Mask) -> Sequence[str]:
        mine, full = self.answers.get(arm, {}), self.answers.get("full", {})
        return [item for item in self.log.of_items("item")[among] if item in mine and item in full]

    def _rule(self, found: Mask) -> dict[str, Any]:
        return {"method": choose_method(self.clusters[found]), "level": LEVEL, "resamples": RESAMPLES}

    def _once(self, key: Any, compute: Callable[[], Interval]) -> Interval:
        if key not in self._known:
            self._known[key] = compute()
        return self._known[key]
