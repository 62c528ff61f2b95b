"""What an arm's score costs and what it buys: score against the speedup to the first token, in one table.

Seconds are the run's own where its arms ran alone. Otherwise they may come from another run that timed the same arms:
then they are of other items and lengths, and the table says which. Token-layers are always of the run's own items.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fewer.report.block import Cell, Column, Table, estimate, number, word
from fewer.report.estimates import HOW, UNIT, Estimates
from fewer.report.log import Floats, Log, Mask, read_keep
from fewer.report.number import write_count, write_share, write_signed
from fewer.study.arms import Arm
from fewer.study.stats import Interval

__all__ = ["find_speedups", "list_traded"]


def find_speedups(log: Log, seconds: Estimates | None) -> dict[str, Interval]:
    """The speedups that another run measured of arms defined as the log's are, by their names in the log.

    Nothing where the log has seconds of its own, the other run has none, or model, device or number format differ.
    """
    if seconds is None or log.timed or _model_of(log) != _model_of(seconds.log):
        return {}
    everywhere = np.ones(seconds.log.num_items, dtype=bool)
    known = {_define(arm): seconds.speedup(arm.name, everywhere)[0] for arm in seconds.log.pruned}
    pairs = ((arm.name, known.get(_define(arm))) for arm in log.pruned)
    return {name: found for name, found in pairs if found is not None}


def list_traded(
    estimates: Estimates, elsewhere: Mapping[str, Interval], seconds: Estimates | None, name: str = ""
) -> list[Table]:
    """The table, a row for each category and arm that leaves something out; [] without such arms."""
    log = estimates.log
    rows = []
    for category in log.categories:
        among = log.among("category", category)
        for arm in log.pruned:
            scores = log.values(arm.name, "score")
            if bool((among & np.isfinite(scores) & np.isfinite(log.values("full", "score"))).any()):
                rows.append(_write(estimates, elsewhere, category, arm, among))
    if not rows:
        return []
    columns = (
        Column("category", "category", "text"),
        Column("arm", "arm", "text"),
        Column("keep", "keep", "text"),
        Column("score", "score", "interval"),
        Column("difference", "minus full", "interval"),
        Column("share", "of the full run's", "interval"),
        Column("work", "times fewer token-layers"),
        Column("speedup", "times faster to the first token", "interval"),
        Column("where", "seconds of", "text"),
        Column("n", "n"),
        Column("clusters", "clusters"),
    )
    caption = (
        "Token-layers are those of the prefill, the geometric mean over items of what all tokens through all layers "
        "are over what the arm computed: what the first token would gain if nothing else took time. Seconds count only "
        f"where both the arm and the full run ran alone.{_say_where(elsewhere, seconds)} {HOW}"
    )
    return [Table(f"{name}traded", "Score against speedup", caption, columns, tuple(rows), heads=3)]


def _write(
    estimates: Estimates, elsewhere: Mapping[str, Interval], category: str, arm: Arm, among: Mask
) -> tuple[Cell, ...]:
    log = estimates.log
    mine, full = log.values(arm.name, "score"), log.values("full", "score")
    both = among & np.isfinite(mine) & np.isfinite(full)
    score, speedup = estimates.mean(mine, among, UNIT), elsewhere.get(arm.name)
    where, why = ("another run" if speedup else ""), "nobody timed it alone"
    if log.timed:
        speedup, why = estimates.speedup(arm.name, among)
        where = "this run" if speedup else ""
    share = estimates.share(mine, full, both) if float(full[both].sum()) > 0 else None
    return (
        word(category),
        word(arm.name),
        word(read_keep(arm)),
        estimate(score),
        estimate(estimates.difference(mine, full, among, UNIT), write_signed),
        estimate(share, write_share, "the full run scored 0"),
        number(_times_fewer(log.values(arm.name, "computed_fraction"), among), lambda value: f"{value:.2f}×"),
        estimate(speedup, lambda value: f"{value:.2f}×", why),
        word(where),
        number(score.n),
        number(score.clusters),
    )


def _times_fewer(computed: Floats, among: Mask) -> float | None:
    """The geometric mean of 1 / computed over the items that have it."""
    found = computed[among & np.isfinite(computed) & (computed > 0)]
    return float(np.exp(-np.log(found).mean())) if found.size else None


def _say_where(elsewhere: Mapping[str, Interval], seconds: Estimates | None) -> str:
    """In a sentence, whose seconds the borrowed ones are."""
    if not elsewhere or seconds is None:
        return ""
    log = seconds.log
    sizes = log.lengths[np.isfinite(log.lengths)]
    span = " to ".join(f"{size:,.0f}" for size in dict.fromkeys((sizes.min(), sizes.max())))
    what = f"{write_count(log.num_items, 'item')} of {', '.join(log.tasks)}, {span} tokens"
    return f" Those of another run are of {log.study.name}: {what}; not of the items scored here."


def _define(arm: Arm) -> tuple[object, ...]:
    """What makes two arms the same, whatever they are called."""
    settings = tuple(sorted((key, str(value)) for key, value in arm.settings))
    return arm.prune, arm.evict, arm.condition, arm.like, settings


def _model_of(log: Log) -> tuple[object, ...]:
    """Weights, device and number format, as the run's header has them."""
    environment = log.run.header.get("environment") or {}
    return tuple(environment.get(key) for key in ("model_sha256", "device", "dtype", "weights"))
