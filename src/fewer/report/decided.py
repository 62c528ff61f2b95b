"""What planners that account for themselves decided, from the receipts: who was pruned, what stayed, and why not."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fewer.report.arms import mean_of
from fewer.report.block import Cell, Column, Section, Table, estimate, number, word
from fewer.report.estimates import HOW, UNIT, Estimates
from fewer.report.log import Floats, Log, name_arm
from fewer.report.number import write_number, write_share
from fewer.study.arms import Arm

__all__ = ["list_decided"]

_NUMBERS = ("saving", "dual_gap", "audit_bound", "document_mass")


@dataclass(frozen=True, slots=True)
class _Decided:
    """One arm: values by item (items,), NaN where there is none. A share is of the documents' tokens."""

    arm: Arm
    asked: Floats  # 1 where a planner was asked or declined
    pruned: Floats  # 0 or 1
    saved: Floats  # share of the prefill's token-layers
    intact: Floats  # 1 where all labelled supporting chunks reached the last layer whole
    layer: Floats
    seconds: Floats  # at all layers together
    numbers: dict[str, Floats]  # of the layer that was accepted
    reasons: Counter[str]  # of every time that it was asked


def list_decided(estimates: Estimates, name: str = "") -> Section | None:
    """The section; None where no arm's planner accounts for its decisions."""
    found = [decided for arm in estimates.log.pruned if (decided := _read(estimates.log, arm)) is not None]
    if not found:
        return None
    blocks = (_tabulate(estimates, found, name), _by_task(estimates, found, name), _count(found, name))
    return Section(f"{name}decided", "What was decided, and why not", blocks)


def _read(log: Log, arm: Arm) -> _Decided | None:
    """The arm's receipts; None where its planner does not account for decisions, or was never asked."""

    def empty() -> Floats:
        return np.full(log.num_items, np.nan)

    numbers = {key: empty() for key in _NUMBERS}
    found = _Decided(arm, empty(), empty(), empty(), empty(), empty(), empty(), numbers, Counter())
    kept, accounts = log.numbers("supporting_kept"), arm.prune == "entroprefill"
    for row in np.flatnonzero(log.of_arm(arm.name)):
        text = log.texts("receipt")[row]
        receipt = json.loads(text) if text else {}
        decisions = receipt.get("decisions") or []
        item = log.place[row]
        if not decisions and not receipt.get("bypass"):
            continue
        accounts |= bool(decisions)
        rows = receipt["computed"]["prefill_rows_per_layer"]
        found.asked[item], found.pruned[item] = 1.0, float(bool(receipt["plans"]))
        found.saved[item] = 1 - sum(rows) / (receipt["prompt"]["num_tokens"] * len(rows))
        if np.isfinite(kept[row]):
            found.intact[item] = float(kept[row] >= 1)
        found.reasons.update(decision["outcome"] for decision in decisions)
        if not decisions:
            found.reasons.update(["declined: " + re.sub(r"\d[\d.,]*", "N", receipt["bypass"][0])])
        seconds = [decision["numbers"]["seconds"] for decision in decisions if "seconds" in decision["numbers"]]
        found.seconds[item] = sum(seconds) if seconds else np.nan
        for decision in decisions:
            if decision["outcome"] == "accepted":
                _note(found, item, decision["layer"], decision["numbers"])
    return found if accounts and found.reasons else None


def _note(found: _Decided, item: int, layer: int, numbers: dict[str, float]) -> None:
    """What the accepted layer's decision says; savings and gaps as shares of the candidates' tokens."""
    found.layer[item] = layer
    for key in _NUMBERS:
        if key in numbers:
            scale = numbers["candidate_tokens"] if key in ("saving", "dual_gap") else 1.0
            found.numbers[key][item] = min(1.0, numbers[key] / scale)  # a bound may be above all there is


