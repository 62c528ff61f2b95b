"""docs/generate.py: what is committed is what the code says, and a difference is found."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture
def generate() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", DOCS / "generate.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_what_is_committed_is_up_to_date(generate, capsys):
    assert generate.main(["--check"]) == 0
    assert capsys.readouterr() == ("", "")


def test_a_difference_is_named_and_written_again(generate, monkeypatch, tmp_path, capsys):
    tmp_path = tmp_path / "docs"
    tmp_path.mkdir()
    monkeypatch.setattr(generate, "HERE", tmp_path)
    assert generate.main(["--check"]) == 1
    assert list(tmp_path.iterdir()) == []
    assert generate.main([]) == 0
    assert generate.main(["--check"]) == 0
    written = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert written == {path.name: path.read_text() for path in DOCS.iterdir() if path.name in written}
    (tmp_path / "cli.md").write_text("changed")
    capsys.readouterr()
    assert generate.main(["--check"]) == 1
    assert "cli.md is not what the code says" in capsys.readouterr().err
    assert (tmp_path / "cli.md").read_text() == "changed"


def test_the_width_of_the_terminal_does_not_matter(generate, monkeypatch):
    texts = set()
    for columns in ("40", "200"):
        monkeypatch.setenv("COLUMNS", columns)
        texts.add("".join(generate.make_documents().values()))
    assert len(texts) == 1


def test_every_command_and_option_is_described(generate):
    text = generate.make_documents()[generate.HERE / "cli.md"]
    for word in (
        "## fewer ask",
        "## fewer models fetch",
        "## fewer doctor",
        "`--keep",
        "`--json`",
        "`--debug`",
        "| Answer |",
    ):
        assert word in text


def test_unknown_arguments_are_refused(generate, capsys):
    assert generate.main(["--chekc"]) == 2
    assert "--chekc" in capsys.readouterr().err
