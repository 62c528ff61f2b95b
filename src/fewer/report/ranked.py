"""How well each signal ranks each outcome under each arm: the areas, once, for the table and the figures."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fewer.report.block import Block, Column, Paragraph, Section, Table, estimate, number, word
from fewer.report.estimates import RESAMPLES, Estimates
from fewer.report.figures.answers import order_arms
from fewer.report.log import RANKED, SHORT, Log, read_family, read_keep
from fewer.report.number import write_share
from fewer.study.arms import Arm
from fewer.study.spec import Outcome
from fewer.study.stats import Interval, risk_coverage

__all__ = ["COVERAGES", "Ranked", "list_ranked", "rank_all"]

COVERAGES = (0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True, slots=True)
class Ranked:
    """One signal, arm and outcome. `area` is None where there is nothing to rank, and `why` says so."""

    outcome: str
    budget: str
    arm: str
    label: str
    signal: str
    area: Interval | None
    why: str
    num_with: int
    num_ranked: int
    num_without_signal: int


def rank_all(estimates: Estimates) -> list[Ranked]:
    """Every area there is to estimate; outcomes that an arm cannot have by their definition are passed over."""
    log = estimates.log
    found = []
    for outcome in log.study.outcomes:
        holds, known = log.outcomes(outcome)
        for arm in order_arms(log):
            mine = log.of_arm(arm.name) & known
            if arm.is_full and (outcome.full_at_least is not None or outcome.full_below is not None):
                continue
            for signal in RANKED:
                has = mine & np.isfinite(log.numbers(signal))
                if not has.any():
                    continue
                area, why = estimates.auc(arm.name, signal, outcome.name, np.ones(log.num_items, dtype=bool))
                found.append(
                    Ranked(
                        outcome=outcome.name,
                        budget=read_keep(arm),
                        arm=arm.name,
                        label=f"{read_family(arm)}, {SHORT[signal]}",
                        signal=signal,
                        area=area,
                        why=why,
                        num_with=int((has & holds).sum()),
                        num_ranked=int(has.sum()),
                        num_without_signal=int((mine & ~has).sum()),
                    )
                )
    return found


def list_ranked(estimates: Estimates, ranked: list[Ranked], figures: list[Block], name: str = "") -> Section:
    """The section: areas within a budget, shares at coverages, and the figures of both."""
    log = estimates.log
    if not ranked:
        text = "No answer has a signal, or the study has no outcomes: nothing can be ranked."
        return Section(f"{name}signals", "Signals", (Paragraph(text),))
    outcomes = "; ".join(f"“{outcome.name}”: {_define(outcome)}" for outcome in log.study.outcomes)
    areas = Table(
        f"{name}areas",
        "Areas within a budget",
        "The area under the ROC curve of a signal for an outcome, over pairs of answers of the same task, length and "
        "budget; answers are units, clusters are resampled whole. A higher signal is taken as likelier a good outcome, "
        "a lower one as likelier a bad one, a certificate the other way round; 0.5 is chance, below it the signal "
        "points the wrong way. Answers without the signal (failed, refused) cannot be ranked and are counted in the "
        f"last column. Outcomes: {outcomes}. "
        "Brackets are 95% intervals by the bias-corrected and accelerated bootstrap over clusters, "
        f"{RESAMPLES:,} resamples.",
        (
            Column("outcome", "outcome", "text"),
            Column("budget", "keep", "text"),
            Column("arm", "arm", "text"),
            Column("signal", "signal", "text"),
            Column("auc", "AUC", "interval"),
            Column("n", "answers"),
            Column("clusters", "clusters"),
            Column("with", "with the outcome"),
            Column("without_signal", "without the signal"),
        ),
        tuple(
            (
                word(entry.outcome),
                word(entry.budget),
                word(entry.arm),
                word(RANKED[entry.signal]),
                estimate(entry.area, why=entry.why),
                number(entry.area.n if entry.area else None),
                number(entry.area.clusters if entry.area else None),
                number(entry.num_with),
                number(entry.num_without_signal),
            )
            for entry in ranked
        ),
        heads=4,
    )
    return Section(f"{name}signals", "Signals", (areas, _list_coverage(log, ranked, name), *figures))


def _list_coverage(log: Log, ranked: list[Ranked], name: str) -> Table:
    rows = []
    arms = {arm.name: arm for arm in log.arms}
    outcomes = {outcome.name: outcome for outcome in log.study.outcomes}
    for entry in ranked:
        shares = _share_at(log, arms[entry.arm], outcomes[entry.outcome], entry.signal)
        cells = (number(share, write_share) for share in shares)
        head = (word(entry.outcome), word(entry.budget), word(entry.arm), word(RANKED[entry.signal]))
        rows.append((*head, *cells, number(entry.num_ranked)))
    columns = (
        Column("outcome", "outcome", "text"),
        Column("budget", "keep", "text"),
        Column("arm", "arm", "text"),
        Column("signal", "signal", "text"),
        *(Column(f"at_{100 * share:g}", f"at {share:.0%}") for share in COVERAGES),
        Column("n", "answers"),
    )
    caption = (
        "The share with the outcome among the surest answers, at four coverages; ties in the signal count as their "
        "expectation over all orders. Tasks are pooled; no intervals."
    )
    return Table(f"{name}coverage", "Risk at coverage", caption, columns, tuple(rows), heads=4)


def _share_at(log: Log, arm: Arm, outcome: Outcome, signal: str) -> list[float]:
    holds, known = log.outcomes(outcome)
    values = log.surest(signal)
    inside = log.of_arm(arm.name) & known & np.isfinite(values)
    curve = risk_coverage(values[inside], holds[inside].astype(float))
    return [float(share) for share in np.interp(COVERAGES, curve.coverage, curve.risk)]


def _define(outcome: Outcome) -> str:
    parts = [
        (outcome.at_least, "score at least"),
        (outcome.below, "score below"),
        (outcome.full_at_least, "full run at least"),
        (outcome.full_below, "full run below"),
    ]
    return ", ".join(f"{words} {bound:g}" for bound, words in parts if bound is not None)
