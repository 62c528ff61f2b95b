"""A law of seconds, fitted to measurements: a sum of terms with coefficients of at least 0, by least squares.

Errors count relative to what was measured, so that short runs matter as much as long ones. How far the measurements lie
from the law is part of it. Not covered: noise that comes and goes with other work on the machine.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from pydantic import BaseModel, ConfigDict

from fewer.errors import bad

__all__ = ["Fit", "fit_seconds"]


class Fit(BaseModel):
    """seconds = sum of coefficient x term. `low` and `high` say how far single measurements lie from that."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    terms: tuple[str, ...]
    coefficients: tuple[float, ...]
    """Seconds for one of each term, 0 or more."""
    points: tuple[tuple[tuple[float, ...], float], ...]
    """The measurements: the terms' values, and seconds."""
    low: float
    """Measured over fitted seconds: one point in twenty lies below this; at most 1."""
    high: float
    """One point in twenty lies above this; at least 1."""

    def at(self, *values: float) -> float:
        """Seconds at these values of the terms."""
        return sum(coefficient * value for coefficient, value in zip(self.coefficients, values, strict=True))

    @property
    def residuals(self) -> tuple[float, ...]:
        """Of every point: measured over fitted seconds, minus 1."""
        return tuple(seconds / self.at(*values) - 1 for values, seconds in self.points)

    @property
    def longest(self) -> float:
        """The largest value of the first term among the measurements."""
        return max(values[0] for values, _ in self.points)


def fit_seconds(terms: Sequence[str], points: Sequence[tuple[Sequence[float], float]]) -> Fit:
    """The law that comes closest to the points (values of the terms, seconds above 0).

    With fewer different points than terms it goes through them and says little elsewhere. Raises BadInput for none, or
    for seconds that are not above 0.
    """
    from scipy.optimize import nnls

    if not points or any(not seconds > 0 for _, seconds in points):
        raise bad("measurements", list(points)[:3], "at least one, of seconds above 0", "Measure a longer prompt.")
    values = np.array([list(where) for where, _ in points], dtype=float)
    seconds = np.array([measured for _, measured in points])
    scale = values.max(axis=0)  # so that a squared length and a one weigh alike in the solver
    scale[scale == 0] = 1.0
    found = nnls(values / scale / seconds[:, None], np.ones(len(points)))[0] / scale
    ratios = seconds / (values @ found)
    low, high = np.quantile(ratios, [0.05, 0.95])
    return Fit(
        terms=tuple(terms),
        coefficients=tuple(found.tolist()),
        points=tuple((tuple(map(float, where)), float(measured)) for where, measured in points),
        low=min(1.0, float(low)),
        high=max(1.0, float(high)),
    )
