"""Bad input on the command line: one line on standard error with the value and the way out, no traceback."""

from __future__ import annotations

import errno
import json
import time
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from fewer import Engine

# Arguments after `ask`, and what the line has to say.
BAD = {
    "no question": ([], ["Missing argument 'QUESTION'", "fewer ask --help"]),
    "unknown option": (["Q", "--modle", "x"], ["--modle", "--model", "fewer ask --help"]),
    "option without value": (["Q", "--seed"], ["--seed", "requires an argument"]),
    "no number": (["Q", "--max-tokens", "many"], ["--max-tokens", "'many'", "integer", "fewer ask --help"]),
    "empty question": ([""], ["''", "not blank", "Ask something"]),
    "blank question": ([" \n\t"], ["not blank"]),
    "unknown model": (["Q", "--model", "org/none"], ["org/none", "cannot be reached", "local directory"]),
    "no such folder": (["Q", "--model", "./none"], ["./none", "does not exist"]),
    "model without config": (["Q", "--model", "empty"], ["empty", "config.json"]),
    "impossible name": (["Q", "--model", "a b"], ["'a b'", "fewer models"]),
    "unknown device": (["Q", "--device", "abacus"], ["'abacus'", "'auto'"]),
    "unknown dtype": (["Q", "--dtype", "int3"], ["'int3'", "float32", "'auto'"]),
    "unknown weights": (["Q", "--weights", "int3"], ["'int3'", "int8"]),
    "missing file": (["Q", "none.txt"], ["none.txt", "does not exist", "Check the path"]),
    "binary file": (["Q", "binary.txt"], ["binary.txt", "binary"]),
    "broken PDF": (["Q", "broken.pdf"], ["broken.pdf", "PDF"]),
    "empty file": (["Q", "empty.txt"], ["empty.txt"]),
    "folder without text": (["Q", "empty"], ["empty", ".md"]),
    "empty standard input": (["Q", "-"], ["standard input"]),
    "broken JSON": (["Q", "broken.json"], ["broken.json", "JSON"]),
    "unknown split": (["Q", "--split", "page"], ["'page'", "document", "256"]),
    "split of 0": (["Q", "--split", "0"], ["'0'", "at least 1"]),
    "unknown prune": (
        ["Q", "--prune", "best", "--keep", "9"],
        ["'best'", "--prune is", "none, ends, entroprefill, lazyllm, lexical, random, static", "Leave it out"],
    ),
    "prune without keep": (["Q", "--prune", "ends"], ["--prune is 'ends'", "--keep 25%", "leave --prune out"]),
    "keep without prune": (["Q", "--keep", "9"], ["--keep is '9'", "--prune"]),
    "keep and prune none": (["Q", "--keep", "9", "--prune", "none"], ["--keep is '9'", "--prune"]),
    "layer without prune": (["Q", "--layer", "1"], ["--layer is 1", "--prune"]),
    "grain without prune": (["Q", "--grain", "chunk"], ["--grain is 'chunk'", "--prune"]),
    "keep 0": (["Q", "--prune", "ends", "--keep", "0"], ["'0'", "at least 1", "25%"]),
    "keep 0%": (["Q", "--prune", "ends", "--keep", "0%"], ["'0%'", "at most 1"]),
    "keep 101%": (["Q", "--prune", "ends", "--keep", "101%"], ["'101%'", "at most 1"]),
    "keep nonsense": (["Q", "--prune", "ends", "--keep", "half"], ["--keep is 'half'", "256"]),
    "keep nan": (["Q", "--prune", "ends", "--keep", "nan"], ["'nan'"]),
    "keep too many": (["Q", "good.txt", "--prune", "ends", "--keep", "5000"], ["5000", "at most", "100%"]),
    "layer too deep": (["Q", "good.txt", "--prune", "ends", "--keep", "9", "--layer", "4"], ["--layer is 4", "0 to 3"]),
    "layer too early": (
        ["Q", "good.txt", "--prune", "static", "--keep", "9", "--layer", "0"],
        ["--layer is 0", "1 to 3"],
    ),
    "unknown grain": (["Q", "--prune", "ends", "--keep", "9", "--grain", "word"], ["'word'", "'chunk'"]),
    "max_tokens 0": (["Q", "--max-tokens", "0"], ["--max-tokens is 0", "at least 1"]),
    "temperature below 0": (["Q", "--temperature", "-0.1"], ["--temperature is -0.1", "Use 0"]),
    "temperature nan": (["Q", "--temperature", "nan"], ["--temperature is nan"]),
    "top_k below 0": (["Q", "--temperature", "1", "--top-k", "-1"], ["--top-k is -1", "at least 0"]),
    "top_k above the vocabulary": (["Q", "--temperature", "1", "--top-k", "999"], ["999", "at most 258"]),
    "top_p 2": (["Q", "--temperature", "1", "--top-p", "2"], ["--top-p is 2.0", "at most 1"]),
    "min_p 2": (["Q", "--temperature", "1", "--min-p", "2"], ["--min-p is 2.0", "at most 1"]),
    "top_k without temperature": (["Q", "--top-k", "5"], ["--top-k is 5", "--temperature above 0"]),
    "top_p without temperature": (["Q", "--top-p", "0.5"], ["--top-p is 0.5", "--temperature above 0"]),
    "min_p without temperature": (["Q", "--min-p", "0.5"], ["--min-p is 0.5", "--temperature above 0"]),
    "penalty 0": (["Q", "--repetition-penalty", "0"], ["--repetition-penalty is 0.0", "at least 0.01"]),
    "empty stop": (["Q", "--stop", ""], ["''", "non-empty"]),
    "seed below 0": (["Q", "--seed", "-1"], ["--seed is -1", "at least 0"]),
    "logprobs without json": (["Q", "--logprobs", "2"], ["--logprobs is 2", "--json"]),
    "logprobs 101": (["Q", "--json", "--logprobs", "101"], ["--logprobs is 101", "at most 100"]),
    "html in no folder": (["Q", "--html", "none/page.html"], ["--html is 'none/page.html'", "Make the folder first"]),
    "html is a folder": (["Q", "--html", "empty"], ["--html is 'empty'", "not a folder"]),
    "html with a long name": (["Q", "--html", "x" * 300], ["--html", "File name too long"]),
    "receipt is a folder": (["Q", "--receipt", "."], ["--receipt is '.'", "not a folder"]),
    "one file for two": (["Q", "--html", "a", "--receipt", "./a"], ["--html and --receipt", "two files"]),
    "too long": (["Q", "long.txt"], ["tokens and 8 more", "512 positions", "--truncate", "--max-tokens"]),
    "too long to be cut": (["Q" * 600, "good.txt", "--truncate"], ["512 positions", "Shorten the question"]),
    "too many tokens": (["Q", "--max-tokens", "900"], ["900", "512 positions", "--max-tokens"]),
}


