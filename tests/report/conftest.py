"""One made-up run and its report without picture files, shared by the tests; few resamples, since none needs more."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_runs import write_run

import fewer.report.estimates
from fewer.report import write_report


@pytest.fixture(scope="session", autouse=True)
def _few_resamples():
    before = fewer.report.estimates.RESAMPLES
    fewer.report.estimates.RESAMPLES = 200
    yield
    fewer.report.estimates.RESAMPLES = before


@pytest.fixture(scope="session")
def run(tmp_path_factory, _few_resamples) -> Path:
    return write_run(tmp_path_factory.mktemp("runs") / "made-up", num_items=75)


@pytest.fixture(scope="session")
def report(tmp_path_factory, run) -> Path:
    out = tmp_path_factory.mktemp("reports") / "report"
    write_report([run], out, ("md", "html", "csv"))
    return out
