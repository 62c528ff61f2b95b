"""What came back after the prefill, from the receipts of arms that choose anew at every step."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fewer.report.block import Block, Cell, Column, Section, Table, estimate, number, word
from fewer.report.chart.axis import fit_axis
from fewer.report.chart.mark import Figure, Panel
from fewer.report.chart.xy import Point, Series, plot_xy
from fewer.report.estimates import HOW, UNIT, Estimates
from fewer.report.log import Floats, Log, name_arm, read_keep
from fewer.report.number import write_bytes, write_number, write_share
from fewer.study.arms import Arm

__all__ = ["list_revived"]

_FIRST = 32  # steps that the picture shows, and the mean number of revivals is taken over
_SHOWN = (0, 1, 2, 4, 8, 16, 32)  # steps that the table of layer bands has a column for


@dataclass(frozen=True, slots=True)
class _Used:
    """One arm: values by item (items,), and what was seen at each step behind each stop, as shares of the prompt."""

    arm: Arm
    prefill: Floats
    end: Floats
    revived: Floats
    per_step: Floats
    aux: Floats
    kv: Floats
    num_layers: int
    stops: tuple[int, ...]
    steps: tuple[tuple[float, ...], ...]  # by stop, then step
    counts: tuple[int, ...]  # answers that had that step


def list_revived(estimates: Estimates, name: str = "") -> Section | None:
    """The section; None where no arm chose anew after the prefill."""
    found = [used for arm in estimates.log.pruned if (used := _read(estimates.log, arm)) is not None]
    if not found:
        return None
    blocks: list[Block] = [*_draw(found, name), _list_bands(found, name), _tabulate(estimates, found, name)]
    return Section(f"{name}revived", "Tokens that come back", tuple(blocks))


def _read(log: Log, arm: Arm) -> _Used | None:
    """The arm's receipts; None where none of them has a revival."""
    columns = {key: np.full(log.num_items, np.nan) for key in ("prefill", "end", "revived", "per_step", "aux", "kv")}
    seen: list[list[Any]] = []
    stops: tuple[int, ...] = ()
    num_layers = 0
    for row in np.flatnonzero(log.of_arm(arm.name)):
        text = log.texts("receipt")[row]
        receipt = json.loads(text) if text else {}
        revival = receipt.get("revival")
        if not revival:
            continue
        item, size = log.place[row], receipt["prompt"]["num_tokens"]
        rows = receipt["computed"]["prefill_rows_per_layer"]
        last, num_layers = rows[-1], len(rows)
        later = sum(chunk["revived_per_layer"][-1] for chunk in receipt["prompt"]["chunks"])
        steps = revival["revived_per_step"][:_FIRST]
        columns["prefill"][item], columns["end"][item] = last / size, (last + later) / size
        columns["revived"][item] = revival["num_revived"]
        columns["per_step"][item] = sum(steps) / len(steps) if steps else np.nan
        columns["aux"][item], columns["kv"][item] = revival["aux_bytes"], receipt["memory"]["kv_total_bytes"]
        stops = tuple(plan["layer"] for plan in receipt["plans"])
        first = [plan["num_kept"] for plan in receipt["plans"]]
        seen.append([[share / size for share in step] for step in [first, *revival["active_per_step"][:_FIRST]]])
    if not seen:
        return None
    longest = max(map(len, seen))
    steps_of = [[one[step] for one in seen if len(one) > step] for step in range(longest)]
    shares = tuple(
        tuple(float(np.mean([step[stop] for step in some])) for some in steps_of) for stop in range(len(stops))
    )
    counts = tuple(map(len, steps_of))
    return _Used(arm, **columns, num_layers=num_layers, stops=stops, steps=shares, counts=counts)


