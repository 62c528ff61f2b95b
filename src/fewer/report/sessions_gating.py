"""What the signals are good for: withholding the most doubted answers, or computing those again with the full cache."""

from __future__ import annotations

from collections.abc import Iterator

from fewer.report.block import Cell, Column, Section, Table, estimate, number, word
from fewer.report.number import write_signed
from fewer.report.sessions_panel import HEADS, PLAIN, Group, Panel
from fewer.report.sessions_signals import HOW
from fewer.study.sessions.gating import ORACLE, RANDOM, Gating

__all__ = ["list_gating"]

WITHHELD = (0.0, 0.1, 0.25, 0.5)
RATES = (0.1, 0.25, 0.5)


def list_gating(panel: Panel, name: str = "") -> Section:
    """The section: errors when the most doubted are withheld, and accuracies when they are recomputed."""
    groups = [(group, Gating(group.places, panel.worth, **panel.how)) for group in (*panel.policies, *panel.budgets)]
    coverage = [row for group, gating in groups for row in _write_errors(panel, group, gating)]
    recomputed = [row for group, gating in groups for row in _write_accuracies(panel, group, gating)]
    tables = (_make_coverage(coverage, name), _make_recomputed(recomputed, name))
    return Section(f"{name}gating", "Withholding and recomputing by a signal", tables)


def _write_errors(panel: Panel, group: Group, gating: Gating) -> Iterator[tuple[Cell, ...]]:
    for signal in [*panel.compared(group), ORACLE]:
        errors = (estimate(gating.error(signal, share)) for share in WITHHELD)
        yield *group.heads, word(signal), estimate(gating.area(signal)), *errors, number(gating.sample.n)


def _make_coverage(rows: list[tuple[Cell, ...]], name: str) -> Table:
    caption = (
        "The share of wrong answers among those that are given, when the most doubted of each policy and budget are "
        "withheld; AURC is the mean of that over all numbers given, and lower is better. Withholding at random changes "
        "nothing in expectation. An answer without the signal is withheld last. “oracle” knows which are wrong. " + HOW
    )
    columns = (
        *HEADS,
        Column("signal", "signal", "text"),
        Column("aurc", "AURC", "interval"),
        *(Column(f"withheld_{100 * share:g}", f"{share:.0%} withheld", "interval") for share in WITHHELD),
        Column("n", "answers"),
    )
    return Table(f"{name}withheld", "Errors among the answers given", caption, columns, tuple(rows), heads=4)


def _write_accuracies(panel: Panel, group: Group, gating: Gating) -> Iterator[tuple[Cell, ...]]:
    present = panel.compared(group)
    for rate in RATES:
        for signal in (*present, RANDOM, ORACLE):
            over_random = None if signal == RANDOM else gating.gain(signal, rate)
            compared = PLAIN in present and signal not in (PLAIN, RANDOM)
            over_plain = gating.gain(signal, rate, PLAIN) if compared else None
            yield (
                *group.heads,
                word(f"{rate:.0%}"),
                word(signal),
                estimate(gating.accuracy(signal, rate)),
                estimate(over_random, write_signed, "it is the random gate"),
                estimate(over_plain, write_signed, f"it is {PLAIN}, or {PLAIN} or a signal is missing"),
                number(gating.sample.n),
            )


def _make_recomputed(rows: list[tuple[Cell, ...]], name: str) -> Table:
    caption = (
        "The share of right answers when, within each policy and budget, so many of the answers, the most doubted, are "
        "replaced by the full run's. “random” is the exact expectation of choosing them at random; differences are "
        "paired by answer. An answer without the signal is recomputed last. The share is met exactly, as by a gate "
        "that sees all answers before it chooses; one that works online has to guess its threshold. “oracle” knows "
        "what the full run's answer gains, and no signal can do better. The full run is not always right. " + HOW
    )
    columns = (
        *HEADS,
        Column("rate", "recomputed", "text"),
        Column("signal", "signal", "text"),
        Column("accuracy", "right", "interval"),
        Column("over_random", "minus random", "interval"),
        Column("over_logprob", f"minus {PLAIN}", "interval"),
        Column("n", "answers"),
    )
    return Table(f"{name}recomputed", "Right answers with some recomputed", caption, columns, tuple(rows), heads=5)
