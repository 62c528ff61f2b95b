"""The section on eviction: what stayed, what it cost, and certificates as they lie; none where nothing was evicted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_runs import make_items, make_study, read_sheet, write_run

from fewer.report import write_report
from fewer.report.estimates import Estimates
from fewer.report.evicted import list_evicted
from fewer.report.log import Log, name_arm, read_family, read_keep
from fewer.study.folder import read_run

DRAWN, BOTH = "systematic:question budget=25%", "static + snapkv keep=50% budget=64"
ARMS = [
    {"name": "full"},
    {"condition": "no_context"},
    {"evict": "systematic:question", "budget": ["50%", "25%"]},
    {"evict": "snapkv", "budget": 0.25, "moment": "context"},
    {"prune": "static", "keep": "50%", "evict": "snapkv", "budget": 64},
    {"prune": "static", "keep": "25%"},
]


def change(row: dict[str, Any]) -> dict[str, Any]:
    """A quarter stays; the certificate is the item's number. What was refused or failed has nothing."""
    if row["evict"] == "none" or row["status"] in ("refused", "failed"):
        return {}
    found: dict[str, Any] = {"kv_kept_fraction": 0.25, "kv_most_bytes": 4_000_000, "evict_s": 0.5, "kept_fraction": 1.0}
    found |= {"condition": "stream" if "context" in row["arm"] else "aware", "kv_used_bytes": 900_000}
    found |= {"supporting_kept": 1.0} | ({"supporting_rows": 0.375} if "systematic" in row["arm"] else {})
    return found | ({"certificate": float(row["unit"])} if "systematic" in row["arm"] else {})


@pytest.fixture(scope="module")
def evicted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    study = make_study(arms=ARMS, claims=[], seeds=[0, 1])
    folder = tmp_path_factory.mktemp("evicted") / "run"
    return write_run(folder, study=study, items=make_items(20), change_row=change)


def test_the_section_has_every_arm_that_evicts(evicted: Path, tmp_path: Path) -> None:
    write_report([evicted], tmp_path, ("md", "csv"))
    rows = [row for row in read_sheet(tmp_path / "tables" / "evicted.csv") if row["category"] == "synthetic"]
    names = [DRAWN.replace("25%", "50%"), DRAWN, "snapkv budget=0.25 moment=context", BOTH]
    assert [row["arm"] for row in rows] == names
    assert [row["budget"] for row in rows] == ["50%", "25%", "25%", "50%, 64 tokens"]
    assert [row["condition"] for row in rows] == ["aware", "aware", "stream", "aware"]
    log = Log(read_run(evicted))
    inside = log.among("category", "synthetic")
    for row in rows:
        assert (float(row["rows"]), float(row["evict_s"])) == (0.25, 0.5)
        assert (float(row["used_bytes"]), float(row["most_bytes"])) == (900_000, 4_000_000)
        difference = (log.values(row["arm"], "score") - log.values("full", "score"))[inside]
        assert float(row["difference"]) == pytest.approx(np.nanmean(difference))
        of_arm = log.of_arm(row["arm"]) & inside[log.place]
        shown = [float(unit) for unit in log.numbers("certificate")[of_arm] if unit == unit]
        assert int(row["certified"]) == len(shown)
        assert bool(shown) == ("systematic" in row["arm"])
        if shown:
            assert float(row["certificate_50"]) == pytest.approx(np.median(shown))
    text = (tmp_path / "report.md").read_text()
    assert "Certificates here are estimates from the sampling design" in text
    assert "bounds no error of anything" in text


def test_kept_of_the_evidence_is_of_rows_where_an_arm_evicts(evicted: Path, tmp_path: Path) -> None:
    """All tokens of the prefill reach the last layer, which says nothing of what the cache kept of them."""
    write_report([evicted], tmp_path, ("csv",))
    rows = {row["arm"]: row for row in read_sheet(tmp_path / "tables" / "costs.csv") if row["category"] == "synthetic"}
    assert float(rows[DRAWN]["supporting"]) == 0.375
    assert rows[BOTH]["supporting"] == rows["snapkv budget=0.25 moment=context"]["supporting"] == ""
    assert 0 < float(rows["static keep=25%"]["supporting"]) < 1


def test_kept_is_of_rows_where_an_arm_evicts(evicted: Path) -> None:
    log = Log(read_run(evicted))
    assert set(log.kept(DRAWN)[np.isfinite(log.kept(DRAWN))]) == {0.25}
    static = log.kept("static keep=25%")
    assert np.array_equal(static, log.values("static keep=25%", "kept_fraction"), equal_nan=True)


def test_certificates_rank_with_the_small_ones_first(evicted: Path) -> None:
    log = Log(read_run(evicted))
    assert np.array_equal(log.surest("certificate"), -log.numbers("certificate"), equal_nan=True)
    assert np.array_equal(log.surest("min_margin"), log.numbers("min_margin"), equal_nan=True)


def test_names_have_the_budget_first(evicted: Path) -> None:
    arms = {arm.name: arm for arm in read_run(evicted).study.expanded}
    assert name_arm(arms[DRAWN]) == "25% systematic:question"
    assert name_arm(arms[BOTH]) == "50%, 64 tokens static + snapkv"
    assert (read_family(arms[BOTH]), read_keep(arms[BOTH])) == ("static + snapkv", "50%, 64 tokens")
    assert read_family(arms["snapkv budget=0.25 moment=context"]) == "snapkv context"


def test_a_run_that_evicts_nothing_has_no_section(run: Path, report: Path) -> None:
    assert list_evicted(Estimates(Log(read_run(run)))) is None
    text = (report / "report.md").read_text()
    assert "## Eviction" not in text
    assert "ertificates here" not in text
