"""The tokenizer of a GGUF file, split into words the way its vocabulary was learned.

transformers rebuilds the vocabulary and the merges, but knows only some of llama.cpp's word splits
(`tokenizer.ggml.pre`) and silently uses GPT-2's for the others. That changes token ids: the split of SmolLM2 takes
every digit by itself first, so that "\\n\\n1" is two newlines in one token, and GPT-2's makes them two tokens.
"""

from __future__ import annotations

from pathlib import Path

from tokenizers import pre_tokenizers
from transformers import AutoTokenizer, PreTrainedTokenizerBase
from transformers.integrations.gguf.gguf_tokenizer_mapping import GGUF_PRE_TOKENIZER_SPLITS

from fewer.errors import ModelError
from fewer.model.gguf_header import GgufHeader

__all__ = ["read_tokenizer"]

# Byte-level vocabularies by llama.cpp's name of their word split. Others are either in GGUF_PRE_TOKENIZER_SPLITS,
# which transformers applies itself, or refused.
DIGITS_APART = frozenset({"codeshell", "command-r", "exaone", "minerva-7b", "refact", "smollm", "starcoder"})
LIKE_GPT2 = frozenset({"gpt-2", "granite-docling", "jais", "mpt", "olmo", "trillion"})


def read_tokenizer(gguf: Path, header: GgufHeader) -> PreTrainedTokenizerBase:
    """The file's tokenizer with its special tokens and chat template; ModelError for a word split nobody here knows."""
    split = header.metadata.get("tokenizer.ggml.pre")
    byte_level = header.metadata.get("tokenizer.ggml.model") == "gpt2"
    if byte_level and split not in DIGITS_APART | LIKE_GPT2 | GGUF_PRE_TOKENIZER_SPLITS.keys():
        raise ModelError(
            f"{gguf} splits text into words by {split!r}, which cannot be rebuilt here, so its token ids would be "
            "wrong. Pass a directory with the model's safetensors weights and its tokenizer.json instead."
        )
    tokenizer = AutoTokenizer.from_pretrained(str(gguf.parent), gguf_file=gguf.name, local_files_only=True)
    if byte_level and split in DIGITS_APART:
        tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Digits(individual_digits=True),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
            ]
        )
    return tokenizer
