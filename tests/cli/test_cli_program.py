"""The program itself: help, version, what it imports, `fewer models`, and what moves on a terminal."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command

import fewer
from fewer.cli import terminal
from fewer.cli.app import app
from fewer.cli.terminal import Terminal
from fewer.model.store import ModelEntry


def test_version_and_help(run):
    assert run("--version").stdout == f"fewer {fewer.__version__}\n"
    alone, asked = run(""), run("--help")
    assert alone.exit_code == asked.exit_code == 0
    assert alone.stdout == asked.stdout
    assert alone.stderr == ""
    for word in ("ask", "models", "doctor", "--version", "Exit codes", "130 interrupted"):
        assert word in alone.stdout
    assert "fetch" in run("models -h").stdout


@pytest.mark.parametrize("width", [60, 80])
def test_help_fits_the_terminal(run, width):
    lines = run("ask --help", env={"COLUMNS": str(width)}).stdout.splitlines()
    assert max(map(len, lines)) <= width


def test_help_and_version_need_no_torch():
    code = """
import resource, sys
from typer.testing import CliRunner
from fewer.cli.app import app
for arguments in (["--version"], ["ask", "--help"], ["models", "--help"], ["doctor", "--help"]):
    assert CliRunner().invoke(app, arguments).exit_code == 0
print([name for name in ("torch", "transformers", "numpy") if name in sys.modules])
print(resource.getrusage(resource.RUSAGE_SELF).ru_utime < 1)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\nTrue\n"


def test_public_names_are_complete_and_come_when_used():
    assert sorted(fewer.__all__) == sorted(set(fewer.__all__))
    for name in fewer.__all__:
        assert getattr(fewer, name) is not None
        assert name in dir(fewer)
    exceptions = {name for name, value in vars(fewer.errors).items() if isinstance(value, type)}
    assert exceptions <= set(fewer.__all__)
    lazy = {name for names in fewer._HOMES.values() for name in names}
    assert lazy == set(fewer.__all__) - exceptions - {"__version__"}
    with pytest.raises(AttributeError, match="no attribute 'Enigne'"):
        fewer.Enigne  # noqa: B018


def test_models_lists_what_is_there(run, monkeypatch):
    found = [
        ModelEntry("Embedded", "embedded", None, 0, False, "fewer models fetch"),
        ModelEntry("a[b]", "gguf", Path("/some/where/" + "long/" * 30), 3 * 2**20, True),
    ]
    monkeypatch.setattr("fewer.model.store.list_models", lambda: found)
    result = run("models")
    assert result.exit_code == 0
    head, first, second = result.stdout.splitlines()
    assert head.split() == ["name", "kind", "size", "ready", "where"]
    assert first.split() == ["Embedded", "embedded", "-", "no:", "fewer", "models", "fetch", "-"]
    assert second.split() == ["a[b]", "gguf", "3.0", "MiB", "yes", str(found[1].path)]
    assert result.stderr == ""


def test_models_fetch_tells_what_it_does(run, monkeypatch):
    def fetch(progress):
        progress("Installing it.")
        return Path("/cache/model")

    monkeypatch.setattr("fewer.model.store.fetch", fetch)
    result = run("models fetch")
    assert result.exit_code == 0
    assert result.stderr == "Installing it.\nThe embedded model is ready in /cache/model.\n"


class Screen(io.StringIO):
    """A terminal that remembers."""

    def isatty(self) -> bool:
        return True


def look(monkeypatch, long_s: float = -1.0) -> Screen:
    """Standard error as a terminal, from now on; a prefill is long after `long_s` seconds."""
    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(terminal, "LONG_S", long_s)
    monkeypatch.setenv("TERM", "xterm-256color")
    return screen


def test_a_terminal_shows_what_goes_on_and_is_clean_afterwards(monkeypatch):
    screen = look(monkeypatch)
    told = Terminal()
    with told.busy("Loading"):
        told.note("Converting.")
    with told.layers("Reading the prompt") as report:
        for layer in range(1, 5):
            report(layer, 4)
    shown = screen.getvalue()
    for word in ("Loading", "Converting.\n", "Reading the prompt", "1/4", "4/4"):
        assert word in shown
    assert shown.endswith("\x1b[2K")  # the bar's line, cleared
    assert shown.count("\x1b[?25l") == shown.count("\x1b[?25h") == 2  # the cursor, hidden and back


def test_an_interrupted_bar_is_put_away(monkeypatch):
    screen = look(monkeypatch)

    def read() -> None:
        with Terminal().layers("Reading") as report:
            report(1, 4)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        read()
    assert screen.getvalue().count("\x1b[?25h") == 1


def test_a_short_prefill_shows_no_bar(monkeypatch):
    screen = look(monkeypatch, long_s=60.0)
    with Terminal().layers("Reading") as report:
        for layer in range(1, 5):
            report(layer, 4)
    assert screen.getvalue() == ""


def test_no_color_is_respected(monkeypatch):
    screen = look(monkeypatch)
    monkeypatch.setenv("NO_COLOR", "1")
    terminal.print_error("it is so")
    assert "1;31m" not in screen.getvalue()
    monkeypatch.delenv("NO_COLOR")
    terminal.print_error("it is so")
    assert "\x1b[1;31merror:\x1b[0m" in screen.getvalue()


@pytest.mark.parametrize("how", ["quiet", "piped", "dumb"])
def test_nothing_moves_elsewhere(monkeypatch, how):
    screen = look(monkeypatch)
    if how == "piped":
        monkeypatch.setattr(Screen, "isatty", lambda _: False)
    if how == "dumb":
        monkeypatch.setenv("TERM", "dumb")
    told = Terminal(quiet=how == "quiet")
    with told.busy("Loading"), told.layers("Reading") as report:
        assert report is None
    told.note("Converting.")
    assert screen.getvalue() == ("" if how == "quiet" else "Converting.\n")


def test_an_answer_cannot_command_the_terminal(ask, monkeypatch):
    monkeypatch.setattr("fewer.engine.Stream.__iter__", lambda _: iter(["a\x1b[31m\tb\n", "é\x07"]))
    monkeypatch.setattr("fewer.engine.Stream.answer", property(lambda stream: stream._engine.ask("Q", max_tokens=1)))
    assert ask("Q").stdout_bytes.decode() == "a\x1b[31m\tb\né\x07\n"
    monkeypatch.setattr("typer.testing._NamedTextIOWrapper.isatty", lambda _: True)
    assert ask("Q").stdout_bytes.decode() == "a\ufffd[31m\tb\né\ufffd\n"


def test_a_narrow_encoding_loses_letters_and_nothing_else(monkeypatch):
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="latin-1"))
    with pytest.raises(SystemExit):
        get_command(app).main(["--version"], "fewer")
    print("é日", flush=True)
    assert written.getvalue() == f"fewer {fewer.__version__}\né?\n".encode("latin-1")
