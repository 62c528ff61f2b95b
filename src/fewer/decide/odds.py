"""Measured odds: of answers with such a certificate and such a log-probability, how many the cache broke, in one study.

A table holds for one model, one policy with its budget, and one condition, and is refused for any other. Its bins are
between quantiles of the study's own answers; what is called high or low elsewhere means the outermost bins here. The
odds describe the study's questions: on other tasks they may be different ones, and no table can say how different.
Not covered: other number formats of the same weights, which share a fingerprint.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from fewer.decide.signals import SIGNALS
from fewer.errors import BadInput, bad
from fewer.receipt.files import write_file

__all__ = ["LEAST", "Cell", "Condition", "Level", "Odds", "Setting", "Share", "load_odds"]

VERSION = 1
LEAST = 10  # clusters below which a share is not said

Condition = Literal["aware", "stream"]
Level = Literal["low", "middle", "high"]

_STRICT = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
_WAY_OUT = "Make one with fewer odds from a finished study."
_WITHOUT = "moment"  # what the condition says: a session compresses when it is told to, a study before the question

Count = Annotated[int, Field(ge=0, strict=True)]
Portion = Annotated[float, Field(ge=0, le=1)]


@dataclass(frozen=True, slots=True)
class Setting:
    """Between which answers odds can be shared.

    model: the fingerprint. policy: `Policy.describe()`, budget included. condition: "aware" where the question had been
    read when the cache was compressed, "stream" where it had not.
    """

    model: str
    policy: Mapping[str, Any]
    condition: Condition


class Share(BaseModel):
    """A share of answers with the interval of the table's level; all None where there are fewer than LEAST clusters."""

    model_config = _STRICT

    n: Count
    clusters: Count
    share: Portion | None
    low: Portion | None
    high: Portion | None

    @model_validator(mode="after")
    def _check(self) -> Share:
        ends = (self.share, self.low, self.high)
        if self.clusters > self.n:
            raise bad("clusters", self.clusters, f"at most n = {self.n}", "Count each cluster once.")
        if (self.clusters < LEAST) != (ends == (None, None, None)) or (None in ends and ends != (None, None, None)):
            legal = f"three numbers where there are {LEAST} clusters or more, else null"
            raise bad("share, low, high", ends, legal, _WAY_OUT)
        if self.share is not None and not self.low <= self.share <= self.high:  # type: ignore[operator]
            raise bad("share, low, high", ends, "low <= share <= high", _WAY_OUT)
        return self


class Cell(BaseModel):
    """Answers of one bin. broken: right with the full cache and wrong with this one. wrong: wrong with both."""

    model_config = _STRICT

    broken: Share
    wrong: Share
    broken_of_failed: Share
    """Of the answers that were wrong, with whichever cause: the share that was right with the full cache."""

    @model_validator(mode="after")
    def _check(self) -> Cell:
        if (self.broken.n, self.broken.clusters) != (self.wrong.n, self.wrong.clusters):
            raise bad("n of wrong", self.wrong.n, f"{self.broken.n}, that of broken", "Count the same answers.")
        if self.broken_of_failed.n > self.broken.n:
            raise bad("n of broken_of_failed", self.broken_of_failed.n, f"at most {self.broken.n}", _WAY_OUT)
        return self

    @property
    def n(self) -> int:
        """Answers."""
        return self.broken.n


class Axis(BaseModel):
    """How one signal is divided. A value that equals an edge belongs below it."""

    model_config = _STRICT

    edges: Annotated[tuple[float, ...], Field(min_length=1)]
    """Between the bins, ascending: quantiles of the study's answers."""
    quantiles: tuple[Portion, ...]
    """Which quantiles they are."""
    least: float
    """The smallest value in the study."""
    most: float
    """The largest."""

    @model_validator(mode="after")
    def _check(self) -> Axis:
        for name, numbers in (("edges", self.edges), ("quantiles", self.quantiles)):
            if list(numbers) != sorted(set(numbers)):
                raise bad(name, numbers, "ascending, each once", "Take fewer quantiles where values tie.")
        if len(self.quantiles) != len(self.edges):
            raise bad("the length of quantiles", len(self.quantiles), f"{len(self.edges)}, as edges", _WAY_OUT)
        if not self.least <= self.edges[0] <= self.edges[-1] <= self.most:
            raise bad("edges", self.edges, f"within {self.least:g} to {self.most:g}", _WAY_OUT)
        return self

    def bin(self, value: float) -> int:
        """From 0, the lowest."""
        return bisect_left(self.edges, value)

    def level(self, value: float) -> Level:
        """Low in the lowest bin, high in the highest."""
        found = self.bin(value)
        return "low" if found == 0 else "high" if found == len(self.edges) else "middle"

    def outside(self, value: float) -> bool:
        """Whether the study had no value so small or so large."""
        return not self.least <= value <= self.most


