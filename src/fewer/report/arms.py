"""Every arm on every category: what it scored beside the full run, and what it cost."""

from __future__ import annotations

import numpy as np

from fewer.report.block import Cell, Column, Paragraph, Section, Table, estimate, nothing, number, word
from fewer.report.estimates import HOW, UNIT, Estimates
from fewer.report.log import Floats, Log, Mask, read_keep
from fewer.report.number import write_bytes, write_seconds, write_share, write_signed
from fewer.study.arms import Arm

__all__ = ["list_arms", "mean_of"]

HEADS = (Column("category", "category", "text"), Column("arm", "arm", "text"), Column("keep", "keep", "text"))


def list_arms(estimates: Estimates, name: str = "") -> Section:
    """The section: one table of scores, one of costs, a row for each category and arm."""
    log = estimates.log
    cells = [(category, arm) for category in log.categories for arm in log.arms]
    cells = [(category, arm) for category, arm in cells if _count(log, category, arm)]
    if not cells:
        return Section(f"{name}arms", "Arms", (Paragraph("No arm has answers yet."),))
    scores = Table(
        f"{name}scores",
        "Scores of the arms",
        "Differences are arm minus full run, paired by item, seeds averaged within an item first. Agreement is the "
        "share of the full run's answer before the first different token; NLL is of the first reference answer, in "
        "nats a token, lower is better. Budgets stand beside each other here to be looked up, not ranked. " + HOW,
        (
            *HEADS,
            Column("score", "score", "interval"),
            Column("n", "n"),
            Column("clusters", "clusters"),
            Column("difference", "minus full", "interval"),
            Column("agreement", "agreement", "interval"),
            Column("nll_difference", "NLL minus full", "interval"),
        ),
        tuple(_write_scores(estimates, category, arm) for category, arm in cells),
        heads=2,
    )
    seconds = "first token, ran alone" if log.timed else "first token, sum of shared parts"
    costs = Table(
        f"{name}costs",
        "What the arms cost",
        "Computed: token-layers of the prefill over tokens times layers. Kept: tokens that reach the last layer; of "
        "arms that evict, rows of keys and values held once the prompt was read. Kept of the evidence: tokens of the "
        "supporting chunks that reach the last layer; of arms that evict, their rows held at the answer's end, over "
        "those of a full run. Bytes are of keys and values at the answer's end. Means over items. The speedup is the "
        "geometric mean over items of the full run's seconds to the first token over the arm's, where both ran alone. "
        + HOW,
        (
            *HEADS,
            Column("n", "n"),
            Column("computed", "computed"),
            Column("kept", "kept"),
            Column("supporting", "kept of the evidence", "interval"),
            Column("kv_bytes", "KV bytes"),
            Column("kv_share", "of the full run's"),
            Column("first_token_s", seconds),
            Column("speedup", "speedup", "interval"),
        ),
        tuple(_write_costs(estimates, category, arm) for category, arm in cells),
        heads=2,
    )
    return Section(f"{name}arms", "Arms", (scores, costs))


def mean_of(values: Floats, among: Mask) -> float | None:
    """The plain mean of what is there; None where nothing is."""
    found = values[among & np.isfinite(values)]
    return float(found.mean()) if found.size else None


def _count(log: Log, category: str, arm: Arm) -> int:
    return int((log.among("category", category) & np.isfinite(log.values(arm.name, "score"))).sum())


def _write_scores(estimates: Estimates, category: str, arm: Arm) -> tuple[Cell, ...]:
    log, among = estimates.log, estimates.log.among("category", category)
    score = estimates.mean(log.values(arm.name, "score"), among, UNIT)

    def difference(column: str, bounds: tuple[float, float] | None = None) -> Cell:
        if arm.is_full:
            return nothing("this is the full run")
        found = estimates.difference(log.values(arm.name, column), log.values("full", column), among, bounds)
        return estimate(found, write_signed, "no full run of the same items", score.n)

    agreement = estimates.mean(log.values(arm.name, "agreement"), among, UNIT)
    return (
        word(category),
        word(arm.name),
        word(read_keep(arm)),
        estimate(score),
        number(score.n),
        number(score.clusters),
        difference("score", UNIT),
        nothing("this is the full run") if arm.is_full else estimate(agreement, why="not measured", n=score.n),
        difference("nll"),
    )


def _write_costs(estimates: Estimates, category: str, arm: Arm) -> tuple[Cell, ...]:
    log, among = estimates.log, estimates.log.among("category", category)
    held, full = log.values(arm.name, "kv_bytes"), log.values("full", "kv_bytes")
    seconds = log.values(arm.name, "first_token_s", alone=log.timed)
    evicts = arm.evict != "none"
    supporting = estimates.mean(log.values(arm.name, "supporting_rows" if evicts else "supporting_kept"), among, UNIT)
    speedup, why = (None, "the reference") if arm.is_full else (None, "it reads another prompt")
    if arm in log.pruned:
        speedup, why = estimates.speedup(arm.name, among)
    with np.errstate(invalid="ignore", divide="ignore"):
        share = mean_of(held / full, among)
    return (
        word(category),
        word(arm.name),
        word(read_keep(arm)),
        number(_count(log, category, arm)),
        number(mean_of(log.values(arm.name, "computed_fraction"), among), write_share),
        number(mean_of(log.kept(arm.name), among), write_share),
        estimate(supporting, write_share, ("not recorded, or " if evicts else "") + "no labelled evidence"),
        number(mean_of(held, among), write_bytes),
        number(share, write_share),
        number(mean_of(seconds, among), write_seconds),
        estimate(speedup, lambda value: f"{value:.2f}×", why),
    )
