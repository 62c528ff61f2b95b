"""What a study would take on machines like this one: answers, prefills, seconds with a range, memory and disk.

A plan is an estimate from rates (`rates`) and the runner's way of working (`cost`). Its range is that of the rates,
taken as if all items erred in the same direction, and of the answers' lengths: at the least one token where nothing is
known of them, at the most what the item allows. What is not in it is listed in `not_covered`.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict

from fewer.errors import bad
from fewer.study.cost import Cost, cost_item
from fewer.study.item import Item
from fewer.study.rates import Rates
from fewer.study.spec import Study

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["NOT_COVERED", "Plan", "Scope", "Span", "TaskPlan", "pack_longest_first", "plan"]

STRICT = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
NOT_COVERED = (
    "loading the model and the data on every machine",
    "copying data, logs and models over a network",
    "tokenising, scoring and writing, beside the model's work",
    "other work on the machines, and machines of another speed",
    "time to start again after a failure",
)


class Span(BaseModel):
    """Seconds."""

    model_config = STRICT

    low: float
    likely: float
    high: float


class Scope(BaseModel):
    """A study, or what it is scaled to."""

    model_config = STRICT

    num_items: int
    num_answers: int
    seconds: Span
    """On one machine."""
    makespan: Span
    """Until the last machine is done, each item given to the machine with the least, longest items first (LPT)."""
    makespan_in_turn: Span
    """The same with items dealt out in turn, as the shards of `fewer study run` are."""
    disk_bytes: int
    """The log at the most: as it is while it is written. Sealed parts are compressed."""


class TaskPlan(BaseModel):
    """One task's part of the study."""

    model_config = STRICT

    name: str
    num_items: int
    num_answers: int
    num_refused: int
    num_tokens: int
    """Of all prompts."""
    seconds: Span


class Plan(BaseModel):
    """Made by `plan`."""

    model_config = STRICT

    study: str
    machines: int
    rates: str
    """Where the rates come from."""
    whole: Scope
    scaled: Scope | None
    tasks: tuple[TaskPlan, ...]
    num_refused: int
    """Answers that will not be run, since the prompt does not fit; they are rows with score 0."""
    num_prefills: int
    """Prompts prefilled, each as deep as some arm sees all of it."""
    num_branches: int
    """Answers that share a prefill and go on with fewer tokens."""
    prefill_share: float
    """Token-layers computed in prefills over those of every answer prefilling alone and pruning nothing."""
    peak_bytes: int
    """Of one machine's process, with the item that needs most."""
    num_extrapolated: int
    """Items with longer prompts than any that was measured."""
    not_covered: tuple[str, ...]
    notes: tuple[str, ...]

    def to_table(self) -> Table:
        """The plan as a table for a terminal."""
        from rich.table import Table

        table = Table(
            title=f"Plan of {self.study}", title_justify="left", caption=self._caption(), caption_justify="left"
        )
        table.add_column("")
        scopes = [self.whole] + ([self.scaled] if self.scaled else [])
        for name in ("this study", "scaled")[: len(scopes)]:
            table.add_column(name, justify="right")
        lines = {
            "items": [f"{scope.num_items:,}" for scope in scopes],
            "answers": [f"{scope.num_answers:,}" for scope in scopes],
            "time on one machine": [_show_span(scope.seconds) for scope in scopes],
        }
        if self.machines > 1:
            lines[f"time on {self.machines} machines"] = [_show_span(scope.makespan) for scope in scopes]
            lines["the same, items in turn"] = [_show_span(scope.makespan_in_turn) for scope in scopes]
        lines["disk, at most"] = [_show_bytes(scope.disk_bytes) for scope in scopes]
        lines["memory of a machine"] = [_show_bytes(self.peak_bytes)] * len(scopes)
        for name, values in lines.items():
            table.add_row(name, *values)
        return table

    def _caption(self) -> str:
        work = (
            f"{self.num_prefills:,} prefills, {self.num_branches:,} branches: {100 * self.prefill_share:.0f}% of the "
            "prefill work of every answer alone and unpruned."
        )
        return "\n".join([work, *self.notes, f"Rates: {self.rates}.", f"Not in it: {'; '.join(self.not_covered)}."])