def _tabulate(estimates: Estimates, found: Sequence[_Decided], name: str) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for one in found:
        asked = np.isfinite(one.asked)
        pruned = asked & (one.pruned == 1)
        rows.append(
            (
                word(name_arm(one.arm)),
                number(int(asked.sum())),
                estimate(estimates.mean(one.pruned, asked, UNIT), write_share),
                estimate(estimates.mean(one.saved, asked, UNIT), write_share),
                estimate(estimates.mean(one.intact, pruned, UNIT), write_share),
                estimate(estimates.mean(one.intact, asked, UNIT), write_share),
                estimate(estimates.mean(one.layer, pruned), write_number),
                *(estimate(estimates.mean(one.numbers[key], pruned, UNIT), write_share) for key in _NUMBERS),
                number(None if (mean := mean_of(one.seconds, asked)) is None else 1e3 * mean, write_number),
            )
        )
    columns = (
        Column("arm", "arm", "text"),
        Column("n", "n"),
        Column("pruned", "pruned", "interval"),
        Column("saved", "token-layers saved", "interval"),
        Column("intact_pruned", "support intact, of pruned", "interval"),
        Column("intact", "support intact, of all", "interval"),
        Column("layer", "layer", "interval"),
        Column("removed", "documents removed", "interval"),
        Column("dual_gap", "dual gap", "interval"),
        Column("audit_bound", "audit bound", "interval"),
        Column("document_mass", "document mass", "interval"),
        Column("decision_ms", "ms to decide"),
    )
    caption = (
        "Requests that were not pruned are in the first two shares, with nothing saved; n leaves out those that failed "
        "or did not fit. Support is intact where every labelled supporting chunk reached the last layer whole. From "
        "layer to document mass: means over the pruned. The dual gap is how much more of the documents could have left "
        "at most, under the same constraints; the audit bound is the worst head's, a bound above 100% counting as "
        "100%; both hold at the accepted layer only. Deciding: the mean over the requests in which a layer was judged, "
        f"all layers of each together; making the attention rows that are looked at is not in it. {HOW}"
    )
    return Table(f"{name}decided", "Requests that were pruned", caption, columns, tuple(rows), heads=1)


def _by_task(estimates: Estimates, found: Sequence[_Decided], name: str) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for one in found:
        for task in estimates.log.tasks:
            asked = estimates.log.among("task", task) & np.isfinite(one.asked)
            pruned = asked & (one.pruned == 1)
            rows.append(
                (
                    word(name_arm(one.arm)),
                    word(task),
                    number(int(asked.sum())),
                    number(int(pruned.sum())),
                    estimate(estimates.mean(one.saved, asked, UNIT), write_share),
                    estimate(estimates.mean(one.intact, pruned, UNIT), write_share, n=int(pruned.sum())),
                )
            )
    columns = (
        Column("arm", "arm", "text"),
        Column("task", "task", "text"),
        Column("n", "n"),
        Column("pruned", "pruned"),
        Column("saved", "token-layers saved", "interval"),
        Column("intact_pruned", "support intact, of pruned", "interval"),
    )
    caption = f"A second n: so many of the pruned have labelled supporting chunks. {HOW}"
    return Table(f"{name}decided-tasks", "The same by task", caption, columns, tuple(rows), heads=2)


def _count(found: Sequence[_Decided], name: str) -> Table:
    """How often each outcome came, of all times that a planner was asked."""
    rows = [
        (word(name_arm(one.arm)), word(outcome), number(count), number(count / one.reasons.total(), write_share))
        for one in found
        for outcome, count in one.reasons.most_common()
    ]
    columns = (Column("arm", "arm", "text"), Column("outcome", "outcome", "text"), Column("times", "times"),
               Column("share", "share"))  # fmt: skip
    caption = (
        "Every monitored layer of every request, up to the one that was accepted; and requests that were declined "
        "whole, with N for every number in the reason."
    )
    return Table(f"{name}outcomes", "Outcomes, layer by layer", caption, columns, tuple(rows), heads=2)
