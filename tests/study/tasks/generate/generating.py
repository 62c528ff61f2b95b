"""Tokenizers for the generators' tests, trained on the shipped novel, and small helpers.

Two ways of making tokens: bytes with a space before words (GPT-2), and `▁` for spaces with one before the first word
(Mistral). Both know hex digits in twos now and then, so that lines of UUIDs differ in length.
"""

from __future__ import annotations

import re
from functools import cache
from random import Random
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from fewer.study.item import Item, lay_out_item
from fewer.study.tasks.generate import GENERATORS, generate_task
from fewer.study.tasks.generate.haystack import load_haystack
from fewer.types import Prompt

SPECIAL = ["<unk>", "<s>", "</s>", "<|im_start|>", "<|im_end|>"]
CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
NAMES = list(GENERATORS)
COUNTED = {"ruler_cwe", "ruler_fwe"}  # their answers are everywhere
ROOM = 2**31


def _dress(core: Tokenizer) -> PreTrainedTokenizerFast:
    core.add_special_tokens([AddedToken(mark, special=True, normalized=False) for mark in SPECIAL[3:]])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, bos_token="<s>", eos_token="</s>", unk_token="<unk>")
    tokenizer.chat_template = CHATML
    return tokenizer


@cache
def _corpus() -> list[str]:
    rng = Random(0)
    numbers = [f"{rng.getrandbits(64):016x} {rng.randrange(10**7)}" for _ in range(300)]
    return [*load_haystack("essay").sentences[:700], *numbers]


@cache
def bytes_tokenizer() -> PreTrainedTokenizerFast:
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(
        vocab_size=1500, special_tokens=SPECIAL, initial_alphabet=alphabet, show_progress=False
    )
    core.train_from_iterator(_corpus(), trainer)
    return _dress(core)


@cache
def pieces_tokenizer() -> PreTrainedTokenizerFast:
    core = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True))
    core.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    core.decoder = decoders.Metaspace(prepend_scheme="first")
    letters = ["\n", *(chr(code) for code in range(32, 127))]
    trainer = trainers.BpeTrainer(
        vocab_size=1200, special_tokens=SPECIAL, initial_alphabet=letters, show_progress=False
    )
    core.train_from_iterator(_corpus(), trainer)
    return _dress(core)


@cache
def make(name: str, length: int, num_items: int = 2, seed: int = 0, **settings: Any) -> tuple[Item, ...]:
    """Items under the byte tokenizer, made once a session."""
    return generate_task(name, bytes_tokenizer(), length=length, num_items=num_items, seed=seed, **settings)


def lay_out(item: Item, tokenizer: Any = None) -> Prompt:
    return lay_out_item(tokenizer or bytes_tokenizer(), item, ROOM)


def spell(item: Item) -> list[str]:
    """Every chunk as it stands in the prompt."""
    return [f"{chunk.title}\n{chunk.text}" if chunk.title else chunk.text for chunk in item.chunks]


def holds(text: str, answer: str) -> bool:
    """Whether the answer is in the text, not within a longer word or number."""
    return re.search(rf"(?<![\w-]){re.escape(answer)}(?![\w-])", text, re.IGNORECASE) is not None
