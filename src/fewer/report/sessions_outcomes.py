"""What became of the answers beside the full run's, by task, and the scores of the arms beside each other."""

from __future__ import annotations

import numpy as np

from fewer.report.block import Cell, Column, Section, Table, estimate, number, word
from fewer.report.estimates import HOW, UNIT
from fewer.report.number import write_share, write_signed
from fewer.report.sessions_panel import HEADS, Panel
from fewer.study.sessions.contrasts import difference_from_full, difference_of, find_twin, mean_score
from fewer.study.sessions.outcomes import COMMON, count_outcomes
from fewer.study.sessions.places import Place

__all__ = ["list_outcomes"]


def list_outcomes(panel: Panel, name: str = "") -> Section:
    """The section: counts by task, and scores."""
    return Section(
        f"{name}outcomes", "Failures: made by the cache, or there before", (_count(panel, name), _compare(panel, name))
    )


def _count(panel: Panel, name: str) -> Table:
    rows = [
        _write_counts(place if task is None else place.of(task), task, panel.threshold)
        for place in panel.places
        for task in (None, *(place.tasks if len(place.tasks) > 1 else ()))
    ]
    low, high = COMMON
    caption = (
        f"An answer is right from a score of {panel.threshold:g} on. Induced: the full run is right on the item and "
        "the answer is wrong; inherent: both are wrong; gained: the full run is wrong and the answer is right. A "
        "policy with several seeds has several answers an item. Broken is the share of answers that are wrong where "
        "the full run is right. Telling the two kinds of failure apart is a question only where both are common: "
        f"marked where the full run fails {low:.0%} to {high:.0%}, and the cache breaks as much of the rest."
    )
    columns = (
        *HEADS,
        Column("task", "task", "text"),
        Column("answers", "answers"),
        Column("items", "items"),
        Column("clusters", "clusters"),
        Column("right", "right"),
        Column("induced", "induced"),
        Column("inherent", "inherent"),
        Column("gained", "gained"),
        Column("full_fails", "full run fails"),
        Column("broken", "broken"),
        Column("common", "both common", "text"),
    )
    return Table(f"{name}failures", "What became of the answers", caption, columns, tuple(rows), heads=4)


def _write_counts(place: Place, task: str | None, threshold: float) -> tuple[Cell, ...]:
    found = count_outcomes(place, threshold)
    return (
        *(word(text) for text in (place.condition, place.policy, place.budget, task or "all")),
        *(number(count) for count in (found.answers, found.items, found.clusters, found.right)),
        *(number(count) for count in (found.induced, found.inherent, found.gained)),
        number(found.full_fails, write_share),
        number(found.broken, write_share),
        word("yes" if found.both_common else "no"),
    )


def _compare(panel: Panel, name: str) -> Table:
    log, everything = panel.estimates.log, np.ones(panel.estimates.log.num_items, dtype=bool)
    rows: list[tuple[Cell, ...]] = []
    for arm in log.arms:
        if arm.evict == "none" and arm.prune == "none" and np.isfinite(log.values(arm.name, "score")).any():
            score = panel.estimates.mean(log.values(arm.name, "score"), everything, UNIT)
            heads = (word(arm.condition), word(arm.name), word("100%" if arm.is_full else ""))
            rows.append((*heads, estimate(score), number(score.n), number(score.clusters), word(""), word("")))
    for place in panel.places:
        score, twin = mean_score(place, **panel.how), find_twin(place, panel.places)
        beside = None if twin is None else difference_of(place, twin, **panel.how)
        rows.append(
            (
                *(word(text) for text in (place.condition, place.policy, place.budget)),
                estimate(score),
                number(score.n),
                number(score.clusters),
                estimate(difference_from_full(place, **panel.how), write_signed),
                estimate(beside, write_signed, "top-k with this score was not run"),
            )
        )
    caption = (
        "Mean scores over items, seeds averaged within an item first; differences are paired by item. The last column "
        "is a policy that draws minus top-k with the same score, at the same budget and condition. “Aware” knows the "
        "question when the cache is compressed, “stream” does not. " + HOW
    )
    columns = (
        *HEADS,
        Column("score", "score", "interval"),
        Column("n", "items"),
        Column("clusters", "clusters"),
        Column("difference", "minus full", "interval"),
        Column("beside", "minus top-k", "interval"),
    )
    return Table(f"{name}contrasts", "Scores beside the full run and top-k", caption, columns, tuple(rows), heads=3)