def _draw(found: Sequence[_Used], name: str) -> list[Figure]:
    """The share of the prompt that the newest position sees behind each stop, step by step."""
    panels: list[Panel] = []
    for used in found:
        highest = max(max(stop) for stop in used.steps)
        x_axis = fit_axis("step; 0 is the prefill", [0, len(used.counts) - 1], include=(0,))
        y_axis = fit_axis("prompt tokens seen", [0.0, highest], include=(0,), within=UNIT)
        series = [
            Series(
                index,
                f"after layer {stop}",
                tuple(
                    Point(step, share, tip=f"step {step}: {write_share(share)}, {used.counts[step]:,} answers")
                    for step, share in enumerate(used.steps[index])
                ),
                dots=False,
            )
            for index, stop in enumerate(used.stops)
        ]
        panels.append(plot_xy(name_arm(used.arm), x_axis, y_axis, series))
    caption = (
        "The mean share of the prompt's tokens that the newest position sees in the layers behind each stop, over the "
        f"answers that are that long, up to step {_FIRST}. Protected tokens are in it. All tasks together."
    )
    return [Figure(f"{name}usage", "Usage of the prompt, step by step", caption, tuple(panels), (), "Brought back")]


def _list_bands(found: Sequence[_Used], name: str) -> Table:
    """The same in numbers: a row for each band of layers between two stops, at some of the steps."""
    rows: list[tuple[Cell, ...]] = []
    for used in found:
        ends = (*used.stops, used.num_layers)
        whole = (1.0,) * len(used.counts)
        for first, last, shares in zip((0, *used.stops), ends, (whole, *used.steps), strict=True):
            seen = (shares[step] if step < len(shares) else None for step in _SHOWN)
            rows.append(
                (
                    word(used.arm.name),
                    number(first + 1),
                    number(last),
                    *(number(share, write_share) for share in seen),
                    number(used.counts[-1]),
                )
            )
    columns = (
        Column("arm", "arm", "text"),
        Column("first_layer", "layers from"),
        Column("last_layer", "to"),
        *(Column(f"step_{step}", f"step {step}" if step else "prefill") for step in _SHOWN),
        Column("answers", "answers with the last step"),
    )
    caption = (
        "The mean share of the prompt's tokens that the newest position sees in the layers between two stops, in the "
        f"prefill and at later steps, over the answers that are that long, up to step {_FIRST}; the layers below the "
        "first stop see all. No intervals. All tasks together."
    )
    return Table(f"{name}bands", "Usage by band of layers", caption, columns, tuple(rows), heads=3)


def _tabulate(estimates: Estimates, found: Sequence[_Used], name: str) -> Table:
    everywhere = np.ones(estimates.log.num_items, dtype=bool)
    rows: list[tuple[Cell, ...]] = []
    for used in found:
        has = np.isfinite(used.end)
        rows.append(
            (
                word(read_keep(used.arm)),
                word(used.arm.name),
                estimate(estimates.mean(used.prefill, everywhere, UNIT), write_share),
                estimate(estimates.mean(used.end, everywhere, UNIT), write_share),
                number(float(used.revived[has].mean()), write_number),
                number(float(np.nanmean(used.per_step)) if np.isfinite(used.per_step).any() else None, write_number),
                number(float(used.aux[has].mean()), write_bytes),
                number(float(used.aux[has].sum() / used.kv[has].sum()), write_share),
                number(int(has.sum())),
            )
        )
    columns = (
        Column("budget", "keep", "text"),
        Column("arm", "arm", "text"),
        Column("prefill", "last layer, prefill", "interval"),
        Column("end", "last layer, by the end", "interval"),
        Column("revived", "came back"),
        Column("per_step", f"a step, first {_FIRST}"),
        Column("aux_bytes", "states held"),
        Column("aux_share", "of KV bytes"),
        Column("n", "n"),
    )
    caption = (
        "Shares of the prompt's tokens that went through the last layer, in the prefill and by the end of the answer; "
        "tokens that came back, in an answer and in a step; bytes of stored hidden states beside keys and values, "
        "reserved rows included. "
        f"{HOW}"
    )
    return Table(f"{name}revived", "Brought back", caption, columns, tuple(rows), heads=2)
