"""The folder: whole or not at all, the same each time, and never in the place of something else."""

from __future__ import annotations

import json
import re

import pytest
from made_runs import make_study, read_sheet, write_run

import fewer.report.folder
from fewer.errors import BadInput, StorageError
from fewer.report import FORMATS, write_report

SMALL = make_study(arms=[{"name": "full"}, {"prune": "static", "keep": ["50%", "25%"]}], claims=(), outcomes=())


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return write_run(tmp_path_factory.mktemp("runs") / "small", study=SMALL, num_items=30)


def read_folder(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_all_formats_are_written_and_twice_the_same(small, tmp_path):
    files = write_report([small], tmp_path / "a")
    write_report([small], tmp_path / "b", [name for name in FORMATS if name != "png"])
    first, second = read_folder(tmp_path / "a"), read_folder(tmp_path / "b")
    pictures = {name for name in first if name.endswith(".png")}
    assert first.keys() - second.keys() == pictures
    assert {name for name in second if second[name] != first[name]} == {"report.md", "report.json"}  # other pictures
    assert {str(path.relative_to(tmp_path / "a")) for path in files} == first.keys()
    stems = [
        {name.split("/")[1].rsplit(".", 1)[0] for name in first if name.startswith("figures") and name.endswith(kind)}
        for kind in ("png", "svg")
    ]
    assert stems[0] == stems[1]
    assert {"score-kept", "score-speedup", "score-length", "heat-needle-words", "agreement", "margins"} <= stems[0]
    assert {"tables/scores.csv", "tables/tasks.csv", "report.md", "report.html"} <= first.keys()


@pytest.mark.parametrize(
    ("formats", "expected"),
    [(("md",), {"report.md"}), (("html",), {"report.html"}), (("md", "html", "md"), {"report.md", "report.html"})],
)
def test_only_the_formats_asked_for(small, tmp_path, formats, expected):
    write_report([small], tmp_path / "out", formats)
    assert read_folder(tmp_path / "out").keys() == expected | {"report.json"}
    if "md" in formats:
        assert "](figures/" not in (tmp_path / "out" / "report.md").read_text(encoding="utf-8")


def test_an_earlier_report_is_replaced_whole(small, tmp_path):
    out = tmp_path / "out"
    write_report([small], out, ("md", "csv"))
    write_report([small], out, ("html",))
    assert read_folder(out).keys() == {"report.html", "report.json"}
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("there", [False, True])
def test_a_refused_write_leaves_everything_as_it_was(small, tmp_path, monkeypatch, there):
    out = tmp_path / "out"
    if there:
        write_report([small], out, ("md",))
    before = read_folder(tmp_path)
    calls = []

    def refuse(descriptor):
        calls.append(descriptor)
        if len(calls) == 3:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(fewer.report.folder.os, "fsync", refuse)
    with pytest.raises(StorageError, match=r"out cannot be written: No space left on device"):
        write_report([small], out, ("md", "html", "csv"))
    assert read_folder(tmp_path) == before
    assert {path.name for path in tmp_path.iterdir()} == ({"out"} if there else set())


def test_a_refused_renaming_brings_the_old_report_back(small, tmp_path, monkeypatch):
    out = tmp_path / "out"
    write_report([small], out, ("md",))
    before = read_folder(tmp_path)
    real = fewer.report.folder.os.replace
    monkeypatch.setattr(fewer.report.folder, "_exchange", lambda one, other: False)

    def refuse(source, target):
        if str(source).endswith(".part"):
            raise OSError(13, "Permission denied")
        real(source, target)

    monkeypatch.setattr(fewer.report.folder.os, "replace", refuse)
    with pytest.raises(StorageError, match="Permission denied"):
        write_report([small], out, ("html",))
    assert read_folder(tmp_path) == before


def test_other_peoples_folders_and_files_are_not_touched(small, tmp_path):
    with pytest.raises(BadInput, match=r"an earlier report as it was written; it holds run\.json"):
        write_report([small], small)
    (tmp_path / "file").write_text("mine")
    with pytest.raises(BadInput, match="a folder, or a name not taken yet"):
        write_report([small], tmp_path / "file")
    assert (tmp_path / "file").read_text() == "mine"
    write_report([small], small / "report", ("md",))
    assert (small / "run.json").exists()


def test_bad_arguments_say_what_is_legal(small, tmp_path):
    with pytest.raises(BadInput, match="format is 'pdf'; it must be one of md, html, png, svg, csv"):
        write_report([small], tmp_path / "out", ("pdf",))
    with pytest.raises(BadInput, match="No run is given"):
        write_report([], tmp_path / "out")
    with pytest.raises(BadInput, match="No format is given"):
        write_report([small], tmp_path / "out", ())
    with pytest.raises(BadInput, match="given once"):
        write_report([small, small.parent / "." / "small"], tmp_path / "out")
    with pytest.raises(BadInput, match="a folder written by fewer study run"):
        write_report([tmp_path], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_log_of_another_version_is_refused_by_name(small, tmp_path):
    other = write_run(tmp_path / "other", study=SMALL, num_items=5)
    header = json.loads((other / "run.json").read_text())
    (other / "run.json").write_text(json.dumps(header | {"log_version": "99"}))
    with pytest.raises(BadInput, match=r"the log version of .*other is '99'"):
        write_report([small, other], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_sheets_have_whole_rows_and_numbers_as_computed(report):
    for path in sorted((report / "tables").glob("*.csv")):
        rows = read_sheet(path)
        assert rows, path.name
        assert all(None not in row and None not in row.values() for row in rows)
        names = list(rows[0])
        assert len(set(names)) == len(names)
        for name in names:
            if name.endswith("_low"):
                stem = name.removesuffix("_low")
                for row in rows:
                    if row[name]:
                        assert float(row[name]) <= float(row[f"{stem}_high"])
                        assert row[f"{stem}_method"]
                        assert int(row[f"{stem}_n"]) >= int(row[f"{stem}_clusters"]) >= 2
                    elif row[stem]:
                        assert row[f"{stem}_method"].startswith("no interval: ")
                    else:
                        assert row[f"{stem}_method"].startswith("no estimate: ")


def test_text_that_a_spreadsheet_would_run_is_quoted(tmp_path):
    study = make_study(
        arms=[{"name": "full"}, {"name": "=1+1", "prune": "ends", "keep": "50%"}], claims=(), outcomes=()
    )
    run = write_run(tmp_path / "run", study=study, num_items=20)
    write_report([run], tmp_path / "out", ("csv",))
    assert "'=1+1" in {row["arm"] for row in read_sheet(tmp_path / "out" / "tables" / "scores.csv")}


def test_markdown_tables_are_rectangular_and_their_pictures_exist(small, tmp_path):
    write_report([small], tmp_path / "out", ("md", "svg"))
    text = (tmp_path / "out" / "report.md").read_text(encoding="utf-8")
    width = 0
    for line in text.splitlines():
        cells = len(re.findall(r"(?<!\\)\|", line)) if line.startswith("|") else 0
        assert not (width and cells) or width == cells
        width = cells
    pictures = re.findall(r"!\[[^]]*\]\(([^)]*)\)", text)
    assert pictures
    assert all((tmp_path / "out" / picture).is_file() for picture in pictures)
    assert not re.search(r"\\[0-9]", text)
