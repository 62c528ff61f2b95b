"""The first section: what was registered, what became of each claim, what ran where, and how every answer ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from fewer.report.block import (
    Block,
    Cell,
    Column,
    Facts,
    Notice,
    Paragraph,
    Section,
    Table,
    Tone,
    estimate,
    number,
    word,
)
from fewer.report.log import Log
from fewer.report.number import write_count, write_plain, write_share
from fewer.report.registered import announce
from fewer.study.cells import list_cells
from fewer.study.row import STATUSES
from fewer.study.verdict import Verdict, judge, note_on_many

__all__ = ["open_report"]

UNKNOWN = "not noted"
TONES: dict[str, Tone] = {"holds": "good", "killed": "alarm", "undecided": "warn", "no claim": "plain"}
MAX_REASON = 90


def open_report(log: Log, name: str = "") -> Section:
    """The section; `name` is put before the names of its tables where there are several runs."""
    blocks: list[Block] = [announce(log)]
    blocks += _tell_progress(log)
    blocks += _list_verdicts(log, name)
    blocks.append(_describe_run(log))
    blocks.append(_count_statuses(log, name))
    blocks += _list_left_out(log, name)
    return Section(f"{name}run", "The run", tuple(blocks))


def count_items(log: Log) -> dict[str, int]:
    """How many items each task has in the whole run, finished or not, by the run's header."""
    return dict(Counter(unit[2] for unit in log.run.header.get("units", ())))


def _tell_progress(log: Log) -> list[Block]:
    total = sum(count_items(log).values())
    if log.num_rows == 0:
        return [Notice("No answers yet", ("The log has no rows: there is nothing to show but the setting.",), "warn")]
    blocks: list[Block] = []
    if log.num_items < total:
        text = (
            f"{log.num_items:,} of {total:,} items are finished. What follows is a preview over these; no claim is "
            "judged before all are in, and stopping at a lucky moment is not a result."
        )
        blocks.append(Notice("The run is not finished", (text,), "warn"))
    if not log.of_arm("full").any():
        text = (
            "The log has no answers of the full run. Scores are shown; differences to it, speedups and claims need it "
            "and are left out."
        )
        blocks.append(Notice("No full run", (text,), "warn"))
    return blocks


def _list_verdicts(log: Log, name: str) -> list[Block]:
    if not log.study.claims:
        return [Paragraph("The study makes no claims: everything here is description.", True)]
    verdicts = judge(log.study, log.run.rows, count_items(log))
    columns = (
        Column("claim", "claim", "text"),
        Column("verdict", "verdict", "text"),
        Column("value", "estimate", "interval"),
        Column("n", "n"),
        Column("clusters", "clusters"),
        Column("at_least", "holds from"),
        Column("kill_below", "killed below"),
        Column("adjusted", "with levels raised for all claims", "text"),
    )
    caption = (
        "A claim holds where its interval's lower end reaches the one bound, and is killed where its upper end is "
        "below the other; both bounds are in the study's file. The methods are in the words above. "
        + note_on_many(verdicts)
    )
    rows = tuple(_write_verdict(verdict) for verdict in verdicts)
    cards = [
        Notice(
            f"{verdict.claim.id}: {verdict.verdict}",
            (verdict.claim.statement, verdict.sentence, *verdict.notes),
            TONES[verdict.verdict],
        )
        for verdict in verdicts
    ]
    return [*cards, Table(f"{name}verdicts", "What became of each claim", caption, columns, rows)]


def _write_verdict(verdict: Verdict) -> tuple[Cell, ...]:
    claim, interval = verdict.claim, verdict.interval
    return (
        word(claim.id),
        word(verdict.verdict, TONES[verdict.verdict]),
        estimate(interval, why="nothing was estimated: the words above say why"),
        number(interval.n if interval else None),
        number(interval.clusters if interval else None),
        number(claim.at_least, write_plain),
        number(claim.kill_below, write_plain),
        word(verdict.adjusted or ""),
    )


