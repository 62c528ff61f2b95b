"""The two shapes in which an answer comes: an interval and a p-value. Both say by which method, on how many of what."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from fewer.errors import bad

Alternative = Literal["two-sided", "greater", "less"]


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate with a confidence interval.

    `lower` and `upper` are None where there is no honest interval (no items, one cluster, nothing that varies);
    `method` then begins with "no interval:" and says why. None rather than NaN: it cannot be compared or averaged by
    accident, and JSON has it. `estimate` is None only for an empty sample. NaN and infinities are refused.
    The estimate need not be the middle, and for a biased statistic need not even lie inside.
    """

    estimate: float | None
    lower: float | None
    upper: float | None
    level: float
    n: int  # items
    clusters: int  # groups of items that were sampled together; equal to `n` where items are independent
    method: str

    def __post_init__(self) -> None:
        for name in ("estimate", "lower", "upper"):
            value = getattr(self, name)
            if value is not None and not math.isfinite(value):
                raise bad(f"Interval.{name}", value, "a finite number or None", "Use Interval.unknown(...) for none.")
        check_level(self.level)
        if (self.lower is None) != (self.upper is None):
            raise bad("Interval", (self.lower, self.upper), "two ends or none", "Give both ends, or None twice.")
        if self.lower is not None and self.upper is not None and self.lower > self.upper:
            raise bad("Interval", (self.lower, self.upper), "in ascending order", "Swap the ends.")

    @classmethod
    def unknown(cls, estimate: float | None, level: float, n: int, clusters: int, why: str) -> Interval:
        """An estimate without an interval, and the reason."""
        return cls(estimate, None, None, level, n, clusters, f"no interval: {why}")

    @property
    def known(self) -> bool:
        """Whether it has ends."""
        return self.lower is not None

    def excludes(self, value: float) -> bool:
        """Whether `value` lies outside. An interval without ends excludes nothing."""
        return self.lower is not None and self.upper is not None and not self.lower <= value <= self.upper

    def through(self, function: Callable[[float], float]) -> Interval:
        """The interval of an increasing function of the same quantity: the function of its three numbers."""
        estimate, lower, upper = (
            None if value is None else function(value) for value in (self.estimate, self.lower, self.upper)
        )
        return Interval(estimate, lower, upper, self.level, self.n, self.clusters, self.method)


@dataclass(frozen=True, slots=True)
class PValue:
    """How often a difference at least this large would come about if the null hypothesis were true."""

    p: float
    alternative: Alternative
    n: int  # items
    clusters: int
    method: str

    def __post_init__(self) -> None:
        if not 0 <= self.p <= 1:
            raise bad("PValue.p", self.p, "between 0 and 1", "Report this: it is an error in the test that made it.")


def check_level(level: float) -> None:
    """Refuses a confidence level that is not strictly between 0 and 1."""
    if not 0 < level < 1:
        raise bad("level", level, "strictly between 0 and 1", "Use 0.95 for a 95% interval.")


def check_alternative(alternative: str) -> None:
    """Refuses an alternative that no test here has."""
    if alternative not in ("two-sided", "greater", "less"):
        raise bad(
            "alternative", alternative, "'two-sided', 'greater' or 'less'", "Use 'two-sided' unless prespecified."
        )
