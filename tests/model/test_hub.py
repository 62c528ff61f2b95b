from __future__ import annotations

import shutil
import socket
import time
from pathlib import Path

import pytest
import torch
from checkpoints import build_model, save_directory
from hub_server import COMMIT, serve
from huggingface_hub import constants

from fewer.errors import BadInput, ModelError, StorageError
from fewer.model import disk, embedded, hub
from fewer.model.store import list_models, load_model, resolve

NAME = "org/tiny"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty hub cache, and a hub whose port is closed."""
    monkeypatch.setenv("FEWER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        point_to(monkeypatch, f"http://127.0.0.1:{free.getsockname()[1]}")
    return tmp_path / "hub"


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """What the repository holds: a model, and what is not needed to run it."""
    path = save_directory(tmp_path / "repository")
    for extra in ("README.md", "consolidated.safetensors", "pytorch_model.bin", "onnx/model.onnx", "onnx/config.json"):
        (path / extra).parent.mkdir(exist_ok=True)
        (path / extra).write_bytes(b"not wanted")
    return path


def point_to(monkeypatch: pytest.MonkeyPatch, endpoint: str) -> None:
    monkeypatch.setattr(constants, "ENDPOINT", endpoint)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", endpoint + "/{repo_id}/resolve/{revision}/{filename}")


def put_in_cache(cache: Path, files: Path) -> Path:
    """What an earlier download by any tool leaves behind."""
    snapshot = cache / "models--org--tiny" / "snapshots" / COMMIT
    shutil.copytree(files, snapshot)
    (cache / "models--org--tiny" / "refs").mkdir()
    (cache / "models--org--tiny" / "refs" / "main").write_text(COMMIT)
    return snapshot


def test_downloads_what_is_needed_and_then_needs_no_network(
    files: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    with monkeypatch.context() as patch, serve(NAME, files) as (address, asked):
        point_to(patch, address)
        source = resolve(NAME, progress=said.append)
        fetched = {path.rpartition("/")[2] for path in asked if "/resolve/" in path}
    assert fetched == {
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
        "chat_template.jinja",
    }
    assert len(said) == 1
    assert said[0].startswith(f"Downloading {NAME} (")
    assert (source.name, source.kind) == (NAME, "hub")
    assert len(source.sha256 or "") == 64
    assert resolve(NAME, progress=said.append) == source
    assert len(said) == 1
    assert torch.equal(load_model(source, torch.float32)[0].lm_head.weight, build_model().lm_head.weight)
    assert [(entry.name, entry.path) for entry in list_models() if entry.kind == "hub"] == [(NAME, source.path)]


def test_a_cached_model_needs_no_network(files: Path, cache: Path) -> None:
    snapshot = put_in_cache(cache, files)
    assert resolve(NAME).path == snapshot


def test_unreachable_says_so_quickly_and_names_the_way_out(monkeypatch: pytest.MonkeyPatch, files: Path) -> None:
    start = time.monotonic()
    with pytest.raises(ModelError, match=r"cannot be reached \(ConnectError.*local directory.*--local-dir"):
        resolve(NAME)
    assert time.monotonic() - start < 5
    monkeypatch.setattr(hub, "TIMEOUT_S", 0.3)
    with serve(NAME, files, "silent") as (address, _), monkeypatch.context() as patch:
        point_to(patch, address)
        start = time.monotonic()
        with pytest.raises(ModelError, match=r"cannot be reached \(ReadTimeout"):
            resolve(NAME)
        assert time.monotonic() - start < 2.5


@pytest.mark.parametrize(
    ("mode", "name", "says"),
    [
        ("broken", NAME, r"cannot be reached \(HfHubHTTPError"),
        ("gated", NAME, "accepted its terms"),
        ("open", "org/absent", "neither a local path nor a public model.*Check the spelling"),
    ],
)
def test_what_the_hub_refuses(
    monkeypatch: pytest.MonkeyPatch, files: Path, cache: Path, mode: str, name: str, says: str
) -> None:
    with serve(NAME, files, mode) as (address, _):
        point_to(monkeypatch, address)
        with pytest.raises(ModelError, match=says):
            resolve(name)
    assert not list(cache.rglob("*.safetensors"))


@pytest.mark.parametrize(
    ("remove", "add", "says"),
    [
        (["model.safetensors"], [], "weights in pickle files only.*allow_pickle=True"),
        (["model.safetensors", "pytorch_model.bin"], [], "has no model.safetensors"),
        (["config.json"], [], "has no config.json. Pass the name of a language model"),
        (["config.json"], ["tiny-q4.gguf"], "hf download org/tiny tiny-q4.gguf"),
    ],
)
def test_a_repository_without_what_is_needed_is_refused_before_downloading(
    monkeypatch: pytest.MonkeyPatch, files: Path, remove: list[str], add: list[str], says: str
) -> None:
    for name in remove:
        (files / name).unlink()
    for name in add:
        (files / name).touch()
    with serve(NAME, files) as (address, asked):
        point_to(monkeypatch, address)
        with pytest.raises(ModelError, match=says):
            resolve(NAME)
    assert not [path for path in asked if "/resolve/" in path]


def test_too_little_space_is_said_before_downloading(monkeypatch: pytest.MonkeyPatch, files: Path, cache: Path) -> None:
    monkeypatch.setattr(disk.shutil, "disk_usage", lambda path: type("Usage", (), {"free": 99}))
    says = rf"{NAME} needs \d+ bytes in {cache} and 99 are free.*HF_HUB_CACHE"
    with serve(NAME, files) as (address, _):
        point_to(monkeypatch, address)
        with pytest.raises(StorageError, match=says):
            resolve(NAME)


def test_a_cached_copy_that_cannot_be_used_is_mentioned(files: Path, cache: Path) -> None:
    (put_in_cache(cache, files) / "model.safetensors").unlink()
    with pytest.raises(ModelError, match=r"cannot be reached.*The cached copy cannot be used: .*pickle"):
        resolve(NAME)
    assert [entry.kind for entry in list_models()] == ["embedded"]


@pytest.mark.parametrize("name", ["two words", "org/na--me", "-org/x", "päth"])
def test_what_cannot_be_a_hub_name_is_bad_input(name: str) -> None:
    with pytest.raises(BadInput, match=r"it must be a hub name such as org/name, or the path"):
        resolve(name)


def test_without_anything_the_embedded_model_names_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "find_package", lambda: None)
    with pytest.raises(ModelError, match=r"not installed\. Run `fewer models fetch`"):
        resolve()
    first = list_models()[0]
    assert (first.ready, first.command, first.path) == (False, "fewer models fetch", None)


def test_without_the_package_the_embedded_model_comes_from_the_hub(
    monkeypatch: pytest.MonkeyPatch, files: Path
) -> None:
    monkeypatch.setattr(embedded, "find_package", lambda: None)
    with serve(embedded.HUB_NAME, files) as (address, _):
        point_to(monkeypatch, address)
        source = resolve()
    assert (source.name, source.kind) == (embedded.HUB_NAME, "hub")
