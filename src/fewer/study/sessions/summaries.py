"""Summaries: all radii of an answer as one number, in as many ways as there are to choose rows, heads and layers.

A summary's name says how it is made, part by part, and is what a registered claim writes:

    radii:ROWS:HEADS:LAYERS:OVER[:clipped][:ratio or :residual]
    radii:question-mean:mean:late:median:clipped

ROWS are the query rows and what is taken over them: of the question's rows, which were read over the compressed cache
and before the answer, the mean, the largest or the last; of the answer's steps the first, the mean or the largest of
the first six, of all that were logged the mean or the largest. HEADS is what the log has over the heads of a layer:
their mean, their median, or the largest of them. LAYERS are all or a third of them, OVER what is taken over those.
`clipped` takes none of these for more than 1: an error as large as the output. `ratio` divides by the answer's
surprise, minus its mean log-probability plus 0.1 nats. `residual` is what is left of the logarithm when the answers of
the place are fitted by a line over their log-probability; it needs all of them, and no gate that works online has it.
The line is fitted once: intervals that resample answers take it as given.

Not covered: single heads, rows of a question before its last 64, and steps behind those that the log has.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from fewer.errors import bad
from fewer.study.sessions.places import Floats
from fewer.types import FIRST_STEPS, LARGEST_RADIUS

__all__ = ["PARTS", "PREFIX", "Radii", "Summary", "list_summaries", "parse_summary", "read_radii", "set_beside"]

PREFIX = "radii:"
PARTS: dict[str, tuple[str, ...]] = {
    "rows": (
        "question-mean",
        "question-largest",
        "question-last",
        "first",
        "six-mean",
        "six-largest",
        "answer-mean",
        "answer-largest",
    ),
    "heads": ("mean", "median", "largest"),
    "layers": ("all", "early", "middle", "late"),
    "over": ("mean", "median", "largest"),
    "clip": ("", "clipped"),
    "beside": ("", "ratio", "residual"),
}
"""What each part of a summary may be; "" is left out of its name."""
SURPRISE = 0.1  # nats, added to minus the mean log-probability before dividing by it
LEAST = 1e-6  # of a radius, before its logarithm is taken

Radii = dict[tuple[str, str], tuple[Floats, NDArray[np.intp]]]
"""Of n answers, by rows ("question" or "answer") and heads ("mean", "median" or "largest"): [n, layers, rows], and how
many rows each answer has (n,); what is behind them is 0."""


@dataclass(frozen=True, slots=True)
class Summary:
    """One way to make a number of an answer's radii; the fields are those of `PARTS`."""

    rows: str
    heads: str
    layers: str
    over: str
    clip: str = ""
    beside: str = ""

    @property
    def name(self) -> str:
        """As a claim writes it."""
        parts = (self.rows, self.heads, self.layers, self.over, self.clip, self.beside)
        return PREFIX + ":".join(part for part in parts if part)

    def values(self, radii: Radii, logprob: Floats) -> Floats:
        """Of the n answers of one place, larger = more doubt; NaN without radii. logprob: (n,), their mean, in nats."""
        return set_beside(self._summarise(radii, logprob.size), self.beside, logprob)

    def _summarise(self, radii: Radii, n: int) -> Floats:
        kind, _, how = self.rows.partition("-")
        found = radii.get(("question" if kind == "question" else "answer", self.heads))
        if found is None:
            return np.full(n, np.nan)
        table, num_rows = found
        chosen = _choose_layers(table, self.layers)
        by_row = _OVER[self.over](np.minimum(chosen, LARGEST_RADIUS) if self.clip else chosen, axis=1)
        if kind in ("first", "six"):
            num_rows = np.minimum(num_rows, 1 if kind == "first" else FIRST_STEPS)
        place = np.arange(by_row.shape[1])
        wanted = place == num_rows[:, None] - 1 if how == "last" else place < num_rows[:, None]
        if how == "largest":
            values = np.where(wanted, by_row, -np.inf).max(axis=1)
        else:
            values = np.where(wanted, by_row, 0.0).sum(axis=1) / np.maximum(wanted.sum(axis=1), 1)
        return np.where(num_rows > 0, values, np.nan)


_OVER: dict[str, Callable[..., Floats]] = {"mean": np.mean, "median": np.median, "largest": np.max}


def parse_summary(name: str) -> Summary:
    """The summary of a name. Raises BadInput."""
    given = name.removeprefix(PREFIX).split(":")
    ends = [part for part in given[4:] if part not in ("clipped",)]
    fields = [*given[:4], "clipped" if "clipped" in given[4:] else "", *(ends or [""])]
    pairs = list(zip(PARTS.items(), fields, strict=False))
    if not name.startswith(PREFIX) or len(fields) != len(PARTS) or any(one not in legal for (_, legal), one in pairs):
        legal = f"{PREFIX}ROWS:HEADS:LAYERS:OVER[:clipped][:ratio or :residual]"
        ways = "; ".join(f"{part}: {', '.join(word for word in words if word)}" for part, words in PARTS.items())
        raise bad("the summary", name, legal, f"The parts are {ways}.")
    summary = Summary(*fields)
    if summary.name != name:
        raise bad("the summary", name, f"written as {summary.name}", "Write it so.")
    return summary


def list_summaries() -> list[Summary]:
    """Every summary there is."""
    return [Summary(*parts) for parts in product(*PARTS.values())]


def read_radii(texts: Sequence[str | None]) -> Radii:
    """The log's column `radii` of n answers of one model; a pair of rows and heads that no answer has is left out."""
    contents = [{} if text is None else json.loads(text) for text in texts]
    found: Radii = {}
    for rows, heads in product(("question", "answer"), PARTS["heads"]):
        tables = [np.asarray((content.get(rows) or {}).get(heads, [[]]), dtype=np.float64) for content in contents]
        num_rows = np.array([table.shape[1] for table in tables], dtype=np.intp)
        if num_rows.any():
            stack = np.zeros((len(tables), max(len(table) for table in tables), int(num_rows.max())))
            for own, table in zip(stack, tables, strict=True):
                own[: table.shape[0], : table.shape[1]] = table
            found[rows, heads] = stack, num_rows
    return found


def set_beside(values: Floats, beside: str, logprob: Floats) -> Floats:
    """Summaries (n,) as they are, or beside the log-probability (n,), as `PARTS` names the ways."""
    if beside == "ratio":
        return values / (SURPRISE - logprob)
    return _residual(np.log(np.maximum(values, LEAST)), logprob) if beside == "residual" else values


def _choose_layers(table: Floats, layers: str) -> Floats:
    """[n, layers, rows]: all of its layers, or one third of them; a third that would be empty is all."""
    if layers == "all":
        return table
    number = ("early", "middle", "late").index(layers)
    bounds = [round(table.shape[1] * part / 3) for part in range(4)]
    chosen = table[:, bounds[number] : bounds[number + 1]]
    return chosen if chosen.shape[1] else table


def _residual(values: Floats, logprob: Floats) -> Floats:
    """The values minus their least-squares line over the log-probability; NaN where either is."""
    both = np.isfinite(values) & np.isfinite(logprob)
    found = np.full(values.shape, np.nan)
    if both.any():
        centred = logprob[both] - logprob[both].mean()
        spread = float(centred @ centred)
        slope = float(centred @ values[both]) / spread if spread > 0 else 0.0
        found[both] = values[both] - values[both].mean() - slope * centred
    return found
