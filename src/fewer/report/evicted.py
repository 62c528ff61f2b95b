"""What eviction did to the cache: rows that stayed, bytes, seconds, and the certificates beside the score."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fewer.report.arms import mean_of
from fewer.report.block import Cell, Column, Section, Table, estimate, number, word
from fewer.report.estimates import HOW, UNIT, Estimates
from fewer.report.log import read_keep
from fewer.report.number import write_bytes, write_number, write_seconds, write_share, write_signed
from fewer.study.arms import Arm

__all__ = ["list_evicted"]

QUANTILES = (0.05, 0.5, 0.95)


def list_evicted(estimates: Estimates, name: str = "") -> Section | None:
    """The section, a row for each category and arm that evicts; None where no arm does."""
    log = estimates.log
    arms = [arm for arm in log.arms if arm.evict != "none" and np.isfinite(log.values(arm.name, "score")).any()]
    pairs = [(category, arm) for category in log.categories for arm in arms]
    rows = [row for category, arm in pairs if (row := _write_row(estimates, category, arm)) is not None]
    if not rows:
        return None
    caption = (
        "The question is known when the cache is compressed, but for “stream”, where it is compressed before. Rows: of "
        "all layers and heads once the prompt was read, over those of a full run. Bytes are those of the storages, "
        "reserved rows included: at the answer's end, how much of that is in use, and the most when it was compressed. "
        "Certificates are relative errors of attention outputs at a level, estimated from the sampling design and "
        "averaged over layers and heads: the largest of an answer's first six steps. Such an average bounds no error "
        "of anything. Arms that keep rows for certain can have none, nor can answers of one token. " + HOW
    )
    columns = (
        Column("category", "category", "text"),
        Column("arm", "arm", "text"),
        Column("budget", "budget", "text"),
        Column("condition", "condition", "text"),
        Column("score", "score", "interval"),
        Column("difference", "minus full", "interval"),
        Column("n", "n"),
        Column("clusters", "clusters"),
        Column("rows", "rows kept"),
        Column("kv_bytes", "KV bytes"),
        Column("kv_share", "of the full run's"),
        Column("used_bytes", "bytes in use"),
        Column("most_bytes", "most bytes"),
        Column("evict_s", "compressing"),
        *(Column(f"certificate_{100 * share:g}", f"certificate, {share:.0%}") for share in QUANTILES),
        Column("certified", "answers with one"),
    )
    table = Table(f"{name}evicted", "What eviction kept, and its certificates", caption, columns, tuple(rows), heads=2)
    return Section(f"{name}evicted", "Eviction", (table,))


def _write_row(estimates: Estimates, category: str, arm: Arm) -> tuple[Cell, ...] | None:
    """The row; None where the category has no answers of the arm."""
    log, among = estimates.log, estimates.log.among("category", category)
    scores, full = log.values(arm.name, "score"), log.values("full", "score")
    score = estimates.mean(scores, among, UNIT)
    if score.n == 0:
        return None

    def average(column: str, write: Callable[[float], str]) -> Cell:
        return number(mean_of(log.values(arm.name, column), among), write)

    held, whole = log.values(arm.name, "kv_bytes"), log.values("full", "kv_bytes")
    with np.errstate(invalid="ignore", divide="ignore"):
        share = mean_of(held / whole, among)
    certificates = log.numbers("certificate")[log.of_arm(arm.name) & among[log.place]]
    certificates = certificates[np.isfinite(certificates)]
    quantiles = np.quantile(certificates, QUANTILES).tolist() if certificates.size else [None] * len(QUANTILES)
    difference = estimates.difference(scores, full, among, UNIT)
    return (
        word(category),
        word(arm.name),
        word(read_keep(arm)),
        word(arm.condition),
        estimate(score),
        estimate(difference, write_signed, "no full run of the same items", score.n),
        number(score.n),
        number(score.clusters),
        average("kv_kept_fraction", write_share),
        average("kv_bytes", write_bytes),
        number(share, write_share),
        average("kv_used_bytes", write_bytes),
        average("kv_most_bytes", write_bytes),
        average("evict_s", write_seconds),
        *(number(value, write_number) for value in quantiles),
        number(int(certificates.size)),
    )
