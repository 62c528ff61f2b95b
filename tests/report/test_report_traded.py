"""Score against speedup: own seconds, another run's, and what may not be borrowed."""

from __future__ import annotations

import numpy as np
import pytest
from made_runs import ENVIRONMENT, make_items, make_study, write_run

from fewer.report.build import build
from fewer.report.chart.mark import Figure
from fewer.report.estimates import Estimates
from fewer.report.log import Log
from fewer.report.traded import find_speedups, list_traded
from fewer.study.folder import read_run

TASKS = ("hotpotqa_distractor", "nq_multidoc_10")
TIMED = make_study(arms=[{"name": "full"}, {"name": "half", "prune": "static", "keep": "50%"}], claims=(), outcomes=())
SHARED = make_study(
    name="scored",
    arms=[{"name": "full"}, {"condition": "no_context"}, {"prune": "static", "keep": ["50%", "25%"]}],
    claims=(),
    outcomes=(),
    share=True,
)


@pytest.fixture(scope="module")
def timed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "timed"
    return read_run(write_run(folder, study=TIMED, items=make_items(30, TASKS[:1])))


@pytest.fixture(scope="module")
def scored(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "scored"
    return read_run(write_run(folder, study=SHARED, items=make_items(40, TASKS), seed=1))


def cells(table, key):
    index = [column.key for column in table.columns].index(key)
    return [row[index] for row in table.rows]


def test_a_runs_own_seconds_are_shown(timed):
    estimates = Estimates(Log(timed))
    (table,) = list_traded(estimates, {}, None)
    everywhere = np.ones(estimates.log.num_items, dtype=bool)
    expected = estimates.speedup("half", everywhere)[0]
    (speedup,), (where,), (work,) = (cells(table, key) for key in ("speedup", "where", "work"))
    assert (speedup.raw[""], where.text) == (expected.estimate, "this run")
    computed = [row["computed_fraction"] for row in timed.rows.to_pylist() if row["arm"] == "half"]
    computed = [share for share in computed if share is not None]
    assert work.raw[""] == pytest.approx(float(np.exp(-np.mean(np.log(computed)))))
    assert "another run" not in table.caption


def test_the_share_of_the_full_runs_score_is_one_ratio_of_sums(scored):
    estimates = Estimates(Log(scored))
    (table,) = list_traded(estimates, {}, None)
    log = estimates.log
    for row, share in enumerate(cells(table, "share")):
        category, arm = (cells(table, key)[row].text for key in ("category", "arm"))
        among = log.among("category", category)
        mine, full = (log.values(name, "score")[among] for name in (arm, "full"))
        assert share.raw[""] == pytest.approx(mine.sum() / full.sum())
    assert [cell.text for cell in cells(table, "speedup")] == ["–"] * len(table.rows)
    assert len(table.rows) == 2 * 2


def test_seconds_of_another_run_go_to_the_arms_that_are_defined_alike(scored, timed):
    log, seconds = Log(scored), Estimates(Log(timed))
    found = find_speedups(log, seconds)
    everywhere = np.ones(seconds.log.num_items, dtype=bool)
    assert found == {"static keep=50%": seconds.speedup("half", everywhere)[0]}
    (table,) = list_traded(Estimates(log), found, seconds)
    wheres = dict(zip([cell.text for cell in cells(table, "arm")], cells(table, "where"), strict=True))
    assert wheres["static keep=50%"].text == "another run"
    assert wheres["static keep=25%"].text == "–"
    assert "Those of another run are of made-up: 30 items of hotpotqa_distractor" in table.caption
    document = build([scored], (), timed)
    (figure,) = [each for each in document.all(Figure) if each.name == "score-speedup"]
    assert "score-work" in [each.name for each in document.all(Figure)]
    assert figure.notes == ("Not shown, since the other run did not time them: static keep=25%.",)


@pytest.mark.parametrize("key", ["model_sha256", "dtype", "device", "weights"])
def test_another_models_seconds_are_not_borrowed(scored, tmp_path, key):
    items = make_items(10, TASKS[:1])
    header = {"environment": ENVIRONMENT | {key: "another"}}
    folder = write_run(
        tmp_path / "other", study=TIMED, items=items, header=header, change_row=lambda _: {key: "another"}
    )
    other = read_run(folder)
    assert find_speedups(Log(scored), Estimates(Log(other))) == {}


def test_a_run_with_seconds_of_its_own_borrows_none(scored, timed):
    assert find_speedups(Log(timed), Estimates(Log(timed))) == {}
    assert find_speedups(Log(scored), Estimates(Log(scored))) == {}
    assert find_speedups(Log(scored), None) == {}
