from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from checkpoints import build_model, gguf_tensors, write_gguf

from fewer.errors import ModelError, StorageError
from fewer.model import conversion, disk
from fewer.model.store import list_models, load_model, resolve

SCRIPT = """
import sys, time
from fewer.model import conversion, store
write = conversion._write
def write_and_wait(*args):
    write(*args)
    print("written", flush=True)
    time.sleep(60)
conversion._write = write_and_wait
store.resolve(sys.argv[1])
"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FEWER_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "models"


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    return write_gguf(tmp_path / "tiny.gguf")


def entries(cache: Path) -> set[str]:
    """What lies in the cache, apart from locks."""
    return {path.name for path in cache.iterdir() if path.suffix != ".lock"}


def test_weights_config_and_tokenizer_survive_exactly(tmp_path: Path) -> None:
    model = build_model()
    source = resolve(write_gguf(tmp_path / "tiny.gguf", model, quantised=("ffn_down",)))
    loaded, tokenizer = load_model(source, torch.float32)
    for name, weight in model.state_dict().items():
        if "down_proj" in name:
            kind = gguf.GGMLQuantizationType.Q8_0
            weight = torch.from_numpy(gguf.dequantize(gguf.quantize(weight.numpy(), kind), kind))
        assert torch.equal(loaded.state_dict()[name], weight), name
    assert loaded.config.eos_token_id == loaded.generation_config.eos_token_id == 2
    assert not loaded.training
    assert not any(parameter.requires_grad for parameter in loaded.parameters())
    assert tokenizer.chat_template.startswith("{% for message")
    assert tokenizer.encode("\n\n1") == [tokenizer.convert_tokens_to_ids(token) for token in ("ĊĊ", "1")]
    assert tokenizer.encode("<|im_end|>") == [2]


def test_the_second_time_nothing_is_converted(tiny: Path, cache: Path) -> None:
    said: list[str] = []
    first = resolve(tiny, progress=said.append)
    before = {path: path.stat().st_mtime_ns for path in first.path.iterdir()}
    assert len(said) == 1
    assert "Converting tiny.gguf" in said[0]
    assert resolve(str(tiny), progress=said.append).path == first.path
    assert len(said) == 1
    assert before == {path: path.stat().st_mtime_ns for path in first.path.iterdir()}
    assert first.sha256 == conversion.digest_file(tiny)
    assert entries(cache) == {first.path.name}
    assert [(entry.name, entry.kind, entry.ready) for entry in list_models()[1:]] == [("tiny.gguf", "gguf", True)]


def truncate(directory: Path) -> None:
    os.truncate(directory / "model.safetensors", 1000)


def flip(directory: Path) -> None:
    path = directory / "model.safetensors"
    stat = path.stat()
    with path.open("r+b") as file:
        file.seek(-5, os.SEEK_END)
        byte = file.read(1)[0]
        file.seek(-5, os.SEEK_END)
        file.write(bytes([byte ^ 1]))
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def change_format(directory: Path) -> None:
    manifest = json.loads((directory / "manifest.json").read_text())
    (directory / "manifest.json").write_text(json.dumps({**manifest, "format": 0}))


DAMAGE = {
    "weights cut short": truncate,
    "one bit changed, size and time as before": flip,
    "tokenizer missing": lambda directory: (directory / "tokenizer.json").unlink(),
    "manifest missing": lambda directory: (directory / "manifest.json").unlink(),
    "manifest cut short": lambda directory: os.truncate(directory / "manifest.json", 40),
    "manifest is a list": lambda directory: (directory / "manifest.json").write_text("[1]"),
    "written by another version": change_format,
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_conversion_is_made_again(tiny: Path, cache: Path, damage) -> None:  # type: ignore[no-untyped-def]
    directory = resolve(tiny).path
    whole = {path.name: path.read_bytes() for path in directory.iterdir()}
    damage(directory)
    said: list[str] = []
    assert resolve(tiny, progress=said.append).path == directory
    assert "damaged or out of date" in said[0]
    assert {path.name: path.read_bytes() for path in directory.iterdir()} == whole
    assert entries(cache) == {directory.name}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"architecture": "zebra"}, "zebra"),
        ({"split": "weird"}, "splits text into words by 'weird'"),
        ({"split": None}, "splits text into words by None"),
        ({"metadata": {"llama.rope.scaling.type": "linear"}}, r"rotary positions are scaled \(linear\)"),
        ({"metadata": {"llama.rope.scaling.factor": 8.0}}, r"rotary positions are scaled \(linear\)"),
        ({"metadata": {"llama.attention.sliding_window": 64}}, "sliding window of 64 tokens"),
        ({"metadata": {"split.count": 4}}, "one of 4 parts"),
        ({"extra": {"rope_freqs.weight": np.ones(8, np.float32)}}, "cannot be converted exactly"),
        ({"without": "blk.1.ffn_up.weight"}, "1 of its tensors are not in the file"),
        ({"metadata": {"llama.expert_count": 8}, "architecture": "mamba"}, "mamba"),
    ],
)
def test_what_would_not_be_exact_is_refused(tmp_path: Path, cache: Path, change: dict[str, object], says: str) -> None:
    path = write_gguf(tmp_path / "odd.gguf", **change)  # type: ignore[arg-type]
    with pytest.raises(ModelError, match=says):
        resolve(path)
    assert not cache.exists() or not entries(cache)


@pytest.mark.parametrize("keep", [0, 3, 4, 20, 100, 2000, -100_000, -1])
def test_a_file_cut_short_is_refused(tiny: Path, cache: Path, keep: int) -> None:
    os.truncate(tiny, keep if keep >= 0 else tiny.stat().st_size + keep)
    with pytest.raises(ModelError, match="cut short" if keep not in (0, 3) else "not a GGUF file"):
        resolve(tiny)
    assert not cache.exists()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"PK\x03\x04 something else", r"begins with b'PK.*\.gguf file, a directory"),
        (b"GGUF\x01\x00\x00\x00" + bytes(100), "version 1"),
        (b"GGUF\x00\x00\x00\x03" + bytes(100), "version 50331648"),
        (b"GGUF\x03\x00\x00\x00" + b"\xff" * 100, "cut short or damaged"),
        (b"GGUF\x03\x00\x00\x00" + bytes(100), "cannot be converted"),
    ],
)
def test_a_file_that_is_not_what_it_seems_is_refused(tmp_path: Path, content: bytes, says: str) -> None:
    (tmp_path / "odd.gguf").write_bytes(content)
    with pytest.raises(ModelError, match=says):
        resolve(tmp_path / "odd.gguf")


def test_end_of_turn_ends_an_answer_too(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "tiny.gguf", metadata={"tokenizer.ggml.eot_token_id": 0})
    assert load_model(resolve(path), torch.float32)[0].generation_config.eos_token_id == [0, 2]


def test_too_little_space_is_said_before_anything_is_written(
    tiny: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = type("Usage", (), {"free": 1234})
    monkeypatch.setattr(disk.shutil, "disk_usage", lambda path: usage)
    needed = 6 * sum(values.size for values in gguf_tensors(build_model()).values()) + conversion.SLACK_BYTES
    with pytest.raises(StorageError, match=f"needs {needed} bytes in {cache} and 1234 are free.*FEWER_CACHE"):
        resolve(tiny)
    assert not entries(cache)


def test_a_disk_that_fills_up_leaves_nothing(tiny: Path, cache: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, limits[1]))
    try:
        with pytest.raises(StorageError, match=r"needs \d+ bytes in .* and \d+ are free"):
            resolve(tiny)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not entries(cache)
    assert resolve(tiny).path.is_dir()


def test_a_cache_that_cannot_be_made_is_named(tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("FEWER_CACHE", str(tmp_path / "file"))
    with pytest.raises(StorageError, match=r"cannot be written to .*file.models \(.*\)\. .*FEWER_CACHE"):
        resolve(tiny)


def test_ctrl_c_leaves_nothing(tiny: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = conversion._write

    def interrupt(*args) -> None:  # type: ignore[no-untyped-def]
        write(*args)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(conversion, "_write", interrupt)
        with pytest.raises(KeyboardInterrupt):
            resolve(tiny)
    assert not entries(cache)
    assert resolve(tiny).path.is_dir()


def test_killed_while_others_wait(tiny: Path, cache: Path) -> None:
    """The first process dies after writing and before renaming; of the two waiting for it, one converts."""
    said: list[str] = []
    with (
        subprocess.Popen([sys.executable, "-c", SCRIPT, str(tiny)], stdout=subprocess.PIPE, text=True) as first,
        ThreadPoolExecutor(2) as pool,
    ):
        assert first.stdout
        assert first.stdout.readline() == "written\n"
        others = [pool.submit(resolve, tiny, progress=said.append) for _ in range(2)]
        while len(said) < 2:
            time.sleep(0.01)
        assert all("waiting" in line for line in said)
        assert all(name.startswith(".") for name in entries(cache))
        first.kill()
        (path,) = {other.result().path for other in others}
    assert sum("Converting" in line for line in said) == 1
    assert entries(cache) == {path.name}
    assert conversion.find_conversion(conversion.digest_file(tiny)) == path
