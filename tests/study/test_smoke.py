"""The smoke study, on the embedded model: from its file to its report in less than three minutes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fewer.report import write_report
from fewer.study.folder import read_run
from fewer.study.query import query_runs
from fewer.study.run import run_study

STUDY = Path(__file__).parents[2] / "docs" / "studies" / "smoke" / "study.yaml"


@pytest.mark.real
def test_the_smoke_study(tmp_path: Path) -> None:
    run = tmp_path / "run"
    summary = run_study(STUDY, run)
    assert (summary.left, summary.statuses) == (0, {"ok": 24})
    rows = read_run(run).rows.to_pylist()
    assert {row["num_tokens"] for row in rows if row["condition"] == "aware"} == {512, 1024}
    by_arm = dict(query_runs([run], "SELECT arm, avg(score) FROM rows GROUP BY arm")[1])
    assert by_arm["full"] == 1
    assert by_arm["no_context"] == 0
    assert by_arm["random keep=50% layer=20"] <= by_arm["static keep=50% layer=20"]
    for row in rows:
        if row["prune"] != "none":
            assert row["kept_fraction"] == pytest.approx(0.5, abs=0.01)
            assert row["computed_fraction"] == pytest.approx((20 + 10 * row["kept_fraction"]) / 30)
        assert json.loads(row["receipt"])["certificate"]["kind"] == "none"
    written = {path.name for path in write_report([run], tmp_path / "report")}
    assert {"report.md", "report.html", "score-kept.png", "score-kept.svg", "tasks.csv"} <= written
    assert "Not registered: everything here is exploratory." in (tmp_path / "report" / "report.md").read_text()
