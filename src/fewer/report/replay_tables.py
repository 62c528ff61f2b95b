"""The tables of a replay's report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from fewer.report.block import Cell, Column, Table, estimate, number, word
from fewer.report.number import write_number, write_plain, write_share
from fewer.report.published import CERTIFICATES, PUBLISHED
from fewer.study.replay.estimates import Estimates, Place
from fewer.study.replay.moved import Moved
from fewer.study.replay.spec import Condition
from fewer.study.stats import Interval

__all__ = ["compare_designs", "compare_forms", "compare_papers", "compare_some", "list_depths", "list_moved"]

UNIFORM = "uniform"
HEADS = (
    Column("condition", "condition", "text"),
    Column("budget", "budget", "text"),
    Column("arm", "arm", "text"),
)
OVER_PROMPTS = "95% intervals over prompts in brackets."


def compare_designs(estimates: Estimates, condition: Condition) -> tuple[Table, Table]:
    """Errors and certificates of every arm at every budget."""
    study = estimates.study
    errors, certificates = [], []
    for budget in study.budgets:
        for arm in study.arms:
            place = (condition, budget, arm.name)
            cells, _, off = estimates.count(place)
            names = _name(place)
            uniform = (condition, budget, UNIFORM)
            errors.append(
                (
                    *names,
                    _show(estimates.median("error", place), 4),
                    _show(estimates.measure("error_over_reference", place)),
                    _show(estimates.over("error", place, "plug_in", uniform)),
                    _show(estimates.over("plug_in", place, "error", place), 2),
                    number(off),
                    number(cells),
                )
            )
            if estimates.measure("coverage", place) is not None:
                certificates.append((*names, *_certificate(estimates, place)))
    columns = (
        *HEADS,
        Column("error", "median error", "interval"),
        Column("over_reference", f"over {study.reference}", "interval"),
        Column("over_uniform", "over uniform without offset", "interval"),
        Column("without_offset", "without the offset, over with it", "interval"),
        Column("off", "rows off the budget, at most"),
        Column("cells", "cells"),
    )
    caption = (
        "Median over cells of the relative error of one attention output. Without the offset: the same rows, each "
        f"counted once instead of 1/pi times. {OVER_PROMPTS}"
    )
    first = Table(f"errors-{condition}", f"Errors, {condition}", caption, columns, tuple(errors), 3)
    caption = f"The audited radius, at delta {study.delta:g}. The tenth is that of cells with the largest error. "
    second = Table(
        f"certificates-{condition}",
        f"Certificates, {condition}",
        caption + OVER_PROMPTS,
        (*HEADS, *_CERTIFICATE),
        tuple(certificates),
        3,
    )
    return first, second


def compare_forms(estimates: Estimates) -> Table:
    """The audited radius, equation (4) on the same samples, and the calibrated one."""
    study, rows = estimates.study, []
    for condition in study.conditions:
        for budget in study.budgets:
            for arm in dict.fromkeys((study.main, "paper")):
                place = (condition, budget, arm)
                if estimates.measure("coverage", place) is None:
                    continue
                for title, column, variance, factor in (
                    ("audited", "radius", "variance", 1.0),
                    ("equation (4)", "paper_radius", "paper_variance", 1.0),
                    ("calibrated", "radius", "variance", study.factor),
                ):
                    found = (
                        estimates.coverage(place, radius=column, factor=factor),
                        estimates.coverage(place, radius=column, factor=factor, largest=True),
                        estimates.spearman(place, column),
                        estimates.over(column, place, "error", place, factor),
                        estimates.variance(place, variance),
                    )
                    rows.append((*_name(place), word(title), *map(_show, found)))
    caption = (
        f"Three radii of the same samples. Calibrated: {study.factor:g} times the audited one, whose level is then 90% "
        f"by measurement and not by delta. {OVER_PROMPTS}"
    )
    columns = (*HEADS, Column("form", "form", "text"), *_CERTIFICATE)
    return Table("forms", "Forms of the radius", caption, columns, tuple(rows), 4)


def list_depths(estimates: Estimates) -> Table:
    """The main arm by thirds of the layers."""
    study, rows = estimates.study, []
    last = int(max((estimates.part(place)["layer"].max() for place in _places(estimates)), default=1))
    ends = [round(last * part / 3) for part in range(4)]
    for condition in study.conditions:
        for budget in study.budgets:
            place = (condition, budget, study.main)
            for low, high in pairwise(ends):
                layers = range(low + 1, high + 1)
                if not layers or not estimates.part(place)["error"].size:
                    continue
                found = (
                    estimates.median("error", place, layers),
                    estimates.coverage(place, layers=layers),
                    estimates.coverage(place, largest=True, layers=layers),
                    estimates.spearman(place, layers=layers),
                    estimates.over("radius", place, "error", place, layers=layers),
                )
                rows.append((*_name(place), word(f"{low + 1} to {high}"), *map(_show, found)))
    columns = (
        *HEADS,
        Column("layers", "layers", "text"),
        Column("error", "median error", "interval"),
        *_CERTIFICATE[:4],
    )
    caption = f"The tenth is that of cells with the largest error among these layers. {OVER_PROMPTS}"
    return Table("depths", f"By depth, {study.main}", caption, columns, tuple(rows), 4)


def compare_some(estimates: Estimates, arms: Sequence[str], name: str, title: str) -> Table:
    """A few arms beside each other."""
    study, rows = estimates.study, []
    for condition in study.conditions:
        for budget in study.budgets:
            for arm in arms:
                place = (condition, budget, arm)
                if estimates.measure("coverage", place) is None:
                    continue
                found = (
                    estimates.median("error", place),
                    estimates.median("radius", place),
                    estimates.median("kappa", place),
                    estimates.coverage(place),
                    estimates.coverage(place, largest=True),
                    estimates.coverage(place, radius="paper_radius"),
                )
                rows.append((*_name(place), *map(_show, found)))
    columns = (
        *HEADS,
        Column("error", "median error", "interval"),
        Column("radius", "median radius", "interval"),
        Column("kappa", "median audit factor", "interval"),
        Column("coverage", "coverage", "interval"),
        Column("largest", "in the tenth", "interval"),
        Column("paper_coverage", "coverage of equation (4)", "interval"),
    )
    return Table(name, title, f"The audited radius unless it says otherwise. {OVER_PROMPTS}", columns, tuple(rows), 3)


def list_moved(moved: Sequence[Moved]) -> Table:
    """Theorem 1's worlds."""
    columns = (
        Column("condition", "condition", "text"),
        Column("budget", "budget", "text"),
        Column("cells", "cells"),
        Column("worlds", "worlds"),
        Column("same", "cells with the same bits in all worlds"),
        Column("median", "median factor"),
        Column("tenth", "factor that a tenth exceeds"),
        Column("largest", "largest factor"),
        Column("from", "its error, from"),
        Column("to", "to"),
        Column("coverage", "coverage of the sampled radius", "interval"),
    )
    rows = tuple(
        (
            word(each.condition),
            word(write_share(each.budget)),
            number(each.cells),
            number(each.worlds),
            number(each.same),
            number(each.median_factor, lambda value: write_number(value, 2)),
            number(each.tenth_factor, lambda value: write_number(value, 2)),
            number(each.largest_factor, lambda value: write_number(value, 1)),
            number(each.from_error),
            number(each.to_error),
            _show(each.coverage),
        )
        for each in moved
    )
    caption = (
        "Values of the rows that top-k evicts, in other orders, permuted before anything is drawn. Top-k retains the "
        "same bits in all worlds, so nothing computed from them can tell; its error moves by the factors shown, the "
        "largest over the smallest of a cell. The sampled arm is drawn anew in each permuted world. The paper names an "
        "error that goes from .014 to .898, a factor of 64."
    )
    return Table("worlds", "The evicted values permuted", caption, columns, rows)


