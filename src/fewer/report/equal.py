"""Arms against each other where they may be compared: at equal kept tokens, equal bytes, and equal time.

Arms of different budgets are never in one ranking: more tokens win for free. Each table lists every pair of arms at one
budget, paired by item.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

import numpy as np

from fewer.report.arms import mean_of
from fewer.report.block import Block, Cell, Column, Paragraph, Section, Table, estimate, number, word
from fewer.report.estimates import HOW, UNIT, Estimates
from fewer.report.log import Floats, Mask, read_keep
from fewer.report.number import write_bytes, write_seconds, write_share, write_signed
from fewer.study.arms import Arm

__all__ = ["CLOSE", "compare_at_equal"]

CLOSE = 0.05
"""Two means count as equal where they differ by at most this share of the larger."""


def compare_at_equal(estimates: Estimates, name: str = "") -> Section:
    """The section, with a table for each kind of budget."""
    log = estimates.log
    blocks: list[Block] = [
        Paragraph(
            "Each row is one pair of arms at one budget: the score of the first minus the second, paired by item. "
            "Arms of different budgets do not meet here."
        )
    ]
    pairs = [(a, b, read_keep(a)) for a, b in combinations(log.pruned, 2)]
    kept = [(a, b, keep) for a, b, keep in pairs if keep and keep == read_keep(b)]
    rows: list[tuple[Cell, ...]] = []
    for category in log.categories:
        among = log.among("category", category)
        for a, b, budget in kept:
            shares = _pair_means(log.kept(a.name), log.kept(b.name), among)
            rows += _write_pair(estimates, category, budget, (a, b), shares, write_share)
    blocks += _tabulate(
        f"{name}equal-tokens",
        "At equal kept tokens",
        "Both keep the same share or number of prompt tokens by their setting. What they compute may still differ: an "
        "arm that prunes later computes more, and one that evicts computes all and keeps so many rows in each head.",
        rows,
        "No two arms have the same keep.",
    )
    blocks += _compare_close(
        estimates,
        f"{name}equal-bytes",
        "At equal bytes",
        "KV bytes held",
        lambda arm: log.values(arm, "kv_bytes"),
        write_bytes,
    )
    if log.timed:
        blocks += _compare_close(
            estimates,
            f"{name}equal-time",
            "At equal time",
            "seconds to the first token",
            lambda arm: log.values(arm, "first_token_s", alone=True),
            write_seconds,
        )
    else:
        blocks.append(
            Paragraph(
                "No answer ran alone, so no seconds can be compared. In their place: equal work, the share of "
                "token-layers computed, which says nothing of overheads."
            )
        )
        blocks += _compare_close(
            estimates,
            f"{name}equal-work",
            "At equal work",
            "share of token-layers computed",
            lambda arm: log.values(arm, "computed_fraction"),
            write_share,
        )
    return Section(f"{name}equal", "Arms against each other, within a budget", tuple(blocks))


def _compare_close(
    estimates: Estimates,
    name: str,
    title: str,
    what: str,
    read: Callable[[str], Floats],
    write: Callable[[float], str],
) -> list[Block]:
    log = estimates.log
    rows: list[tuple[Cell, ...]] = []
    for category in log.categories:
        among = log.among("category", category)
        for a, b in combinations(log.pruned, 2):
            mine, theirs = _pair_means(read(a.name), read(b.name), among)
            if mine is None or theirs is None or abs(mine - theirs) > CLOSE * max(mine, theirs):
                continue
            rows += _write_pair(estimates, category, write((mine + theirs) / 2), (a, b), (mine, theirs), write)
    caption = f"Pairs whose {what}, as means over the same items, differ by at most {CLOSE:.0%}."
    return _tabulate(name, title, caption, rows, f"No two arms have {what} within {CLOSE:.0%} of each other.")


def _pair_means(a: Floats, b: Floats, among: Mask) -> tuple[float | None, float | None]:
    both = among & np.isfinite(a) & np.isfinite(b)
    return mean_of(a, both), mean_of(b, both)


def _tabulate(name: str, title: str, caption: str, rows: list[tuple[Cell, ...]], empty: str) -> list[Block]:
    if not rows:
        return [Paragraph(f"{title}: {empty[0].lower()}{empty[1:]}", True)]
    columns = (
        Column("category", "category", "text"),
        Column("budget", "budget", "text"),
        Column("first", "first arm", "text"),
        Column("second", "second arm", "text"),
        Column("difference", "first minus second", "interval"),
        Column("n", "n"),
        Column("clusters", "clusters"),
        Column("measure_first", "budget of first"),
        Column("measure_second", "of second"),
        Column("computed_first", "computed by first"),
        Column("computed_second", "by second"),
    )
    return [Table(name, title, f"{caption} {HOW}", columns, tuple(rows), heads=4)]


def _write_pair(
    estimates: Estimates,
    category: str,
    budget: str,
    arms: tuple[Arm, Arm],
    means: tuple[float | None, float | None],
    write: Callable[[float], str],
) -> list[tuple[Cell, ...]]:
    """The row of a pair; [] where no item has both."""
    log, among = estimates.log, estimates.log.among("category", category)
    scores = [log.values(arm.name, "score") for arm in arms]
    found = estimates.difference(scores[0], scores[1], among, UNIT)
    if found.n == 0:
        return []
    computed = [log.values(arm.name, "computed_fraction") for arm in arms]
    return [
        (
            word(category),
            word(budget),
            word(arms[0].name),
            word(arms[1].name),
            estimate(found, write_signed),
            number(found.n),
            number(found.clusters),
            *(number(mean, write) for mean in means),
            *(number(mean, write_share) for mean in _pair_means(computed[0], computed[1], among)),
        )
    ]
