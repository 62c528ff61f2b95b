"""A receipt is written whole or not at all."""

from __future__ import annotations

import os

import pytest

from fewer.errors import BadInput, StorageError
from fewer.receipt import Receipt


def test_saves_both_forms(make, tmp_path):
    receipt = make()
    receipt.save_json(tmp_path / "r.json")
    receipt.save_html(str(tmp_path / "r.html"))
    assert Receipt.model_validate_json((tmp_path / "r.json").read_bytes()) == receipt
    assert (tmp_path / "r.html").read_text("utf-8") == receipt.to_html()
    assert sorted(os.listdir(tmp_path)) == ["r.html", "r.json"]


def test_replaces_an_older_file_and_follows_a_link(make, tmp_path):
    real, link = tmp_path / "real.json", tmp_path / "link.json"
    real.write_text("old")
    link.symlink_to(real)
    make().save_json(link)
    assert link.is_symlink()
    assert real.read_text("utf-8").startswith("{")


def test_the_file_can_be_read_as_any_new_file(make, tmp_path):
    make().save_json(tmp_path / "r.json")
    (tmp_path / "plain").write_text("")
    assert (tmp_path / "r.json").stat().st_mode == (tmp_path / "plain").stat().st_mode


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "not taken yet"),
        (".", "not taken yet"),
        ("missing/r.html", "Make the folder first"),
        ("file/r.html", "Make the folder first"),
        ("a\0b", "a file's name"),
        ("x" * 300, "a file's name"),
        ("loop", "not taken yet|a file's name"),
    ],
)
def test_a_path_that_cannot_be_a_file(make, tmp_path, monkeypatch, name, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("kept")
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(BadInput, match=message):
        make().save_html(name)
    assert sorted(os.listdir(tmp_path)) == ["file", "loop"]


def test_a_device_is_not_replaced(make):
    with pytest.raises(BadInput, match="not a folder or a device"):
        make().save_json(os.devnull)


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_refused_write_leaves_the_old_file(make, tmp_path, monkeypatch, call):
    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    path = tmp_path / "r.json"
    path.write_text("old")
    monkeypatch.setattr(os, call, refuse)
    with pytest.raises(StorageError, match=r"r\.json could not be written: No space left on device"):
        make().save_json(path)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["r.json"]


def test_an_interrupt_leaves_nothing_behind(make, tmp_path, monkeypatch):
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        make().save_json(tmp_path / "r.json")
    assert os.listdir(tmp_path) == []
