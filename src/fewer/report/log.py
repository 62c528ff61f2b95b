"""A run's log as arrays: one number for each item under each arm, the mean over its seeds.

Seeds are not items: an arm that ran with five seeds has one number an item here, and intervals go over items. Within a
run items are paired by their number in it. A refused or failed answer has the score the log gives it, 0; what was not
measured is NaN and is left out of that measure alone, whose n says so.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fewer.errors import BadInput
from fewer.report.number import write_count
from fewer.study.arms import Arm, name_by_settings
from fewer.study.folder import Run
from fewer.study.signals import CERTIFICATES
from fewer.study.spec import Outcome

__all__ = ["RANKED", "SHORT", "SIGNALS", "Log", "name_arm", "read_family", "read_keep"]

Floats = NDArray[np.float64]
Texts = NDArray[np.object_]
Mask = NDArray[np.bool_]

SIGNALS = {
    "mean_logprob": "mean log-probability",
    "min_margin": "smallest margin",
    "first_margin": "margin of the first token",
}
"""What an answer shows of itself without the full run; larger is surer, for all of them."""
RANKED = SIGNALS | {"certificate": "certificate"}
"""What may rank answers. A larger certificate is less sure, and only arms with known probabilities have one."""
SHORT = {"mean_logprob": "log-prob.", "min_margin": "min margin", "first_margin": "first margin"}
SHORT |= {"certificate": "certificate"}
"""The same where there is little room."""


class Log:
    """The rows of one run by item and arm."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.study = run.study
        self.arms: tuple[Arm, ...] = run.study.expanded
        self._columns: dict[str, Any] = {}
        self._cells: dict[tuple[str, str, bool], Floats] = {}
        self._outcomes: dict[str, tuple[Mask, Mask]] = {}
        known = {arm.name for arm in self.arms}
        for name in sorted(set(self.texts("arm")) - known):
            raise BadInput(f"{run.folder} has rows of arm {name!r}, which its study does not name. It is not one run.")
        units = self.numbers("unit").astype(np.int64)
        self.units, self.first, self.place = np.unique(units, return_index=True, return_inverse=True)

    @property
    def num_rows(self) -> int:
        """Answers, over all arms and seeds."""
        return int(self.run.rows.num_rows)

    @property
    def num_items(self) -> int:
        """Items with at least one row."""
        return int(self.units.size)

    def numbers(self, column: str) -> Floats:
        """A column of the log (rows,), NaN for null."""
        if column not in self._columns:
            found = self.run.rows[column].cast(pa.float64()).to_numpy().astype(np.float64)
            if column == "score":
                found = np.where(np.isin(self.texts("status"), ("refused", "failed")), 0.0, found)
            self._columns[column] = found
        values: Floats = self._columns[column]
        return values

    def texts(self, column: str) -> Texts:
        """A column of the log (rows,), None for null."""
        if column not in self._columns:
            values = np.empty(self.run.rows.num_rows, dtype=object)
            values[:] = self.run.rows[column].to_pylist()
            self._columns[column] = values
        found: Texts = self._columns[column]
        return found

    def of_items(self, column: str) -> Texts:
        """A text that belongs to the item (items,)."""
        return self.texts(column)[self.first]

    @cached_property
    def alone(self) -> Mask:
        """Rows (rows,) whose seconds count: their prefill shared nothing with other arms."""
        found: Mask = self.numbers("shared") == 0
        return found

    def of_arm(self, arm: str) -> Mask:
        """Which rows (rows,) are the arm's."""
        found: Mask = self.texts("arm") == arm
        return found

    @cached_property
    def timed(self) -> bool:
        """Whether the full run and some way of pruning ran alone, so that seconds can be compared."""
        full = (self.alone & self.of_arm("full")).any()
        return bool(full and any((self.alone & self.of_arm(arm.name)).any() for arm in self.pruned))

    def values(self, arm: str, column: str, alone: bool = False) -> Floats:
        """The arm's mean over seeds for each item (items,); NaN where it has none. `alone`: rows that ran alone."""
        key = (arm, column, alone)
        if key not in self._cells:
            numbers = self.numbers(column)
            mask = self.of_arm(arm) & np.isfinite(numbers)
            if alone:
                mask &= self.alone
            counts = np.bincount(self.place[mask], minlength=self.num_items)
            sums = np.bincount(self.place[mask], weights=numbers[mask], minlength=self.num_items)
            with np.errstate(invalid="ignore", divide="ignore"):
                self._cells[key] = np.where(counts > 0, sums / counts, np.nan)
        return self._cells[key]

    def surest(self, signal: str) -> Floats:
        """A signal (rows,), turned so that larger is surer; NaN for null."""
        return -self.numbers(signal) if signal in CERTIFICATES else self.numbers(signal)

    def kept(self, arm: str) -> Floats:
        """The share that stayed for each item (items,): of the rows of keys and values where the arm evicts.

        Where it does not, of the tokens that reached the last layer.
        """
        rows = self.values(arm, "kv_kept_fraction")
        return np.where(np.isfinite(rows), rows, self.values(arm, "kept_fraction"))

    def outcomes(self, outcome: Outcome) -> tuple[Mask, Mask]:
        """Which rows (rows,) have the outcome, and for which it can be told: it may need the full run's score."""
        if outcome.name in self._outcomes:
            return self._outcomes[outcome.name]
        score, full = self.numbers("score"), self.values("full", "score")[self.place]
        needs_full = outcome.full_at_least is not None or outcome.full_below is not None
        known = np.isfinite(score) & (np.isfinite(full) | (not needs_full))
        pairs = zip(score.tolist(), full.tolist(), strict=True)
        holds = known & np.array([outcome.holds(*pair) for pair in pairs], dtype=bool)
        self._outcomes[outcome.name] = holds, known
        return holds, known

    @cached_property
    def lengths(self) -> Floats:
        """Of each item (items,): the tokens asked for, or else those of the longest prompt that ran."""
        asked, ran = self.numbers("asked_length"), self.numbers("num_tokens")
        both = np.where(np.isfinite(asked), asked, np.where(np.isfinite(ran), ran, -1.0))
        found = np.full(self.num_items, -1.0)
        np.maximum.at(found, self.place, both)
        return np.where(found >= 0, found, np.nan)

    @cached_property
    def depths(self) -> Floats:
        """Of each item (items,): where the needle lies, NaN where there is none.

        Rounded to the finest of .05, .1 and .25 that leaves at most 7 places: a needle falls between two sentences
        near the depth that was asked for.
        """
        exact = self.numbers("depth")[self.first]
        for step in (0.05, 0.1, 0.25):
            rounded = np.round(np.round(exact / step) * step, 2)
            if np.unique(rounded[np.isfinite(rounded)]).size <= 7:
                break
        return rounded

    @cached_property
    def categories(self) -> list[str]:
        """In the order in which they come."""
        return list(dict.fromkeys(self.of_items("category")))

    @cached_property
    def tasks(self) -> list[str]:
        """In the order in which they come."""
        return list(dict.fromkeys(self.of_items("task")))

    @cached_property
    def families(self) -> dict[str, int]:
        """A number for each way of leaving things out, budgets aside: its colour and shape in every picture."""
        names = dict.fromkeys(read_family(arm) for arm in self.pruned)
        return {name: number for number, name in enumerate(names)}

    def among(self, column: str, value: str) -> Mask:
        """Which items (items,) have this text."""
        found: Mask = self.of_items(column) == value
        return found

    @cached_property
    def pruned(self) -> list[Arm]:
        """The arms that see the context, or what is left of it, and leave something out."""
        return [arm for arm in self.arms if not arm.is_full and arm.condition != "no_context"]


