"""The numbers behind the pictures of length, depth and margins."""

from __future__ import annotations

import numpy as np

from fewer.report.block import Block, Cell, Column, Section, Table, estimate, number, word
from fewer.report.estimates import HOW, UNIT, Estimates
from fewer.report.figures.answers import QUANTILES, order_arms
from fewer.report.figures.lengths import find_bins
from fewer.report.log import SIGNALS, Log, read_keep
from fewer.report.number import write_number

__all__ = ["list_lengths", "list_margins"]


def list_lengths(estimates: Estimates, figures: list[Block], name: str = "") -> Section | None:
    """The section of length and depth; None where no category has more than one length."""
    tables = [table for table in (_by_length(estimates, name), _by_depth(estimates.log, name)) if table is not None]
    if not tables:
        return None
    return Section(f"{name}length", "Length and depth", (*figures, *tables))


def list_margins(log: Log, name: str = "") -> Table | None:
    """The quantiles of each signal under each arm; None where no answer has one."""
    rows: list[tuple[Cell, ...]] = []
    for arm in order_arms(log):
        for signal, words in SIGNALS.items():
            values = log.numbers(signal)[log.of_arm(arm.name)]
            values = values[np.isfinite(values)]
            if values.size:
                cells = (number(float(end)) for end in np.quantile(values, QUANTILES))
                head = (word(words), word(read_keep(arm)), word(arm.name))
                rows.append((*head, *cells, number(int(values.size))))
    if not rows:
        return None
    columns = (
        Column("signal", "signal, nats", "text"),
        Column("budget", "keep", "text"),
        Column("arm", "arm", "text"),
        *(Column(f"q{100 * share:g}", f"{share:.0%}") for share in QUANTILES),
        Column("n", "answers"),
    )
    caption = "Quantiles over an arm's answers, all tasks together, every seed an answer of its own."
    return Table(f"{name}margins", "Margins of the answers", caption, columns, tuple(rows), heads=3)


def _by_length(estimates: Estimates, name: str) -> Table | None:
    log, rows = estimates.log, []
    for category in log.categories:
        bins = find_bins(log, log.among("category", category))
        for arm in log.arms if len(bins) > 1 else ():
            for label, among in bins:
                score = estimates.mean(log.values(arm.name, "score"), among, UNIT)
                if score.estimate is not None:
                    head = (word(category), word(read_keep(arm)), word(arm.name), word(label))
                    rows.append((*head, estimate(score), number(score.n), number(score.clusters)))
    if not rows:
        return None
    columns = (
        Column("category", "category", "text"),
        Column("budget", "keep", "text"),
        Column("arm", "arm", "text"),
        Column("length", "prompt tokens", "text"),
        Column("score", "score", "interval"),
        Column("n", "n"),
        Column("clusters", "clusters"),
    )
    return Table(f"{name}lengths", "Scores by length", HOW, columns, tuple(rows), heads=4)


def _by_depth(log: Log, name: str) -> Table | None:
    rows = []
    for task in log.tasks:
        among = log.among("task", task) & np.isfinite(log.depths)
        lengths, depths = sorted(set(log.lengths[among].tolist())), sorted(set(log.depths[among].tolist()))
        for arm in order_arms(log):
            scores = log.values(arm.name, "score")
            for length in lengths:
                for depth in depths:
                    inside = among & (log.lengths == length) & (log.depths == depth) & np.isfinite(scores)
                    if inside.any():
                        head = (word(task), word(read_keep(arm)), word(arm.name))
                        place = (number(int(length)), number(depth, lambda value: f"{value:g}"))
                        score = number(float(scores[inside].mean()), write_number)
                        rows.append((*head, *place, score, number(int(inside.sum()))))
    if not rows:
        return None
    columns = (
        Column("task", "task", "text"),
        Column("budget", "keep", "text"),
        Column("arm", "arm", "text"),
        Column("length", "prompt tokens"),
        Column("depth", "depth"),
        Column("score", "score"),
        Column("n", "n"),
    )
    caption = "The cells of the maps: means, without intervals since the cells are small."
    return Table(f"{name}depths", "Scores by length and depth", caption, columns, tuple(rows), heads=3)
