"""A tiny model on disk that the command line can load, and a way to run the command line inside the test."""

from __future__ import annotations

import shlex
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from huggingface_hub import constants
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast
from typer.testing import CliRunner, Result

from fewer.cli.app import app
from tiny import Tiny

NUM_LAYERS, POSITIONS = 4, 512
CHAT = "{% for turn in messages %}<|turn|>{{ turn['role'] }}\n{{ turn['content'] }}<|end|>\n{% endfor %}<|turn|>"

Run = Callable[..., Result]


def byte_tokenizer() -> PreTrainedTokenizerFast:
    core = Tokenizer(
        models.BPE({symbol: n for n, symbol in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}, [])
    )
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, eos_token="<|end|>", extra_special_tokens=["<|turn|>"])
    tokenizer.chat_template = CHAT
    return tokenizer


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tiny random model that speaks bytes: 4 layers, 512 positions."""
    path = tmp_path_factory.mktemp("models") / "tiny"
    tokenizer = byte_tokenizer()
    settings = {"vocab_size": len(tokenizer), "max_position_embeddings": POSITIONS}
    Tiny("speaker", "Llama", settings=settings).model.save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


@pytest.fixture(autouse=True)
def surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A working folder and a cache of the test's own, 80 columns, and a hub whose port is closed."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("FEWER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{free.getsockname()[1]}")


@pytest.fixture
def run() -> Run:
    """Run the command line: `run("ask 'Who?' a.txt")`, or with the arguments in a list."""

    def invoke(arguments: str | list[str], **settings: object) -> Result:
        words = shlex.split(arguments) if isinstance(arguments, str) else arguments
        return CliRunner().invoke(app, words, prog_name="fewer", **settings)

    return invoke


@pytest.fixture
def ask(run: Run, model: Path) -> Run:
    """`fewer ask` on the tiny model in float32, eight tokens unless said otherwise."""

    def invoke(*arguments: str, **settings: object) -> Result:
        options = ["--model", str(model), "--dtype", "float32", "--max-tokens", "8"]
        return run(["ask", *options, *arguments], **settings)

    return invoke


@pytest.fixture
def docs() -> Path:
    """A folder in the working folder with two documents and one file that is none."""
    folder = Path("docs")
    folder.mkdir()
    (folder / "a.md").write_text("# The lamp\n\nThe lamp was lit in 1924 by the two keepers.")
    (folder / "b.txt").write_text("The island has one shop.\n\nIt is a post office too.")
    (folder / "c.dat").write_bytes(b"\x00\x01")
    return folder
