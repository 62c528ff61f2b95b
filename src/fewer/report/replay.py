"""The report of a replay: what became of the claims, the designs beside each other, and beside the paper."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fewer.report.block import Block, Column, Document, Facts, Notice, Paragraph, Section, Table, Tone, estimate, word
from fewer.report.folder import MANIFEST, check_target, list_files, put
from fewer.report.markdown import write_markdown
from fewer.report.number import write_count, write_share
from fewer.report.page import write_page
from fewer.report.replay_tables import (
    compare_designs,
    compare_forms,
    compare_papers,
    compare_some,
    list_depths,
    list_moved,
)
from fewer.report.sheet import write_sheet
from fewer.study.replay.claims import Verdict, judge_replay
from fewer.study.replay.estimates import Estimates
from fewer.study.replay.moved import Moved, find_moved
from fewer.study.replay.run import Replay, read_replay
from fewer.study.replay.spec import MEASURES

__all__ = ["write_replay_report"]

TONES: dict[str, Tone] = {"holds": "good", "killed": "alarm", "undecided": "warn"}
STANDINGS: dict[str, Tone] = {"registered": "good", "differs": "alarm"}
SCORES = ("pivotal", "paper", "served", "random score", "reversed score")
GROUPS = ("a set a query head", "pivotal", "one set a layer")


def write_replay_report(run: str | Path, out: str | Path, command: str) -> list[Path]:
    """Write OUT/report.md, report.html, numbers.json, tables/*.csv and the list of these; the files, sorted.

    command: as it was typed. Raises BadInput for a run that cannot be read and a folder that holds something else,
    StorageError.
    """
    target = check_target(Path(out))
    replay = read_replay(run)
    estimates = Estimates(replay.study, replay.cells)
    verdicts = judge_replay(replay.study, estimates, complete=not replay.left)
    moved = find_moved(replay.worlds)
    document = _build(replay, estimates, verdicts, moved, command)
    contents = {"report.md": write_markdown(document, None).encode(), "report.html": write_page(document).encode()}
    contents["numbers.json"] = (json.dumps(_list_numbers(replay, estimates, verdicts, moved), indent=1) + "\n").encode()
    for block in document.all(Table):
        assert isinstance(block, Table)
        contents[f"tables/{block.name}.csv"] = write_sheet(block).encode()
    contents[MANIFEST] = list_files(contents)
    put(target, contents)
    return [target / name for name in sorted(contents)]


def _build(
    replay: Replay, estimates: Estimates, verdicts: tuple[Verdict, ...], moved: tuple[Moved, ...], command: str
) -> Document:
    study, sections = replay.study, [_open(replay, estimates, verdicts, command)]
    if len(replay.cells):
        designs = [compare_designs(estimates, condition) for condition in study.conditions]
        blocks: list[Block] = [table for pair in designs for table in pair]
        sections.append(Section("designs", "Designs", (*_explain_arms(replay), *blocks)))
        sections.append(Section("forms", "The certificate", (compare_forms(estimates), list_depths(estimates))))
        some = (
            compare_some(estimates, SCORES, "scores", "Score quality: what a bad score does to error and radius"),
            compare_some(estimates, GROUPS, "groups", "Grouped heads: sets of their own, or shared"),
        )
        sections.append(Section("apart", "Scores and groups", some))
        sections.append(Section("worlds", "Theorem 1's worlds", (list_moved(moved),)))
        sections.append(Section("paper", "Beside the paper", (compare_papers(estimates),)))
    sections.append(_say_what_not(replay))
    environment = replay.header["environment"]
    return Document(
        kicker="Report of a replay",
        title=study.title,
        subtitle=f"{study.name}, {replay.folder.resolve().name}",
        sections=tuple(sections),
        footer=f"Run by fewer {environment['fewer']}. Everything here is computed from the rows of the run; the tables "
        "are beside this page as CSV, all numbers with their intervals in numbers.json.",
    )


def _open(replay: Replay, estimates: Estimates, verdicts: tuple[Verdict, ...], command: str) -> Section:
    header, study = replay.header, replay.study
    registration = header["registration"]
    tone = STANDINGS.get(registration["kind"], "warn")
    blocks: list[Block] = [Notice("The registration", (registration["sentence"],), tone)]
    if replay.left:
        text = f"{replay.left} of {len(header['prompts'])} prompts are not in. No claim is judged before all are."
        blocks.append(Notice("The run is not finished", (text,)))
    blocks += [_tell(verdict) for verdict in verdicts]
    blocks.append(_list_verdicts(verdicts))
    prompts, environment = header["prompts"], header["environment"]
    place = (study.conditions[0], study.budgets[0], study.main)
    cells, done, _ = estimates.count(place)
    lengths = [prompt["num_tokens"] for prompt in prompts]
    kinds = {kind: sum(prompt["kind"] == kind for prompt in prompts) for kind in ("generated", "document")}
    facts = (
        ("command", command),
        ("prompts", f"{done} in, of {kinds['generated']} generated and {kinds['document']} documents"),
        ("tokens of a prompt", f"{min(lengths):,} to {max(lengths):,}"),
        ("cells of a condition and budget", f"{cells // study.arm(study.main).draws:,}, each a layer, head and query"),
        ("draws", f"{study.arm(study.main).draws} of {study.main}"),
        ("level", f"delta {study.delta:g}"),
        ("model", f"{environment['model']}, {environment['dtype']} on {environment['device']}"),
        ("study", f"SHA-256 {header['study_sha256'][:12]}"),
        ("begun", str(header["started"])),
    )
    blocks.append(Facts("What was run", facts))
    return Section("run", "The run", tuple(blocks))


def _tell(verdict: Verdict) -> Notice:
    claim = verdict.claim
    told = "; ".join(
        f"{condition} {write_share(budget)}: {estimate(found).text} {said}"
        for (condition, budget, _), said, found in verdict.parts
    )
    return Notice(f"{claim.id}: {verdict.word}", (claim.statement, told), TONES[verdict.word])


def _list_verdicts(verdicts: tuple[Verdict, ...]) -> Table:
    columns = (
        Column("claim", "claim", "text"),
        Column("condition", "condition", "text"),
        Column("budget", "budget", "text"),
        Column("arm", "arm", "text"),
        Column("value", "estimate", "interval"),
        Column("bound", "bound", "text"),
        Column("verdict", "verdict", "text"),
    )
    rows = []
    for verdict in verdicts:
        claim = verdict.claim
        bounds = [f"at least {claim.at_least:g}"] if claim.at_least is not None else []
        bounds += [f"at most {claim.at_most:g}"] if claim.at_most is not None else []
        for (condition, budget, arm), said, found in verdict.parts:
            names = word(claim.id), word(condition), word(write_share(budget)), word(arm)
            rows.append((*names, estimate(found), word(" and ".join(bounds)), word(said, TONES[said])))
    caption = (
        "A claim holds where the whole interval is within the bound, is killed where the whole interval is outside, "
        "and is undecided otherwise; as a whole it holds where it holds everywhere, and is killed where it is killed "
        f"anywhere. 95% intervals over prompts. {write_count(len(rows), 'interval')}: some miss by chance."
    )
    return Table("verdicts", "What became of each claim", caption, columns, tuple(rows))


def _explain_arms(replay: Replay) -> tuple[Block, ...]:
    arms = tuple((arm.name, f"{arm.says} ({arm.policy})") for arm in replay.study.arms)
    return (Facts("The arms", arms),)


def _say_what_not(replay: Replay) -> Section:
    texts = (
        "Every number is of one attention output, with keys, values and queries of the full model. In a served model "
        "later queries depend on what was kept, and layers' errors add up; nothing here speaks of that or of answers.",
        "The radius is an estimate at a level whose coverage is measured here. It is no bound, and what it covers on "
        "average it need not cover for one head, one prompt, or the queries of another task.",
        "Coverage in the tenth of cells with the largest error is chosen by the error itself; no certificate promises "
        "a level there.",
        "Averages of the variance estimate and of the squared error are carried by few cells with large errors; their "
        "ratio moves from one set of prompts to another more than its interval over these prompts may say.",
        f"The calibrated radius is the audited one times {replay.study.factor:g}, found on other prompts of the same "
        "model; another model needs another factor.",
        "One model, one machine, prompts of one language. The prompts are few: intervals over prompts are wide where "
        "prompts differ, and 95% intervals of many numbers miss some.",
    )
    return Section("not", "What these numbers are not", tuple(Paragraph(text) for text in texts))


def _list_numbers(
    replay: Replay, estimates: Estimates, verdicts: tuple[Verdict, ...], moved: tuple[Moved, ...]
) -> dict[str, Any]:
    """Every measure of every place, the verdicts and the worlds, as JSON."""
    study = replay.study
    rows = []
    for condition in study.conditions if len(replay.cells) else ():
        for budget in study.budgets:
            for arm in study.arms:
                place = (condition, budget, arm.name)
                found = {name: estimates.measure(name, place) for name in MEASURES}
                row: dict[str, Any] = {"condition": condition, "budget": budget, "arm": arm.name}
                row |= {str(name): asdict(each) for name, each in found.items() if each is not None}
                rows.append(row)
    return {
        "study_sha256": replay.header["study_sha256"],
        "registration": replay.header["registration"],
        "measures": MEASURES,
        "places": rows,
        "verdicts": {verdict.claim.id: verdict.word for verdict in verdicts},
        "worlds": [asdict(each) for each in moved],
    }
