"""Tiny random models on disk, as a transformers directory and as a GGUF file, with a byte-level tokenizer."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from transformers.convert_slow_tokenizer import bytes_to_unicode

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
MERGES = [("Ġ", "Ġ"), ("Ċ", "Ċ")]
TOKENS = SPECIAL + list(bytes_to_unicode().values()) + ["".join(pair) for pair in MERGES]
TEMPLATE = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def build_model(seed: int = 0, **settings: object) -> LlamaForCausalLM:
    shape = {
        "vocab_size": len(TOKENS),
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "max_position_embeddings": 128,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "pad_token_id": 2,
        "tie_word_embeddings": False,
    }
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return LlamaForCausalLM(LlamaConfig(**{**shape, **settings})).eval()


def build_tokenizer() -> PreTrainedTokenizerFast:
    backend = Tokenizer(models.BPE(vocab={token: index for index, token in enumerate(TOKENS)}, merges=MERGES))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL])
    return PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<|im_end|>", chat_template=TEMPLATE)


def save_directory(path: Path, model: LlamaForCausalLM | None = None, **options: object) -> Path:
    (model or build_model()).save_pretrained(path, **options)
    build_tokenizer().save_pretrained(path)
    return path


def gguf_tensors(model: LlamaForCausalLM) -> dict[str, np.ndarray]:
    """The weights under llama.cpp's names, queries and keys in its order of rotary pairs."""
    heads = {"q_proj": model.config.num_attention_heads, "k_proj": model.config.num_key_value_heads}
    tensors = {}
    for name, weight in model.state_dict().items():
        values = weight.numpy()
        for part, count in heads.items():
            if part in name:
                values = values.reshape(count, 2, -1, values.shape[1]).swapaxes(1, 2).reshape(values.shape)
        for theirs, ours in NAMES.items():
            name = name.replace(f"{theirs}.", f"{ours}.")
        tensors[name.replace("model.layers.", "blk.")] = values
    return tensors


def write_gguf(
    path: Path,
    model: LlamaForCausalLM | None = None,
    *,
    architecture: str = "llama",
    split: str | None = "smollm",
    metadata: dict[str, object] | None = None,
    quantised: tuple[str, ...] = (),
    without: str = "",
    extra: dict[str, np.ndarray] | None = None,
) -> Path:
    """A GGUF file of the model; tensors whose names hold one of `quantised` are stored as Q8_0."""
    model = model or build_model()
    config = model.config
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_vocab_size(config.vocab_size)
    writer.add_tokenizer_model("gpt2")
    if split is not None:
        writer.add_tokenizer_pre(split)
    writer.add_token_list(TOKENS)
    writer.add_token_types([3 if token in SPECIAL else 1 for token in TOKENS])
    writer.add_token_merges([" ".join(pair) for pair in MERGES])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_add_bos_token(False)
    writer.add_chat_template(TEMPLATE)
    for key, value in (metadata or {}).items():
        getattr(writer, {str: "add_string", int: "add_uint32", float: "add_float32"}[type(value)])(key, value)
    for name, values in {**gguf_tensors(model), **(extra or {})}.items():
        if name == without:
            continue
        if any(part in name for part in quantised):
            kind = gguf.GGMLQuantizationType.Q8_0
            writer.add_tensor(name, gguf.quantize(values, kind), raw_dtype=kind)
        else:
            writer.add_tensor(name, np.ascontiguousarray(values))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
