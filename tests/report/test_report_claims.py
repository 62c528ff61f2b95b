"""Claims at the edges: levels next to 1, seconds that do not count; and what the command says of formats."""

from __future__ import annotations

from typing import get_type_hints

import pytest
from made_runs import make_study, write_run

from fewer.cli.report import report
from fewer.report import FORMATS, write_report
from fewer.study.folder import read_run
from fewer.study.verdict import HIGHEST_LEVEL, judge

STATIC = "static keep=50%"


def make_claims(level):
    base = {"statement": "It is so.", "arm": STATIC, "at_least": -0.1, "kill_below": -0.5, "level": level}
    kinds = ({"kind": "difference"}, {"kind": "speedup"}, {"kind": "auc", "signal": "nll", "outcome": "correct"})
    return [base | kind | {"id": f"C{number}"} for number, kind in enumerate(kinds)]


def judge_at(folder, level, num_items=150):
    study = make_study(claims=make_claims(level))
    return judge(study, read_run(write_run(folder, study=study, num_items=num_items)).rows, resamples=100)


@pytest.mark.parametrize("level", [0.9999999999999999, 1 - 1e-12])
def test_a_level_next_to_1_carries_no_claim_and_the_report_is_written(tmp_path, level):
    study = make_study(claims=make_claims(level))
    run = write_run(tmp_path / "run", study=study, num_items=150)
    verdicts = judge(study, read_run(run).rows, resamples=100)
    assert [verdict.verdict for verdict in verdicts] == ["no claim"] * 3
    assert f"its level, {level!r}, is above 0.999999999" in verdicts[1].sentence
    assert {verdict.adjusted for verdict in verdicts} == {None}
    write_report([run], tmp_path / "out", ("md",))
    assert f"its level, {level!r}" in (tmp_path / "out" / "report.md").read_text(encoding="utf-8")


def test_a_level_that_is_raised_too_far_leaves_the_adjusted_verdict_undecided(tmp_path):
    verdicts = judge_at(tmp_path / "run", HIGHEST_LEVEL)
    speedup = verdicts[1]
    assert (speedup.verdict, speedup.adjusted) == ("holds", "undecided")
    assert judge_at(tmp_path / "usual", 0.95)[1].adjusted == "holds"


def test_a_bypassed_answer_without_seconds_of_its_own_is_called_shared_or_untimed(tmp_path):
    study = make_study(claims=make_claims(0.95)[1:2])

    def change(row):
        odd = {0: {"status": "bypassed", "shared": True}, 1: {"status": "bypassed", "first_token_s": None}}
        odd |= {2: {"status": "failed"}, 3: {"status": "bypassed", "shared": False, "first_token_s": 0.5}}
        usual = {"status": "ok", "shared": False, "first_token_s": 1.0}
        return usual | (odd.get(row["unit"], {}) if row["arm"] == STATIC else {})

    run = read_run(write_run(tmp_path / "run", study=study, num_items=50, change_row=change))
    (found,) = judge(study, run.rows, resamples=100)
    counts = "1 failed, 2 shared or untimed"
    assert found.notes[0] == f"The seconds of 3 of 50 answers of {STATIC} do not count: {counts}."
    assert found.interval.n == 47


def test_the_help_names_the_formats_that_are_taken():
    hints = get_type_hints(report, include_extras=True)
    option = next(extra for extra in hints["formats"].__metadata__ if hasattr(extra, "help"))
    assert option.help == f"{', '.join(FORMATS[:-1])} or {FORMATS[-1]}; may be repeated."
