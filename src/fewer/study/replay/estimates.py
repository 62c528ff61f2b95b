"""Measures of an arm at one condition and budget, each with an interval over prompts.

A cell is a layer, query head and decode step of a prompt; arms that are drawn several times have it once for each draw.
Cells of a prompt share its keys and its sets: intervals resample prompts (`fewer.study.stats.bootstrap`), and the
number of cells says nothing about their width. The border of the tenth of cells with the largest error is that of all
prompts together and stays where it is in the resamples. Not covered: other models and tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fewer.study.replay.spec import Condition, Measure, ReplayStudy
from fewer.study.stats import Interval, mean, ratio_of_totals, spearman
from fewer.study.stats.bootstrap import bootstrap
from fewer.study.stats.sample import Clusters, read_clusters

__all__ = ["LEVEL", "Estimates", "Place"]

LEVEL = 0.95
RESAMPLES = 2_000
_RANKED = 1_000  # resamples where every one of them sorts all cells
_TINY = 1e-12  # of an error, so that its square can be divided by

Array = NDArray[Any]
Place = tuple[Condition, float, str]
"""Condition, budget, arm."""
Statistic = Callable[[NDArray[np.float64]], NDArray[np.float64]]


@dataclass(frozen=True, eq=False)
class Estimates:
    """Every cell of a replay by place, and what can be said of it. `resamples` and `ranked` are for tests."""

    study: ReplayStudy
    cells: pa.Table
    resamples: int = RESAMPLES
    ranked: int = _RANKED
    _parts: dict[Place, Mapping[str, Array]] = field(default_factory=dict)
    _known: dict[tuple[object, ...], Interval | None] = field(default_factory=dict)

    def part(self, place: Place) -> Mapping[str, Array]:
        """The columns of the cells there; empty arrays where there are none."""
        if not self._parts:
            self._parts.update(_split(self.cells))
        return self._parts.get(place) or {name: np.empty(0) for name in self.cells.column_names}

    def measure(self, name: Measure, place: Place) -> Interval | None:
        """One of `spec.MEASURES`; None where there are no cells or the arm has no certificate."""
        ways: dict[Measure, Callable[[Place], Interval | None]] = {
            "coverage": lambda at: self.coverage(at),
            "coverage_largest": lambda at: self.coverage(at, largest=True),
            "spearman": self.spearman,
            "error_over_reference": lambda at: self.over("error", at, "error", (at[0], at[1], self.study.reference)),
            "variance_over_truth": self.variance,
            "calibrated_coverage": lambda at: self.coverage(at, factor=self.study.factor),
            "calibrated_over_error": lambda at: self.over("radius", at, "error", at, self.study.factor),
            "radius_over_main": lambda at: self.over("radius", at, "radius", (at[0], at[1], self.study.main)),
        }
        return self._keep((name, place), lambda: ways[name](place))

    def coverage(
        self,
        place: Place,
        *,
        radius: str = "radius",
        factor: float = 1.0,
        largest: bool = False,
        layers: range | None = None,
    ) -> Interval | None:
        """The share of cells whose error is at most factor times the radius. layers: only these, from 1."""

        def find() -> Interval | None:
            part = self.part(place)
            error, size = part["error"], part[radius]
            inside = np.isfinite(size)
            if layers is not None:
                inside &= np.isin(part["layer"], list(layers))
            if largest and inside.any():
                inside &= error >= np.quantile(error[inside], 0.9)
            if not inside.any():
                return None
            holds = (error <= factor * size)[inside].astype(float)
            return mean(holds, part["prompt"][inside], bounds=(0, 1), level=LEVEL, resamples=self.resamples)

        return self._keep(("coverage", place, radius, factor, largest, layers), find)

    def spearman(self, place: Place, radius: str = "radius", layers: range | None = None) -> Interval | None:
        """Of radius and error, over the cells of the first draw."""

        def find() -> Interval | None:
            part = self.part(place)
            inside = np.isfinite(part[radius]) & (part["draw"] == 0)
            if layers is not None:
                inside &= np.isin(part["layer"], list(layers))
            if not inside.any():
                return None
            size, error, prompts = part[radius][inside], part["error"][inside], part["prompt"][inside]
            return spearman(size, error, prompts, level=LEVEL, resamples=self.ranked)

        return self._keep(("spearman", place, radius, layers), find)

    def variance(self, place: Place, column: str = "variance") -> Interval | None:
        """The sum of the variance estimates over that of the squared errors."""

        def find() -> Interval | None:
            part = self.part(place)
            inside = np.isfinite(part[column])
            if not inside.any():
                return None
            truth = np.maximum(part["error"][inside], _TINY) ** 2
            estimated, prompts = part[column][inside], part["prompt"][inside]
            return ratio_of_totals(estimated, truth, prompts, level=LEVEL, resamples=self.resamples)

        return self._keep(("variance", place, column), find)

    def median(self, column: str, place: Place, layers: range | None = None) -> Interval | None:
        """The median of a column."""

        def find() -> Interval | None:
            values, prompts = self._column(column, place, layers)
            if not values.size:
                return None
            return self._bootstrap(prompts, [values], lambda one: one[0])

        return self._keep(("median", column, place, layers), find)

    def over(
        self,
        above: str,
        place: Place,
        below: str,
        other: Place,
        factor: float = 1.0,
        layers: range | None = None,
    ) -> Interval | None:
        """factor times the median of one column over the median of another, which may be another arm's."""

        def find() -> Interval | None:
            one, prompts = self._column(above, place, layers)
            two, of = self._column(below, other, layers)
            if not one.size or not two.size or not np.median(two) > 0 or (place == other and above == below):
                return None
            return self._bootstrap(prompts, [one, two], lambda medians: factor * medians[0] / medians[1], of)

        return self._keep(("over", above, place, below, other, factor, layers), find)

    def count(self, place: Place) -> tuple[int, int, int]:
        """Cells, prompts, and rows that a draw kept more or fewer than the budget at the most."""
        part = self.part(place)
        if not part["error"].size:
            return 0, 0, 0
        off = np.abs(part["kept"] - part["asked"]).max()
        return int(part["error"].size), int(np.unique(part["prompt"]).size), int(off)

    def _column(self, name: str, place: Place, layers: range | None) -> tuple[Array, Array]:
        part = self.part(place)
        inside = np.isfinite(part[name])
        if layers is not None:
            inside &= np.isin(part["layer"], list(layers))
        return part[name][inside].astype(float), part["prompt"][inside]

    def _bootstrap(
        self,
        prompts: Array,
        columns: list[Array],
        combine: Callable[[list[NDArray[np.float64]]], NDArray[np.float64]],
        others: Array | None = None,
    ) -> Interval:
        """Of the columns' medians; the second column has prompts of its own, the same ones."""
        sample = read_clusters(prompts, prompts.size)
        samples = [sample, sample if others is None else read_clusters(others, others.size)]
        found = [_median(column, of) for column, of in zip(columns, samples, strict=False)]
        return bootstrap(
            lambda counts: combine([one(counts) for one in found]),
            sample,
            method="percentile",
            level=LEVEL,
            resamples=self.ranked,
            seed=0,
        )

    def _keep(self, key: tuple[object, ...], find: Callable[[], Interval | None]) -> Interval | None:
        """Found once."""
        if key not in self._known:
            self._known[key] = find()
        return self._known[key]