def _describe_run(log: Log) -> Facts:
    header, study = log.run.header, log.study
    environment: Mapping[str, Any] = header.get("environment") or _read_environment(log)
    setting: Mapping[str, Any] = header.get("setting") or {}

    def get(source: Mapping[str, Any], key: str) -> str:
        value = source.get(key)
        return UNKNOWN if value is None else str(value)

    total = sum(count_items(log).values()) or log.num_items
    clusters = len(set(log.of_items("cluster")))
    sha = environment.get("model_sha256")
    chat = setting.get("chat_template")
    ends = ", ".join(str(token) for token in setting.get("end_tokens", ())) or UNKNOWN
    template = UNKNOWN if chat is None else "on, where the task asks for it" if chat else "off: the model has none"
    seeds = ", ".join(map(str, study.seeds))
    others = "for all arms" if study.sampling.temperature else f"for arms that draw, {study.seeds[0]} for the others"
    facts = (
        ("study", f"{study.name}, SHA-256 {study.sha256[:12]}…"),
        ("model", f"{get(environment, 'model')}, SHA-256 {str(sha)[:12] + '…' if sha else UNKNOWN}"),
        ("dtype and weights", f"{get(environment, 'dtype')}; weights {get(environment, 'weights')}"),
        ("device and threads", f"{get(environment, 'device')}; {get(environment, 'num_threads')} threads"),
        (
            "versions",
            ", ".join(f"{key} {get(environment, key)}" for key in ("fewer", "torch", "transformers", "python")),
        ),
        ("chat template", template),
        ("ends at", f"{ends}, or the item's own stop texts"),
        ("answer length, at most", f"{get(setting, 'max_tokens')} (tokens)"),
        ("decoding", get(setting, "decoding")),
        ("truncation", get(setting, "truncation")),
        ("positions of the model", get(setting, "max_positions")),
        ("sinks kept by every arm", get(setting, "sinks")),
        ("observation window", get(setting, "observation_window")),
        ("seeds", f"{seeds} {others}; items by seed {study.task_seed}"),
        ("arms", "shared prefill and steps: seconds are sums of parts" if study.share else "each ran alone"),
        ("items", f"{log.num_items:,} of {total:,}, in {write_count(clusters, 'cluster')}; {log.num_rows:,} answers"),
        ("started", get(header, "started")),
    )
    return Facts("Model, machine and setting", facts)


def _read_environment(log: Log) -> dict[str, Any]:
    """From the first row, where the header has none."""
    if log.num_rows == 0:
        return {}
    row: dict[str, Any] = log.run.rows.slice(0, 1).to_pylist()[0]
    return row


def _count_statuses(log: Log, name: str) -> Table:
    statuses, reasons = log.texts("status"), log.texts("reason")
    total = sum(count_items(log).values()) or log.num_items
    rows, given = [], list_cells(log.study)
    for arm in log.arms:
        mine = log.of_arm(arm.name)
        counts = Counter(statuses[mine])
        seeds = sum(cell.arm == arm for cell in given)
        why = Counter(str(reason) for reason in reasons[mine] if reason)
        rows.append(
            (
                word(arm.name),
                number(int(mine.sum())),
                *(number(counts.get(status, 0)) for status in STATUSES),
                number(max(0, total * seeds - int(mine.sum()))),
                word("; ".join(f"{count}× {_cut(reason)}" for reason, count in why.most_common(3))),
            )
        )
    columns = (
        Column("arm", "arm", "text"),
        Column("answers", "answers"),
        *(Column(status, status) for status in STATUSES),
        Column("missing", "not yet run"),
        Column("reasons", "most frequent reasons", "text"),
    )
    caption = (
        "All of these answers are in the denominator of every score: refused and failed ones with score 0, bypassed "
        "ones as the full runs they are. A share of a signal or of seconds has its own n."
    )
    return Table(f"{name}statuses", "What became of every answer", caption, columns, tuple(rows))


def _list_left_out(log: Log, name: str) -> list[Block]:
    left_out: Mapping[str, int] = log.run.header.get("left_out") or {}
    found = [(task, count) for task, count in left_out.items() if count]
    if not found:
        return [Paragraph("No item was left out before the run.", True)]
    sizes = count_items(log)
    rows: list[Sequence[Cell]] = [
        (word(task), number(int(count)), number(count / (count + sizes.get(task, 0)), write_share))
        for task, count in found
    ]
    columns = (
        Column("task", "task", "text"),
        Column("left_out", "left out"),
        Column("share", "of its items"),
    )
    caption = (
        "Items longer than the task's max_length, and open-ended ones that no metric scores, were left out before the "
        "run: no number here speaks of them."
    )
    return [Table(f"{name}left-out", "Left out before the run", caption, columns, tuple(tuple(row) for row in rows))]


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MAX_REASON else line[: MAX_REASON - 1] + "…"