def compare_papers(estimates: Estimates) -> Table:
    """The paper's figures, and ours of the same name by its design and by the main one."""
    study = estimates.study
    ways: list[tuple[str, float, str, Callable[[Place], Interval | None]]] = []
    for budget in study.budgets:
        share = f"{100 * budget:g}%"
        covered = f"share of cells that the certificate covers, budget {share}"
        ways.append((covered, budget, "", lambda at: estimates.coverage(at, radius="paper_radius")))
        ranked = f"Spearman of certificate and error, budget {share}"
        ways.append((ranked, budget, "", lambda at: estimates.spearman(at, "paper_radius")))
        if budget == 0.25:
            ways.append((f"median relative error at {share}, Poisson with Hajek", budget, "", _of(estimates, "error")))
            ways.append((f"median relative error at {share}, top-k", budget, study.reference, _of(estimates, "error")))
            ways.append((f"median relative error at {share}, uniform", budget, UNIFORM, _of(estimates, "plug_in")))
            ways.append((f"median certificate at {share}", budget, "", _of(estimates, "paper_radius")))
    rows = []
    for what, budget, arm, way in ways:
        value = next((each.value for each in PUBLISHED if each.paper == CERTIFICATES and each.what == what), None)
        if value is None:
            continue
        cells = [
            _show(way((condition, budget, arm or each)))
            for condition in study.conditions
            for each in ("paper", study.main)
        ]
        rows.append((word(what), number(value, write_plain), *cells))
    columns = (
        Column("what", "what", "text"),
        Column("published", "published"),
        *(
            Column(f"{condition}_{arm}", f"{arm}, {condition}", "interval")
            for condition in study.conditions
            for arm in ("paper", study.main)
        ),
    )
    caption = (
        "Another model, other prompts: a comparison of kinds, not of numbers. Radii are equation (4). `paper`: the "
        "paper's design, sizes in proportion to the attention of the observed queries, but water-filled, so that all "
        f"of the budget is spent. {OVER_PROMPTS}"
    )
    return Table("paper", f"{CERTIFICATES}, Qwen2.5-1.5B, 12,096 cells", caption, columns, tuple(rows))


_CERTIFICATE = (
    Column("coverage", "coverage", "interval"),
    Column("largest", "in the tenth", "interval"),
    Column("spearman", "Spearman", "interval"),
    Column("over_error", "radius over error, medians", "interval"),
    Column("variance", "variance over truth", "interval"),
)


def _certificate(estimates: Estimates, place: Place) -> tuple[Cell, ...]:
    found = (
        estimates.measure("coverage", place),
        estimates.measure("coverage_largest", place),
        estimates.measure("spearman", place),
        estimates.over("radius", place, "error", place),
        estimates.measure("variance_over_truth", place),
    )
    return tuple(map(_show, found))


def _of(estimates: Estimates, column: str) -> Callable[[Place], Interval | None]:
    return lambda place: estimates.median(column, place)


def _places(estimates: Estimates) -> list[Place]:
    study = estimates.study
    places: list[Place] = [
        (condition, budget, study.main) for condition in study.conditions for budget in study.budgets
    ]
    return [place for place in places if estimates.part(place)["error"].size]


def _name(place: Place) -> tuple[Cell, Cell, Cell]:
    condition, budget, arm = place
    return word(condition), word(write_share(budget)), word(arm)


def _show(found: Interval | None, digits: int = 3) -> Cell:
    return estimate(found, lambda value: write_number(value, digits), "no certificate, or no cells")
