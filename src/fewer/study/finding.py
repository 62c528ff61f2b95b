"""What an estimate of a claim comes as: an interval with what to know about it, or the reason why there is none."""

from __future__ import annotations

from dataclasses import dataclass

from fewer.study.stats import Interval

__all__ = ["Finding", "NotEstimable"]


class NotEstimable(Exception):
    """There is no such number in these rows; the message says why, as a part of a sentence."""


@dataclass(frozen=True)
class Finding:
    """An interval, what it counts, and what to know about the answers in it."""

    interval: Interval
    unit: str
    notes: tuple[str, ...]