class Odds(BaseModel):
    """The table of one study, model, policy, budget and condition."""

    model_config = _STRICT

    format: Literal["fewer-odds"]
    version: Literal[1]
    study: Annotated[str, Field(min_length=1)]
    """The study's name, as it is said beside the numbers."""
    command: str
    """What made the table."""
    model: str
    """The model's name; fingerprint is what counts."""
    fingerprint: Annotated[str, Field(min_length=8)]
    policy: dict[str, str | int | float | None]
    """As it describes itself, without its moment."""
    budget: str
    """The policy's, as it was written."""
    condition: Condition
    """aware: compressed when the question had been read. stream: before it had been."""
    signal: str
    """Which signal stands for the certificate: a name of `fewer.decide.signals`, of the channel cache."""
    level: Annotated[float, Field(gt=0, lt=1)]
    """Of every interval."""
    method: str
    """How the intervals were made."""
    certificate: Axis
    logprob: Axis
    """Of the mean log-probability of an answer's tokens in nats; low is doubtful."""
    cells: tuple[tuple[Cell, ...], ...]
    """By bin of the certificate, then by bin of the log-probability."""
    whole: Cell
    """Of all answers together."""

    @model_validator(mode="after")
    def _check(self) -> Odds:
        shape = [len(row) for row in self.cells]
        wanted = [len(self.logprob.edges) + 1] * (len(self.certificate.edges) + 1)
        if shape != wanted:
            raise bad("cells", shape, f"rows of {wanted} cells, one for each pair of bins", _WAY_OUT)
        if (total := sum(cell.n for row in self.cells for cell in row)) != self.whole.n:
            raise bad("n of all cells", total, f"{self.whole.n}, that of the whole", "Count each answer once.")
        known = [name for name, signal in SIGNALS.items() if signal.channel == "cache"]
        if self.signal not in known:
            raise bad("signal", self.signal, f"one of {', '.join(known)}", _WAY_OUT)
        if self.policy.get("budget.keep") != self.budget or _WITHOUT in self.policy:
            raise bad("policy", self.policy, f"with budget.keep {self.budget} and without {_WITHOUT}", _WAY_OUT)
        return self

    def compare(self, setting: Setting) -> list[str]:
        """What differs between the table's model, policy, budget and condition and these; empty where it holds."""
        asked = {name: value for name, value in setting.policy.items() if name != _WITHOUT}
        differ = []
        if setting.model != self.fingerprint:
            differ.append(f"the model ({self.fingerprint[:8]} in the table, {setting.model[:8]} here)")
        for name in sorted({*asked, *self.policy}):
            mine, its = self.policy.get(name), asked.get(name)
            if mine != its:
                differ.append(f"{name} ({mine} in the table, {its} here)")
        if setting.condition != self.condition:
            differ.append(f"the condition ({self.condition} in the table, {setting.condition} here)")
        return differ

    def check(self, setting: Setting) -> None:
        """Raise BadInput, with what differs, for another model, policy, budget or condition than the table's own."""
        if differ := self.compare(setting):
            legal = f"measured under the answer's own setting; they differ in {', '.join(differ)}"
            raise bad("odds", self.study, legal, "Leave the table out, or give the one of this setting.")

    def find(self, certificate: float, logprob: float) -> Cell:
        """The answers of the study that looked like this one."""
        return self.cells[self.certificate.bin(certificate)][self.logprob.bin(logprob)]

    def save(self, path: str | PathLike[str]) -> None:
        """Write it as JSON, whole or not at all. Raises BadInput for the path, StorageError for the disk."""
        write_file(path, json.dumps(self.model_dump(mode="json"), indent=1, ensure_ascii=False) + "\n")


def load_odds(path: str | PathLike[str]) -> Odds:
    """A table from its file. Raises BadInput where it cannot be read, is none, or contradicts itself."""
    try:
        found = json.loads(Path(path).read_text("utf-8"))
    except (OSError, ValueError, RecursionError, TypeError) as error:  # a null byte in the name, text that is no JSON
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise bad("odds", str(path), "a readable JSON file", f"{reason.rstrip('.')}. {_WAY_OUT}") from None
    if not isinstance(found, dict) or found.get("format") != "fewer-odds":
        raise bad("odds", str(path), "a table of measured odds", _WAY_OUT)
    if found.get("version") != VERSION:
        way_out = "Read it with the version of fewer that wrote it."
        raise bad("version", found.get("version"), f"{VERSION} for this reader", way_out)
    try:
        return Odds.model_validate(found)
    except ValidationError as error:
        first = error.errors()[0]
        own, where = first.get("ctx", {}).get("error"), ".".join(map(str, first["loc"])) or "the whole"
        says = str(own) if isinstance(own, BadInput) else f"{first['msg']}. {_WAY_OUT}"
        raise BadInput(f"The odds {path} cannot be used: {where}: {says}") from None
