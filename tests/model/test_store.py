from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from checkpoints import build_model, build_tokenizer, save_directory
from transformers import T5Config
from transformers.utils import logging as transformers_logging

from fewer.errors import BadInput, ModelError
from fewer.model.store import Source, load_model, resolve

pytestmark = pytest.mark.usefixtures("cache")


@pytest.fixture(scope="session")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_directory(tmp_path_factory.mktemp("saved"))


@pytest.fixture
def directory(saved: Path, tmp_path: Path) -> Path:
    """A whole model directory that the test may damage."""
    return Path(shutil.copytree(saved, tmp_path / "model"))


def pickle_weights(directory: Path, name: str = "pytorch_model.bin") -> None:
    torch.save(build_model().state_dict(), directory / name)
    (directory / "model.safetensors").unlink()


def edit_config(directory: Path, **changes: object) -> None:
    path = directory / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_directory_loads_ready_to_run(directory: Path, dtype: torch.dtype) -> None:
    source = resolve(directory)
    assert source == Source(str(directory), "directory", directory)
    model, tokenizer = load_model(source, dtype)
    for name, weight in build_model().state_dict().items():
        assert torch.equal(model.state_dict()[name], weight.to(dtype)), name
    assert not model.training
    assert not any(parameter.requires_grad for parameter in model.parameters())
    assert {parameter.device.type for parameter in model.parameters()} == {"cpu"}
    assert tokenizer.encode("a\n") == build_tokenizer().encode("a\n")


def test_shards_load_as_one(tmp_path: Path) -> None:
    path = save_directory(tmp_path / "sharded", max_shard_size="100KB")
    assert len(list(path.glob("*.safetensors"))) > 1
    loaded = load_model(resolve(str(path)), torch.float32)[0].state_dict()
    assert all(torch.equal(loaded[name], weight) for name, weight in build_model().state_dict().items())
    next(path.glob("model-00002*")).unlink()
    with pytest.raises(ModelError, match=r"lacks 1 of its \d weight files: model-00002"):
        resolve(path)


def test_pickles_load_only_when_allowed(directory: Path) -> None:
    pickle_weights(directory)
    for attempt in (lambda: resolve(directory), lambda: load_model(Source("x", "directory", directory), torch.float32)):
        with pytest.raises(ModelError, match=r"pickle files \(pytorch_model\.bin\).*allow_pickle=True"):
            attempt()
    model, _ = load_model(resolve(directory, allow_pickle=True), torch.float32, allow_pickle=True)
    assert torch.equal(model.lm_head.weight, build_model().lm_head.weight)


def test_an_allowed_pickle_still_runs_no_code(directory: Path, tmp_path: Path) -> None:
    class Bomb:
        def __reduce__(self) -> tuple[object, ...]:
            return Path.touch, (tmp_path / "exploded",)

    torch.save({"lm_head.weight": Bomb()}, directory / "pytorch_model.bin")
    (directory / "model.safetensors").unlink()
    with pytest.raises(ModelError, match="cannot be loaded"):
        load_model(resolve(directory, allow_pickle=True), torch.float32, allow_pickle=True)
    assert not (tmp_path / "exploded").exists()


def rename(old: str, new: str) -> Callable[[Path], object]:
    return lambda directory: (directory / old).rename(directory / new)


def write(name: str, text: str) -> Callable[[Path], object]:
    return lambda directory: (directory / name).write_text(text)


def empty(directory: Path) -> None:
    shutil.rmtree(directory)
    directory.mkdir()


def hold_only_gguf(directory: Path) -> None:
    empty(directory)
    (directory / "model-q4.gguf").touch()


