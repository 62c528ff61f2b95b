"""The folder of a report: what others put there stays, and after any interruption one whole report is there."""

from __future__ import annotations

import json
import os
import shutil

import pytest
from made_runs import make_study, write_run

import fewer.report.folder
from fewer.errors import BadInput, StorageError
from fewer.report import write_report
from fewer.report.folder import check_target, list_files, put

OLD = {"report.md": b"old", "tables/a.csv": b"1", "figures/a.svg": b"2"}
NEW = {"report.md": b"new", "report.html": b"page"}


def whole(contents):
    return contents | {"report.json": list_files(contents)}


def read_folder(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def out(tmp_path):
    put(tmp_path / "out", whole(OLD))
    return tmp_path / "out"


@pytest.fixture(params=["one step", "two renames"])
def way(request, monkeypatch):
    if request.param == "two renames":
        monkeypatch.setattr(fewer.report.folder, "_exchange", lambda one, other: False)


@pytest.mark.parametrize("name", ["figures/mine.png", "tables/deep/mine.csv", "mine.txt", "figures/mine", ".hidden"])
def test_what_no_report_wrote_is_refused_at_any_depth(out, name):
    path = out / name
    if path.name == "mine":
        path.mkdir()
    else:
        path.parent.mkdir(exist_ok=True)
        path.write_text("mine")
    before = read_folder(out)
    with pytest.raises(BadInput, match=r"it holds .*(mine|hidden|deep).*Choose another --out, or move"):
        check_target(out)
    assert read_folder(out) == before
    assert path.exists()


def test_figures_and_tables_without_a_list_are_refused(tmp_path):
    for name in ("figures", "tables"):
        (tmp_path / "out" / name).mkdir(parents=True)
        (tmp_path / "out" / name / "mine.csv").write_text("mine")
    with pytest.raises(BadInput, match="it holds figures and 3 more"):
        check_target(tmp_path / "out")
    listed = json.loads(list_files({}))
    for content in ({"files": {"tables/mine.csv": ""}}, listed | {"files": ["a"]}, listed | {"files": {"/a/b": "c"}}):
        (tmp_path / "out" / "report.json").write_text(json.dumps(content))
        with pytest.raises(BadInput, match="it holds figures"):
            check_target(tmp_path / "out")


def test_a_report_that_was_changed_since_or_replaced_by_a_link_is_refused(out, tmp_path):
    (out / "report.md").write_text("old, with my notes")
    with pytest.raises(BadInput, match=r"it holds report\.md"):
        check_target(out)
    (tmp_path / "same.md").write_bytes(b"old")
    (out / "report.md").unlink()
    (out / "report.md").symlink_to(tmp_path / "same.md")
    with pytest.raises(BadInput, match=r"it holds report\.md"):
        check_target(out)


def test_an_earlier_report_a_part_of_one_and_an_empty_folder_are_replaced(out, tmp_path, way):
    (out / "tables" / "a.csv").unlink()
    (tmp_path / "empty").mkdir()
    for folder in (out, tmp_path / "empty", tmp_path / "new" / "deep"):
        assert check_target(folder) == folder
        put(folder, whole(NEW))
        assert read_folder(folder) == whole(NEW)
    assert {path.name for path in tmp_path.iterdir()} == {"out", "empty", "new"}


def test_what_comes_in_after_the_look_is_not_removed(out, tmp_path, way):
    (out / "figures" / "mine.png").write_text("mine")
    put(out, whole(NEW))
    assert read_folder(out) == whole(NEW)
    assert [path.read_text() for path in tmp_path.rglob("mine.png")] == ["mine"]


def test_at_every_moment_one_whole_report_is_there(out, tmp_path, monkeypatch, way):
    """A kill can come at any of these moments, before or after the step."""
    moments = []

    def watch(module, name):
        real = getattr(module, name)

        def step(*args, **settings):
            moments.append([read_folder(path) for path in tmp_path.iterdir()])
            try:
                return real(*args, **settings)
            finally:
                moments.append([read_folder(path) for path in tmp_path.iterdir()])

        monkeypatch.setattr(module, name, step)

    for name in ("replace", "fsync", "unlink", "rmdir"):
        watch(os, name)
    watch(fewer.report.folder, "_exchange")
    put(out, whole(NEW))
    assert len(moments) > 6
    assert all(whole(OLD) in moment or whole(NEW) in moment for moment in moments)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("place", range(1, 7))
@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_an_interruption_at_any_step_leaves_the_old_or_the_new_one_in_its_place(
    out, tmp_path, monkeypatch, way, place, after, error
):
    """Three files are synced, then one exchange, or an attempt at it and two renames."""
    steps = []

    def interrupt(module, name):
        real = getattr(module, name)

        def step(*args):
            steps.append(name)
            mine = len(steps) == place
            if mine and not after:
                raise error
            result = real(*args)
            if mine:
                raise error
            return result

        monkeypatch.setattr(module, name, step)

    interrupt(os, "fsync")
    interrupt(os, "replace")
    interrupt(fewer.report.folder, "_exchange")
    interrupted = False
    try:
        put(out, whole(NEW))
    except error:
        interrupted = True
    assert interrupted == (len(steps) >= place)
    assert interrupted or place > 4
    assert read_folder(out) in (whole(OLD), whole(NEW))
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_path_below_a_file_is_named(tmp_path):
    (tmp_path / "file").write_text("mine")
    for out in (tmp_path / "file" / "x", tmp_path / "file" / "x" / "y"):
        with pytest.raises(BadInput, match=r"it must be in a folder; .*file is a file\. Choose another"):
            check_target(out)
    with pytest.raises(StorageError, match="File name too long"):
        check_target(tmp_path / ("x" * 300))
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises((BadInput, StorageError), match="loop"):
        check_target(tmp_path / "loop" / "x")


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    study = make_study(arms=[{"name": "full"}, {"prune": "static", "keep": "50%"}], claims=(), outcomes=())
    return write_run(tmp_path_factory.mktemp("runs") / "small", study=study, num_items=10)


def test_a_written_report_lists_its_files_and_nobody_elses_are_lost(small, tmp_path):
    files = write_report([small], tmp_path / "out", ("md", "csv", "md"))
    listed = json.loads((tmp_path / "out" / "report.json").read_text())["files"]
    names = {path.relative_to(tmp_path / "out").as_posix() for path in files}
    assert names == {*listed, "report.json"} == read_folder(tmp_path / "out").keys()
    (tmp_path / "out" / "tables" / "mine.csv").write_text("mine")
    before = read_folder(tmp_path / "out")
    with pytest.raises(BadInput, match=r"it holds tables/mine\.csv"):
        write_report([small], tmp_path / "out", ("md",))
    assert read_folder(tmp_path / "out") == before


def test_the_same_run_is_refused_by_any_path_and_as_a_copy(small, tmp_path):
    shutil.copytree(small, tmp_path / "copy")
    (tmp_path / "link").symlink_to(small)
    for other in (small, tmp_path / "copy", tmp_path / "link"):
        with pytest.raises(BadInput, match=r"given once; it is the same run as .* would count twice"):
            write_report([small, other], tmp_path / "out", ("md",))
    again = write_run(tmp_path / "again", study=make_study(claims=()), num_items=10, seed=1)
    write_report([small, again], tmp_path / "out", ("md",))
    assert "2 runs" in (tmp_path / "out" / "report.md").read_text()
