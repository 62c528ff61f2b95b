"""The word "before" and the tick stand only where the registration's date is earlier than the run's own dates."""

from __future__ import annotations

from dataclasses import replace

import pytest
from made_runs import make_study, write_run

from fewer.report.block import Notice, Section
from fewer.report.build import build
from fewer.report.log import Log
from fewer.report.markdown import write_markdown
from fewer.report.registered import announce
from fewer.study.folder import read_run

EARLY, STARTED, ENDED = "2026-11-29T12:00:00Z", "2026-11-30T08:00:00+00:00", "2026-11-30T08:00:00Z"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    study = make_study(arms=[{"name": "full"}], claims=(), outcomes=())
    return read_run(write_run(tmp_path_factory.mktemp("runs") / "run", study=study, num_items=5))


def tell(run, kind="registered", **header):
    registration = {"kind": kind, "sentence": "This run matches.", "registered_at": header.pop("at", EARLY)}
    return announce(Log(replace(run, header=run.header | {"registration": registration} | header)))


def test_an_earlier_date_is_called_before(run):
    found = tell(run)
    assert (found.title, found.tone) == ("Registered before the run", "good")
    assert found.texts[-1].startswith("A hash proves a date only where")


@pytest.mark.parametrize(
    ("header", "title"),
    [
        (
            {"at": "2099-01-01T00:00:00Z"},
            "Registered AFTER the run began: registered 2099-01-01 00:00:00 UTC, begun 2026-11-30 08:00:00 UTC",
        ),
        (
            {"at": "2026-11-30T08:00:01Z"},
            "Registered AFTER the run began: registered 2026-11-30 08:00:01 UTC, begun 2026-11-30 08:00:00 UTC",
        ),
        (
            {"at": "2026-11-30T08:30:00+01:00", "started": "2026-11-30T07:00:00"},
            "Registered AFTER the run began: registered 2026-11-30 07:30:00 UTC, begun 2026-11-30 07:00:00 UTC",
        ),
        ({"at": ENDED}, "Registered NO EARLIER than the run began: both 2026-11-30 08:00:00 UTC"),
        (
            {"at": "2027-01-01T00:00:00Z", "started": "2099-01-01T00:00:00Z"},
            "Registered AFTER answers had come: 5 of 5 had ended by 2027-01-01 00:00:00 UTC",
        ),
        (
            {"at": "2027-01-01T00:00:00Z", "started": None},
            "Registered AFTER answers had come: 5 of 5 had ended by 2027-01-01 00:00:00 UTC",
        ),
        ({"started": None}, "Registered; when is not known"),
        ({"at": None}, "Registered; when is not known"),
        ({"at": "yesterday", "started": 7}, "Registered; when is not known"),
    ],
)
def test_any_other_date_has_neither_the_word_nor_the_tick(run, header, title):
    found = tell(run, **header)
    assert found.title == title
    assert found.tone == ("warn" if "not known" in title else "alarm")
    document = build([run], ())
    document = replace(document, sections=(Section("run", "The run", (found,)),), footer="", subtitle="")
    text = write_markdown(document, None)
    assert "✓" not in text
    assert "before" not in text


def test_a_run_that_differs_says_so_first_and_its_date_too(run):
    found = tell(run, "differs", at="2099-01-01T00:00:00Z")
    assert (found.title, found.tone) == ("This run differs from what was registered", "alarm")
    assert any(text.startswith("Registered AFTER the run began") for text in found.texts)


def test_a_late_registration_is_in_the_report_itself(run):
    registration = run.header["registration"] | {"registered_at": "2099-01-01T00:00:00Z"}
    document = build([replace(run, header=run.header | {"registration": registration})], ())
    titles = [block.title for block in document.all(Notice)]
    assert titles[0].startswith("Registered AFTER the run began")
    assert "Registered before the run" not in titles
