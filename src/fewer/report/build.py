"""From runs to a report: each run's sections in their order, the runs beside each other, and what it all is not."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain

from fewer.report.arms import list_arms
from fewer.report.beside import compare_with_papers
from fewer.report.block import Block, Document, Section, Table
from fewer.report.caveats import say_what_not
from fewer.report.chart.mark import Figure
from fewer.report.clean import clean
from fewer.report.compare import compare_runs
from fewer.report.decided import list_decided
from fewer.report.equal import compare_at_equal
from fewer.report.estimates import Estimates
from fewer.report.evicted import list_evicted
from fewer.report.figures.answers import draw_agreement, draw_margins
from fewer.report.figures.lengths import draw_heat, draw_lengths
from fewer.report.figures.ranking import draw_areas, draw_coverage
from fewer.report.figures.scores import draw_cost, draw_kept
from fewer.report.header import open_report
from fewer.report.lengths import list_lengths, list_margins
from fewer.report.log import Log
from fewer.report.number import write_count
from fewer.report.published import Published
from fewer.report.ranked import list_ranked, rank_all
from fewer.report.revived import list_revived
from fewer.report.sessions import list_sessions
from fewer.report.tasks import list_tasks
from fewer.report.traded import find_speedups, list_traded
from fewer.study.folder import Run

__all__ = ["build"]


def build(runs: Sequence[Run], published: Sequence[Published], timed: Run | None = None) -> Document:
    """The report of one run, or of several with the first as the reference. timed: a run with the arms' seconds."""
    estimates = [Estimates(Log(run)) for run in runs]
    seconds = None if timed is None else Estimates(Log(timed))
    several = len(runs) > 1
    names = [f"run {number} ({run.folder.resolve().name})" for number, run in enumerate(runs, 1)]
    sections: list[Section] = []
    for number, (one, name) in enumerate(zip(estimates, names, strict=True), 1):
        mine = _describe(one, f"{number}-" if several else "", published, seconds)
        sections += [replace(section, title=f"{name}: {section.title}") if several else section for section in mine]
    if several:
        sections.append(compare_runs(estimates, names))
    sections.append(say_what_not(estimates, sum(one.differences for one in estimates)))
    study = runs[0].study
    title = " · ".join(dict.fromkeys(run.study.title or run.study.name for run in runs))
    version = (runs[0].header.get("environment") or {}).get("fewer", "a version that is not noted")
    document = Document(
        kicker=f"Report of {write_count(len(runs), 'run')}" if several else "Report of a study",
        title=title,
        subtitle="; ".join(names) if several else f"{study.name}, {runs[0].folder.resolve().name}",
        sections=_name_apart(sections),
        footer=f"Run by fewer {version}. Logs have version {runs[0].header['log_version']}. "
        "Everything here is computed from the rows of the log; the tables are beside this page as CSV.",
    )
    cleaned: Document = clean(document)
    return cleaned


def _describe(
    estimates: Estimates, name: str, published: Sequence[Published], seconds: Estimates | None
) -> list[Section]:
    log = estimates.log
    sections = [open_report(log, name)]
    if log.num_rows == 0:
        return sections
    sections.append(list_tasks(estimates, name))
    arms = list_arms(estimates, name)
    elsewhere = find_speedups(log, seconds)
    drawn = [*draw_kept(estimates, name), *draw_cost(estimates, elsewhere, name)]
    sections.append(replace(arms, blocks=(*drawn, *arms.blocks, *list_traded(estimates, elsewhere, seconds, name))))
    if log.pruned:
        sections.append(compare_at_equal(estimates, name))
    lengths = list_lengths(estimates, [*draw_heat(estimates, name), *draw_lengths(estimates, name)], name)
    sections += [lengths] if lengths else []
    revived = list_revived(estimates, name)
    sections += [revived] if revived else []
    evicted = list_evicted(estimates, name)
    sections += [evicted] if evicted else []
    sections += list_sessions(estimates, name)
    decided = list_decided(estimates, name)
    sections += [decided] if decided else []
    margins = list_margins(log, name)
    blocks: list[Block] = [*draw_agreement(estimates, name), *draw_margins(log, name), *([margins] if margins else [])]
    sections += [Section(f"{name}answers", "The answers", tuple(blocks))] if blocks else []
    ranked = rank_all(estimates)
    sections.append(list_ranked(estimates, ranked, [*draw_areas(ranked, name), *draw_coverage(log, name)], name))
    beside = compare_with_papers(estimates, published, name)
    return [*sections, *([beside] if beside else [])]


def _name_apart(sections: Sequence[Section]) -> tuple[Section, ...]:
    """Names of tables and figures that are safe in a file's name, and each there once."""
    taken: set[str] = set()

    def rename(block: Block) -> Block:
        if not isinstance(block, (Table, Figure)):
            return block
        stem = re.sub(r"[^a-z0-9]+", "-", block.name.lower()).strip("-")[:80] or "figure"
        kind = "t" if isinstance(block, Table) else "f"
        name = next(
            name for name in chain([stem], (f"{stem}-{n}" for n in range(2, 10_000))) if kind + name not in taken
        )
        taken.add(kind + name)
        return replace(block, name=name)

    return tuple(replace(section, blocks=tuple(rename(block) for block in section.blocks)) for section in sections)
