"""The numbers of the tables, held against plain arithmetic on the rows."""

from __future__ import annotations

import numpy as np
import pytest
from made_runs import read_sheet

from fewer.report.estimates import UNIT, Estimates
from fewer.report.log import Log
from fewer.study.folder import read_run
from fewer.study.stats import geometric_mean_ratio, mean, mean_difference


@pytest.fixture(scope="module")
def estimates(run):
    return Estimates(Log(read_run(run)))


def average(rows, arm, category, column="score"):
    """By item, over seeds; refused and failed answers are in it."""
    items: dict[str, list[float]] = {}
    for row in rows:
        if row["arm"] == arm and row["category"] == category and row[column] is not None:
            items.setdefault(row["item"], []).append(row[column])
    return {item: float(np.mean(values)) for item, values in items.items()}


def test_every_score_of_the_sheet_is_the_mean_over_all_items(run, report):
    rows = read_run(run).rows.to_pylist()
    sheet = read_sheet(report / "tables" / "scores.csv")
    assert len(sheet) == 4 * 8
    for line in sheet:
        mine, full = (average(rows, arm, line["category"]) for arm in (line["arm"], "full"))
        asked = {row["item"] for row in rows if row["category"] == line["category"]}
        assert int(line["n"]) == int(line["score_n"]) == len(asked)
        assert float(line["score"]) == pytest.approx(np.mean(list(mine.values())))
        clusters = {row["cluster"] for row in rows if row["category"] == line["category"]}
        assert int(line["clusters"]) == len(clusters)
        assert float(line["score_low"]) <= float(line["score"]) <= float(line["score_high"])
        if line["arm"] != "full":
            paired = [mine[item] - full[item] for item in mine]
            assert float(line["difference"]) == pytest.approx(np.mean(paired))
            assert int(line["difference_n"]) == len(asked)


def test_refused_and_failed_answers_stay_in_the_denominators(run, report):
    rows = read_run(run).rows.to_pylist()
    bad = [row for row in rows if row["status"] in ("refused", "failed")]
    assert bad
    for line in read_sheet(report / "tables" / "statuses.csv"):
        mine = [row for row in rows if row["arm"] == line["arm"]]
        assert int(line["answers"]) == len(mine)
        assert line["missing"] == "0"
        for status in ("ok", "bypassed", "refused", "failed"):
            assert int(line[status]) == sum(row["status"] == status for row in mine)


def test_costs_are_means_over_items(run, report):
    rows = read_run(run).rows.to_pylist()
    for line in read_sheet(report / "tables" / "costs.csv"):
        for column, key in (("computed_fraction", "computed"), ("kept_fraction", "kept"), ("kv_bytes", "kv_bytes")):
            values = average(rows, line["arm"], line["category"], column)
            assert float(line[key]) == pytest.approx(np.mean(list(values.values())))


def test_the_method_goes_by_the_number_of_clusters_and_is_named(report):
    for line in read_sheet(report / "tables" / "scores.csv"):
        method = line["score_method"]
        few = int(line["clusters"]) < 20
        assert (
            ("Student" in method or "t, " in method or "agree" in method)
            if few
            else "BCa" in method or "agree" in method
        )


def test_a_mean_and_a_difference_are_those_of_the_statistics(estimates):
    log = estimates.log
    among = log.among("category", "multi_hop")
    a, b = log.values("static keep=25%", "score"), log.values("full", "score")
    clusters = log.of_items("cluster")[among]
    options = {"method": "t", "bounds": UNIT}
    assert estimates.mean(a, among, UNIT) == mean(a[among], clusters, resamples=200, **options)
    assert estimates.difference(a, b, among, UNIT) == mean_difference(
        a[among], b[among], clusters, resamples=200, **options
    )


def test_differences_are_counted_once_each(run):
    estimates = Estimates(Log(read_run(run)))
    log = estimates.log
    among = log.among("category", "multi_hop")
    a, b = log.values("static keep=25%", "score"), log.values("full", "score")
    for _ in range(3):
        estimates.difference(a, b, among, UNIT)
        estimates.mean(a, among, UNIT)
    assert estimates.differences == 1
    estimates.difference(a, b, log.among("category", "synthetic"), UNIT)
    estimates.difference(a, b, np.zeros(log.num_items, dtype=bool), UNIT)
    assert estimates.differences == 2


def test_a_speedup_is_the_geometric_mean_over_items_that_ran_alone_and_are_ok_or_bypassed(run, estimates):
    rows = read_run(run).rows.to_pylist()
    log = estimates.log
    among = log.among("category", "synthetic")
    found, why = estimates.speedup("ends keep=25%", among)
    seconds = {
        arm: {row["item"]: row for row in rows if row["arm"] == arm and row["status"] in ("ok", "bypassed")}
        for arm in ("full", "ends keep=25%")
    }
    items = [item for item in log.of_items("item")[among] if all(item in each for each in seconds.values())]
    full, mine = ([each[item]["first_token_s"] for item in items] for each in seconds.values())
    assert any(seconds["ends keep=25%"][item]["status"] == "bypassed" for item in items)
    assert why == ""
    assert found is not None
    assert found.estimate == pytest.approx(geometric_mean_ratio(full, mine, None).estimate)
    assert found.n == len(items)


def test_an_area_that_cannot_be_ranked_says_why(estimates):
    nothing = np.zeros(estimates.log.num_items, dtype=bool)
    assert estimates.auc("full", "min_margin", "correct", nothing) == (
        None,
        "no item has answers of the arm and of the full run",
    )
    one = nothing.copy()
    one[0] = True
    found, why = estimates.auc("full", "min_margin", "correct", one)
    assert found is None
    assert "nothing to rank" in why