@pytest.fixture
def files() -> None:
    Path("good.txt").write_text("The lamp was lit in 1924 by the two keepers.")
    Path("long.txt").write_text("word " * 190)
    Path("binary.txt").write_bytes(bytes(range(256)))
    Path("broken.pdf").write_bytes(b"%PDF-1.7\nnothing")
    Path("broken.json").write_text('{"text": ')
    Path("empty.txt").touch()
    Path("empty").mkdir()


def line_of(result, code: int = 2) -> str:
    """The one line on standard error."""
    assert result.exit_code == code, result.output
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert "Traceback" not in result.output
    return result.stderr


@pytest.mark.parametrize("name", BAD)
def test_bad_input(ask, files, name):
    arguments, words = BAD[name]
    before = sorted(Path().iterdir())
    result = ask(*arguments)
    line = line_of(result)
    assert result.stdout == ""
    for word in words:
        assert word in line
    assert sorted(Path().iterdir()) == before


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("aks", ["'aks'", "Did you mean 'ask'?", "fewer --help"]),
        ("models get", ["'get'", "fewer models --help"]),
        ("doctor now", ["now", "fewer doctor --help"]),
        ("--versoin", ["--versoin", "--version"]),
    ],
)
def test_bad_command(run, arguments, words):
    line = line_of(run(arguments))
    for word in words:
        assert word in line


def test_an_unreachable_hub_is_reported_within_seconds(ask):
    begin = time.monotonic()
    line_of(ask("Q", "--model", "org/none"))
    assert time.monotonic() - begin < 10


@pytest.mark.parametrize("option", ["--html", "--receipt"])
def test_targets_and_settings_are_checked_before_the_model_is_loaded(ask, monkeypatch, option):
    monkeypatch.setattr(Engine, "load", None)
    for arguments in ([option, "none/file"], ["--stop", ""], ["--prune", "ends"], ["none.txt"], ["--split", "0"]):
        line_of(ask("Q", *arguments))


def test_non_finite_numbers_name_their_layer(run, model, tmp_path):
    broken = AutoModelForCausalLM.from_pretrained(model)
    broken.model.layers[1].mlp.down_proj.weight.data[0, 0] = torch.nan
    broken.save_pretrained(tmp_path / "broken")
    AutoTokenizer.from_pretrained(model).save_pretrained(tmp_path / "broken")
    line = line_of(run(["ask", "Q", "--model", str(tmp_path / "broken"), "--dtype", "float32"]), code=3)
    assert "layer 2 of 4" in line


def test_pickled_weights_are_refused_unless_allowed(run, model, tmp_path):
    path = tmp_path / "pickled"
    pickled = AutoModelForCausalLM.from_pretrained(model)
    AutoTokenizer.from_pretrained(model).save_pretrained(path)
    pickled.config.save_pretrained(path)
    torch.save(pickled.state_dict(), path / "pytorch_model.bin")
    words = ["ask", "Q", "--model", str(path), "--dtype", "float32", "--max-tokens", "2"]
    assert "pickle" in line_of(run(words))
    assert run([*words, "--allow-pickle"]).exit_code == 0


def test_a_full_disk_leaves_the_answer_and_no_file(ask, monkeypatch):
    def refuse(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("fewer.receipt.files.os.fsync", refuse)
    result = ask("Q", "--json", "--receipt", "receipt.json")
    assert "No space left on device" in line_of(result, code=4)
    assert json.loads(result.stdout_bytes)["finish_reason"] == "length"
    assert list(Path().iterdir()) == []


def test_what_was_not_raised_on_purpose(ask, monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("the first line\nand the second")

    monkeypatch.setattr(Engine, "load", fail)
    line = line_of(ask("Q"), code=1)
    assert "unexpected RuntimeError: the first line and the second. Run the command with --debug" in line
    shown = ask("Q", "--debug")
    assert shown.exit_code == 1
    assert "Traceback" in shown.stderr
    assert shown.stderr.splitlines()[-1] == "error: unexpected RuntimeError: the first line and the second."


def test_debug_shows_the_traceback_of_bad_input_too(ask):
    result = ask("Q", "none.txt", "--debug")
    assert result.exit_code == 2
    assert "Traceback" in result.stderr
    assert result.stderr.splitlines()[-1].startswith("error: none.txt does not exist")


def test_a_name_cannot_command_the_terminal(ask):
    line = line_of(ask("Q", "a\x1b[31m\nb\udcff"))
    assert "\x1b" not in line