def _median(values: Array, sample: Clusters) -> Statistic:
    """The lower median of the cells drawn: counts (prompts, r) -> (r,).

    It lies between the smallest and the largest of the prompts' own medians, so that only cells there need be counted.
    """
    own = [np.quantile(values[sample.codes == code], 0.5, method="inverted_cdf") for code in range(sample.count)]
    between = (values >= min(own)) & (values <= max(own))
    order = np.argsort(values[between], kind="stable")
    ordered, codes = values[between][order], sample.codes[between][order]
    below, sizes = sample.sum(values < min(own)), sample.sum(np.ones_like(values))

    def find(counts: NDArray[np.float64]) -> NDArray[np.float64]:
        reached = below @ counts + np.cumsum(counts[codes], axis=0)
        half: NDArray[np.float64] = ordered[np.argmax(reached >= sizes @ counts / 2, axis=0)]
        return half

    return find


def _split(cells: pa.Table) -> dict[Place, Mapping[str, Array]]:
    """The columns of every place as arrays, NaN for null."""
    columns = {name: _read(cells[name]) for name in cells.column_names if name not in ("condition", "budget", "arm")}
    conditions, arms = _codes(cells, "condition"), _codes(cells, "arm")
    budgets, budget_codes = np.unique(cells["budget"].to_numpy(), return_inverse=True)
    mixed = (conditions[1] * len(arms[0]) + arms[1]) * max(len(budgets), 1) + budget_codes
    found: dict[Place, Mapping[str, Array]] = {}
    for code in np.unique(mixed):
        rest, budget = divmod(int(code), len(budgets))
        condition, arm = divmod(rest, len(arms[0]))
        inside = mixed == code
        place = (conditions[0][condition], round(float(budgets[budget]), 6), arms[0][arm])
        found[place] = {name: column[inside] for name, column in columns.items()}
    return found


def _codes(cells: pa.Table, name: str) -> tuple[list[Any], Array]:
    column = cells[name].combine_chunks()
    return column.dictionary.to_pylist(), column.indices.to_numpy().astype(np.int64)


def _read(column: pa.ChunkedArray) -> Array:
    array: Array = column.to_numpy()
    return array.astype(np.float64) if pa.types.is_floating(column.type) else array
