"""The installed program with the embedded model, in a process of its own: streams, pipes, and Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fewer import Receipt

PROGRAM = Path(sys.executable).with_name("fewer")
EXAMPLES = Path(__file__).parents[2] / "examples" / "lighthouse"
QUESTION = "How long does the crossing take?"
SURROUNDINGS = {**os.environ, "OMP_NUM_THREADS": "1"}  # of the user: the embedded model is in the user's cache

pytestmark = pytest.mark.real


def start(cwd: Path, *arguments: str) -> subprocess.Popen[bytes]:
    words = [PROGRAM, "ask", QUESTION, str(EXAMPLES), *arguments]
    return subprocess.Popen(words, cwd=cwd, env=SURROUNDINGS, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def finish(process: subprocess.Popen[bytes]) -> tuple[int, str, str]:
    stdout, stderr = process.communicate(timeout=120)
    return process.returncode, stdout.decode(), stderr.decode()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An empty one, far from the examples."""
    path = tmp_path / "elsewhere"
    path.mkdir()
    return path


def test_an_answer_over_the_examples_from_another_folder(folder):
    plain = start(folder, "--max-tokens", "12")
    as_json = start(folder, "--max-tokens", "12", "--json", "--receipt", "receipt.json")
    with ThreadPoolExecutor() as pool:
        (code, text, told), (json_code, line, notes) = pool.map(finish, (plain, as_json))
    assert (code, json_code) == (0, 0)
    assert "SmolLM2-135M-Instruct" in told
    assert "The tower" in told
    assert "Traceback" not in told + notes
    assert line.count("\n") == 1
    found = json.loads(line)
    assert found["text"] + "\n" == text
    assert len(text) > 5
    assert "<|" not in text
    receipt = Receipt.model_validate(found["receipt"])
    assert Receipt.model_validate_json((folder / "receipt.json").read_text()) == receipt
    assert receipt.model.source == "embedded"
    assert len(receipt.prompt.chunks) == len(list(EXAMPLES.iterdir()))
    assert receipt.computed.token_layers_skipped == 0


def interrupt_after(seconds: float, cwd: Path) -> tuple[int, str, str]:
    process = start(cwd, "--html", "page.html")
    time.sleep(seconds)
    process.send_signal(signal.SIGINT)
    return finish(process)


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_ctrl_c_while_loading(folder):
    with ThreadPoolExecutor() as pool:
        for code, text, told in pool.map(interrupt_after, (0.5, 1.5), (folder, folder)):
            assert (code, text, told) == (130, "", "error: interrupted\n")
    assert list(folder.iterdir()) == []


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_ctrl_c_while_generating_and_a_reader_that_leaves(folder):
    stopped = start(folder, "--max-tokens", "500", "--system", "Tell everything.", "--receipt", "receipt.json")
    left = start(folder, "--max-tokens", "500")
    first = stopped.stdout.read(1)
    stopped.send_signal(signal.SIGINT)
    left.stdout.read(1)
    left.stdout.close()
    code, text, told = finish(stopped)
    assert code == 130
    assert (first.decode() + text).endswith("\n")
    assert told.endswith("error: interrupted\n")
    assert "Traceback" not in told
    receipt = Receipt.model_validate_json((folder / "receipt.json").read_text())
    assert receipt.output.finish_reason == "cancelled"
    with left:
        assert left.stderr.read() == b""
    assert left.returncode == 1