BROKEN: dict[str, tuple[Callable[[Path], object], str]] = {
    "empty": (empty, "is empty. A model directory holds config.json"),
    "gguf only": (hold_only_gguf, r"no config\.json. Pass the GGUF file itself: .*model-q4\.gguf"),
    "no config": (rename("config.json", "conf.json"), r"has no config\.json\. A model directory holds"),
    "config cut short": (
        lambda path: os.truncate(path / "config.json", 50),
        r"config\.json is not valid JSON \(.*line",
    ),
    "config is binary": (lambda path: (path / "config.json").write_bytes(b"\xff\xfe\x00"), "is not valid JSON"),
    "config is a list": (write("config.json", "[]"), "holds a list, not a JSON object"),
    "config without type": (write("config.json", "{}"), "names no model_type"),
    "config is a directory": (
        lambda path: ((path / "config.json").unlink(), (path / "config.json").mkdir()),
        "cannot be read",
    ),
    "quantized": (
        lambda path: edit_config(path, quantization_config={"quant_method": "awq"}),
        "weights quantized by 'awq'",
    ),
    "own code": (
        lambda path: edit_config(path, model_type="own", auto_map={"AutoConfig": "own.Config"}),
        "is a 'own' model with its own code, which is never run",
    ),
    "no weights": (
        lambda path: (path / "model.safetensors").unlink(),
        r"no weights named model\.safetensors \(or their index\)\. A model",
    ),
    "weights by another name": (
        rename("model.safetensors", "consolidated.safetensors"),
        "but there is consolidated.safetensors",
    ),
    "weights cut short": (lambda path: os.truncate(path / "model.safetensors", 5000), "is cut short or is not"),
    "weights by one byte": (
        lambda path: os.truncate(path / "model.safetensors", (path / "model.safetensors").stat().st_size - 1),
        "is cut short or is not",
    ),
    "weights empty": (write("model.safetensors", ""), "is cut short or is not"),
    "weights are text": (write("model.safetensors", "version https://git-lfs.github.com/spec/v1"), "or is not"),
    "pickle by another name": (lambda path: pickle_weights(path, "weights.pth"), r"pickle files \(weights\.pth\)"),
    "no tokenizer": (lambda path: (path / "tokenizer.json").unlink(), r"has no tokenizer \(tokenizer\.json"),
    "index without files": (
        lambda path: ((path / "model.safetensors").unlink(), write("model.safetensors.index.json", "{}")(path)),
        "has no weight_map",
    ),
}


@pytest.mark.parametrize(("damage", "says"), BROKEN.values(), ids=BROKEN)
def test_a_broken_directory_is_refused(directory: Path, damage: Callable[[Path], object], says: str) -> None:
    damage(directory)
    with pytest.raises(ModelError, match=says):
        resolve(directory)


def test_a_pickle_by_another_name_is_not_read(directory: Path) -> None:
    pickle_weights(directory, "weights.pth")
    with pytest.raises(ModelError, match=r"no weights named model\.safetensors or pytorch_model\.bin.*weights\.pth"):
        resolve(directory, allow_pickle=True)


def drop_a_layer(directory: Path) -> None:
    edit_config(directory, num_hidden_layers=3)


UNLOADABLE: dict[str, tuple[Callable[[Path], object], str]] = {
    "weights of another size": (lambda path: edit_config(path, hidden_size=128), "cannot be loaded: "),
    "fewer layers than promised": (drop_a_layer, r"no weights for 9 tensors \(model\.layers\.2\."),
    "unknown family": (lambda path: edit_config(path, model_type="zebra"), "zebra"),
    "encoder-decoder": (lambda path: T5Config().save_pretrained(path), "it is an encoder-decoder"),
    "senseless config": (lambda path: edit_config(path, num_attention_heads="many"), "cannot be loaded: "),
    "broken tokenizer": (write("tokenizer.json", '{"model": 3}'), "cannot be loaded: "),
}


@pytest.mark.parametrize(("damage", "says"), UNLOADABLE.values(), ids=UNLOADABLE)
def test_what_transformers_cannot_read_is_one_sentence(
    directory: Path, damage: Callable[[Path], object], says: str
) -> None:
    damage(directory)
    with pytest.raises(ModelError, match=says) as caught:
        load_model(resolve(directory), torch.float32)
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize("name", ["", "  ", 3, b"x", "a\0b", "~nobody-here/model", "x" * 5000])
def test_what_is_no_name_is_bad_input(name: object) -> None:
    with pytest.raises(BadInput, match="it must be a hub name such as org/name, or the path"):
        resolve(name)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "name", ["./absent", "/absent/model", "~/absent-model", "a/b/c", "absent.gguf", Path("absent")]
)
def test_a_path_that_is_not_there_is_not_looked_for_on_the_hub(name: str | Path) -> None:
    with pytest.raises(ModelError, match=r"does not exist\. Pass a hub name"):
        resolve(name)


def test_a_pipe_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ModelError, match="neither a directory nor a regular file"):
        resolve(tmp_path / "pipe")


def test_nothing_is_said_and_every_setting_comes_back(directory: Path) -> None:
    edit_config(directory, num_hidden_layers=1)  # transformers would report the weights left over
    transformers_logging.enable_progress_bar()
    before = transformers_logging.get_verbosity(), list(warnings.filters)
    with contextlib.redirect_stderr(io.StringIO()) as said, contextlib.redirect_stdout(said):
        load_model(resolve(directory), torch.float32)
    assert said.getvalue() == ""
    assert (transformers_logging.get_verbosity(), list(warnings.filters)) == before
    assert transformers_logging.is_progress_bar_enabled()
    assert logging.getLogger("transformers").level == before[0]