def read_keep(arm: Arm) -> str:
    """The arm's budget in one spelling: `25%` or `256 tokens`; "" where it has none, and two where it has two.

    The budget of an eviction is of rows for each head, that of a pruning of tokens; both are written alike.
    """
    return ", ".join(map(_spell, arm.budgets))


def _spell(text: str) -> str:
    text = text.strip()
    try:
        if text.endswith("%"):
            return f"{float(text[:-1]):g}%"
        if text.isdigit():
            return write_count(int(text), "token")
        return f"{100 * float(text):g}%"
    except ValueError:
        return text


def read_family(arm: Arm) -> str:
    """What arms of different budgets have in common: how they leave things out, and their other settings."""
    if arm.is_full:
        return "full"
    if arm.condition == "no_context":
        return "no context"
    if arm.like is not None:
        return f"text of {arm.like}"
    others = [
        value if isinstance(value, str) and value not in ("none", "off") else f"{key}={value}"
        for key, value in arm.settings
        if key.removeprefix("prune.").removeprefix("evict.") not in ("keep", "budget")
    ]
    return " ".join([arm.way, *others])


def name_arm(arm: Arm) -> str:
    """A short name, the budget first: `50% static`; the study's own where it gave one."""
    unnamed = arm.way != "full" and arm.name == name_by_settings(arm)
    return f"{read_keep(arm)} {read_family(arm)}".strip() if unnamed else arm.name
