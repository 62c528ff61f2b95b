"""The report's part on sessions: its tables hold the numbers of the study's functions, and a killed claim is loud."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pyarrow as pa
import pytest

from doubting import PIVOTAL, POISSON, answers_of, make_rows, make_study
from fewer.report.block import Notice, Section, Table
from fewer.report.estimates import Estimates
from fewer.report.header import open_report
from fewer.report.log import Log
from fewer.report.sessions import list_sessions
from fewer.report.sessions_panel import open_panel
from fewer.report.sessions_search import list_search
from fewer.study.folder import Run
from fewer.study.sessions.areas import rank, rank_against
from fewer.study.sessions.gating import Gating
from fewer.study.sessions.outcomes import count_outcomes, label_by
from fewer.study.sessions.places import find_places
from fewer.study.spec import Study

KILLED = {"id": "tells", "statement": "The certificate tells.", "kind": "auc", "arm": PIVOTAL[1]}
KILLED |= {"signal": "certificate", "outcome": "induced", "among": "wrong", "at_least": 0.99, "kill_below": 0.99}
HOW = {"level": 0.95, "resamples": 200, "seed": 0}


def _estimates(study: Study, rows: pa.Table) -> Estimates:
    header = {"registration": {"kind": "none", "sentence": "Not registered."}, "units": []}
    return Estimates(Log(Run(Path("made-up"), header, study, rows)))


@cache
def _made() -> tuple[Study, pa.Table, list[Section]]:
    study = make_study(KILLED)
    rows = make_rows(study, 60, missing=0.1)
    return study, rows, list_sessions(_estimates(study, rows))


def _table(name: str) -> Table:
    for section in _made()[2]:
        for block in section.blocks:
            if isinstance(block, Table) and block.name == name:
                return block
    raise KeyError(name)


def _rows(name: str, *heads: str) -> list[dict[str, object]]:
    """The cells by column of the rows that begin so."""
    table = _table(name)
    keys = [column.key for column in table.columns]
    return [
        dict(zip(keys, row, strict=True))
        for row in table.rows
        if tuple(cell.text for cell in row[: len(heads)]) == heads
    ]


def _places(policy: str):
    study, rows, _ = _made()
    return [place for place in find_places(study.expanded, answers_of(rows)) if place.policy == policy]


def test_there_is_a_section_for_failures_signals_and_gates():
    names = [section.name for section in _made()[2]]
    assert names == ["outcomes", "panel", "gating"]  # and no search: the study makes a claim


def test_failures_are_counted_by_task():
    for place in _places("pivotal:snapkv"):
        for task in (None, *place.tasks):
            (row,) = _rows("failures", "stream", "pivotal:snapkv", place.budget, task or "all")
            found = count_outcomes(place if task is None else place.of(task), 0.5)
            counts = [row[key].raw[""] for key in ("answers", "right", "induced", "inherent", "gained")]
            assert counts == [found.answers, found.right, found.induced, found.inherent, found.gained]
            assert row["broken"].raw[""] == found.broken
            assert row["common"].text == ("yes" if found.both_common else "no")


def test_areas_are_those_of_the_study():
    places = _places("pivotal:snapkv")
    for name, group in (("mean of 50%, 25%", places), ("25%", places[1:])):
        table = "panel" if len(group) > 1 else "panel-budgets"
        for signal in ("certificate", "logprob"):
            (row,) = _rows(table, "stream", "pivotal:snapkv", name, signal)
            for key, kind in (("any", "any"), ("induced", "induced"), ("attribution", "attribution")):
                wanted = rank(group, label_by(kind, 0.5), signal, **HOW).interval
                assert (row[key].raw[""], row[key].raw["_low"]) == (wanted.estimate, wanted.lower)
            within = rank(group, label_by("attribution", 0.5), signal, within="task", **HOW).interval
            assert row["attribution_task"].raw[""] == within.estimate
    assert not _rows("panel", "stream", "snapkv", "mean of 50%, 25%", "certificate")
    assert _rows("panel", "stream", "poisson:snapkv", "25%", "disagreement")


def test_the_certificate_is_set_against_every_other_signal():
    places = _places("pivotal:snapkv")
    rows = _rows("panel-differences", "stream", "pivotal:snapkv", "mean of 50%, 25%", "certificate")
    assert {row["other"].text for row in rows} == {"logprob", "first_margin", "min_margin"}
    for row in rows:
        labels, other = label_by("attribution", 0.5), row["other"].text
        wanted = rank_against(places, labels, "certificate", other, **HOW).interval
        turned = rank_against(places, labels, "certificate", other, turned=True, **HOW).interval
        assert row["difference"].raw[""] == wanted.estimate
        assert row["turned"].raw[""] == turned.estimate


@pytest.mark.parametrize("rate", ["10%", "25%", "50%"])
def test_recomputed_answers_are_those_of_the_gates(rate):
    gating = Gating(_places("pivotal:snapkv"), lambda scores: (scores >= 0.5).astype(float), **HOW)
    share = float(rate.rstrip("%")) / 100
    rows = _rows("recomputed", "stream", "pivotal:snapkv", "mean of 50%, 25%", rate)
    assert {"certificate", "logprob", "random", "oracle"} <= {row["signal"].text for row in rows}
    for row in rows:
        signal = row["signal"].text
        assert row["accuracy"].raw[""] == gating.accuracy(signal, share).estimate
        if signal == "certificate":
            assert row["over_random"].raw["_low"] == gating.gain(signal, share).lower
            assert row["over_logprob"].raw[""] == gating.gain(signal, share, "logprob").estimate
        if signal == "random":
            assert row["over_random"].text == "–"


def test_errors_fall_as_the_oracle_withholds():
    for budget in ("50%", "25%"):
        (row,) = _rows("withheld", "stream", "pivotal:snapkv", budget, "oracle")
        errors = [row[f"withheld_{share}"].raw[""] for share in (0, 10, 25, 50)]
        assert errors == sorted(errors, reverse=True)
        (other,) = _rows("withheld", "stream", "pivotal:snapkv", budget, "certificate")
        assert other["withheld_0"].raw[""] == pytest.approx(errors[0])
        assert other["aurc"].raw[""] >= row["aurc"].raw[""]


def test_arms_are_set_beside_the_full_run_and_top_k():
    (drawn,) = _rows("contrasts", "stream", "poisson:snapkv", "25%")
    (chosen,) = _rows("contrasts", "stream", "snapkv", "25%")
    assert drawn["beside"].raw[""] == pytest.approx(drawn["score"].raw[""] - chosen["score"].raw[""])
    assert chosen["beside"].text == "–"
    (full,) = _rows("contrasts", "aware", "full")
    assert chosen["difference"].raw[""] == pytest.approx(chosen["score"].raw[""] - full["score"].raw[""])
    assert _rows("contrasts", "no_context")


def test_a_killed_claim_is_printed_as_loudly_as_one_that_holds():
    study, rows, _ = _made()
    blocks = open_report(Log(Run(Path("made-up"), {"units": []}, study, rows))).blocks
    (card,) = [block for block in blocks if isinstance(block, Notice) and block.title.startswith("tells")]
    assert (card.title, card.tone) == ("tells: killed", "alarm")
    assert card.texts[1].startswith("killed: the AUC of certificate for induced among wrong")


def test_a_study_without_claims_searches_its_radii():
    study = make_study(arms=[{"name": "full"}, {"evict": "pivotal:snapkv", "budget": "25%", "moment": "context"}])
    panel = open_panel(_estimates(study, make_rows(study, 30, radii=True)))
    best, parts = list_search(panel).blocks
    areas = [row[1].raw[""] for row in best.rows]
    assert len(areas) == 20
    assert areas == sorted(areas, reverse=True)
    for row in best.rows[:3]:
        wanted = rank(panel.places, label_by("attribution", 0.5), row[0].text, **HOW).interval
        assert row[1].raw[""] == pytest.approx(wanted.estimate)
    assert {row[0].text for row in parts.rows} == {"rows", "heads", "layers", "over", "clip", "beside"}
    claimed = make_study(KILLED)
    assert list_search(open_panel(_estimates(claimed, make_rows(claimed, 6, radii=True)))) is None
    assert list_search(open_panel(_estimates(study, make_rows(study, 6)))) is None


def test_a_study_without_evidence_has_no_panel():
    plain = make_study(signals=["margins"])
    assert open_panel(_estimates(plain, make_rows(plain, 6))) is None
    assert list_sessions(_estimates(plain, make_rows(plain, 6))) == []


def test_what_the_claims_are_about_is_what_is_compared():
    summary = "radii:question-mean:mean:all:mean"
    study = make_study(KILLED, KILLED | {"id": "other", "signal": summary})
    panel = open_panel(_estimates(study, make_rows(study, 6)))
    assert panel.chosen == ("certificate", summary)
    assert open_panel(_estimates(make_study(), make_rows(make_study(), 6))).chosen == ("certificate",)
    drawn = next(group for group in panel.policies if group.policy == "poisson:snapkv")
    assert drawn.places[0].arms == tuple(POISSON)
    assert panel.doubts(drawn)[0] == summary
    assert panel.doubts(panel.policies[0]) == ["logprob", "first_margin", "min_margin"]