def plan(
    study: Study, items: Sequence[tuple[Item, int]], rates: Rates, machines: int = 1, answers: int | None = None
) -> Plan:
    """Estimate a study over items with the tokens of their prompts.

    answers: also the same study scaled to at least so many answers, its items repeated in even proportion. Raises
    BadInput for no items, for machines or answers below 1, and for arms that the model's depth does not allow.
    """
    for name, value in (("machines", machines), ("answers", answers)):
        if value is not None and value < 1:
            raise bad(name, value, "at least 1", "Leave it out for one machine and the study as it is.")
    if not items:
        raise bad("items", [], "at least one", "Ask for more, or raise max_length.")
    costs = [cost_item(study, item, num_tokens, rates) for item, num_tokens in items]
    by_task: dict[str, list[tuple[int, Cost]]] = defaultdict(list)
    for (item, num_tokens), cost in zip(items, costs, strict=True):
        by_task[item.task].append((num_tokens, cost))
    extrapolated = sum(num_tokens > rates.prefill.longest for _, num_tokens in items)
    refused = sum(cost.refused for cost in costs)
    alone = sum(cost.token_layers_alone for cost in costs)
    scaled = None
    if answers is not None:
        count = -(-answers // costs[0].answers)
        scaled = [costs[index * len(costs) // count] for index in range(count)]
    return Plan(
        study=study.name,
        machines=machines,
        rates=rates.source,
        whole=_sum_scope(costs, machines),
        scaled=None if scaled is None else _sum_scope(scaled, machines),
        tasks=tuple(_sum_task(name, members) for name, members in by_task.items()),
        num_refused=refused,
        num_prefills=sum(cost.prefills for cost in costs),
        num_branches=sum(cost.branches for cost in costs),
        prefill_share=sum(cost.token_layers for cost in costs) / alone if alone else 0.0,
        peak_bytes=rates.weights_bytes
        + rates.overhead_bytes
        + round(rates.kv_bytes_per_token * max(cost.kv_tokens for cost in costs)),
        num_extrapolated=extrapolated,
        not_covered=NOT_COVERED,
        notes=_find_notes(study, rates, refused, extrapolated),
    )


def pack_longest_first(seconds: Sequence[float], machines: int) -> float:
    """When the last of the machines is done: longest first, each to the machine with the least so far.

    At most 4/3 of the best possible (Graham 1969).
    """
    loads = [0.0] * machines
    for one in sorted(seconds, reverse=True):
        heapq.heapreplace(loads, loads[0] + one)
    return max(loads)


def _find_notes(study: Study, rates: Rates, refused: int, extrapolated: int) -> tuple[str, ...]:
    notes = []
    if refused:
        notes.append(f"{refused:,} answers will be refused: their prompts do not fit into the model's positions.")
    if extrapolated:
        longest = f"the longest measured, {rates.prefill.longest:,.0f} tokens: their seconds are extrapolated"
        notes.append(f"{extrapolated:,} items are longer than {longest}.")
    if any(arm.prune == "entroprefill" for arm in study.expanded):
        notes.append(
            "Whether entroprefill prunes a prompt is not known before: its arms are taken to reach their keep after "
            "the first layer of their monitor, and to prune nothing where one of the two is not named."
        )
    if any(arm.evict != "none" for arm in study.expanded):
        notes.append("Compressing a cache and computing certificates are not in it: they were not measured.")
    if rates.step is None:
        notes.append("Decoding was not measured: seconds are those of the prefills alone.")
    if not rates.new_tokens:
        notes.append("How long answers are is not known: likely and high take every token allowed, low takes one.")
    return tuple(notes)


def _sum_scope(costs: Sequence[Cost], machines: int) -> Scope:
    ends = [[cost.seconds[end] for cost in costs] for end in range(3)]
    return Scope(
        num_items=len(costs),
        num_answers=sum(cost.answers for cost in costs),
        seconds=_span([sum(seconds) for seconds in ends]),
        makespan=_span([pack_longest_first(seconds, machines) for seconds in ends]),
        makespan_in_turn=_span([max(sum(seconds[shard::machines]) for shard in range(machines)) for seconds in ends]),
        disk_bytes=round(sum(cost.row_bytes for cost in costs)),
    )


def _sum_task(name: str, members: Sequence[tuple[int, Cost]]) -> TaskPlan:
    return TaskPlan(
        name=name,
        num_items=len(members),
        num_answers=sum(cost.answers for _, cost in members),
        num_refused=sum(cost.refused for _, cost in members),
        num_tokens=sum(num_tokens for num_tokens, _ in members),
        seconds=_span([sum(cost.seconds[end] for _, cost in members) for end in range(3)]),
    )


def _span(ends: Sequence[float]) -> Span:
    low, likely, high = ends
    return Span(low=low, likely=likely, high=high)


def _show_span(span: Span) -> str:
    size, unit = next(
        (size, unit) for size, unit in ((86_400, "days"), (3600, "h"), (60, "min"), (0, "s")) if span.likely >= 2 * size
    )
    low, likely, high = (seconds / (size or 1) for seconds in (span.low, span.likely, span.high))
    return f"{likely:.3g} {unit} ({low:.3g} to {high:.3g})"


def _show_bytes(count: int) -> str:
    size, unit = next((size, unit) for size, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (0, "B")) if count >= size)
    return f"{count / (size or 1):.3g} {unit}"
