"""Tokenizers trained on a few sentences in the test session, one for each way a text becomes tokens, with templates."""

from __future__ import annotations

import json
import math
from collections import Counter
from functools import cache

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

CORPUS = [
    "Answer the question using the documents below. Read these documents. Answer from the documents: Question:",
    "The lamp room of the lighthouse is reached by seven flights of stairs, and the harbour lies 3 kilometres away.",
    "How tall is the tower? It is 41 metres tall.\n\nWho keeps the light?\nNobody does.\n\n\nuser\nassistant",
    "Être là, où les élèves étudient. 灯台の光 😀 naïve façade.",
] * 3
SPECIAL = ["<unk>", "<s>", "</s>", "<|im_start|>", "<|im_end|>"]
PIECES = decoders.Sequence(
    [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
)
CHATML = (
    "{% for m in messages %}{% if loop.first and m['role'] != 'system' %}"
    "{{ '<|im_start|>system\nBe kind.<|im_end|>\n' }}{% endif %}"
    "{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
INST = (  # Llama 2's and Mistral's way; no system role
    "{{ bos_token }}{% for m in messages %}{% if m['role'] == 'system' %}{{ raise_exception('No system role') }}"
    "{% endif %}{{ '[INST] ' + m['content'].strip() + ' [/INST]' }}{% endfor %}"
)
TURNS = (  # Phi-3's way; the marks eat the spaces behind them
    "{{ bos_token }}{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def _dress(
    core: Tokenizer, template: str | None, greedy_marks: bool = False, **settings: object
) -> PreTrainedTokenizerFast:
    """A transformers tokenizer around a trained one, with a begin-of-text token before plain texts."""
    marks = [AddedToken(mark, special=True, normalized=False, rstrip=greedy_marks) for mark in SPECIAL[3:]]
    core.add_special_tokens(marks)
    core.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A $B", special_tokens=[("<s>", core.token_to_id("<s>"))]
    )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core, bos_token="<s>", eos_token="</s>", unk_token="<unk>", **settings
    )
    tokenizer.chat_template = template
    return tokenizer


@cache
def _train_bytes() -> str:
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(
        vocab_size=450, special_tokens=SPECIAL, initial_alphabet=alphabet, show_progress=False
    )
    core.train_from_iterator(CORPUS, trainer)
    return str(core.to_str())


def byte_level(template: str | None = CHATML) -> PreTrainedTokenizerFast:
    """GPT-2's way."""
    return _dress(Tokenizer.from_str(_train_bytes()), template)


def digits_apart(template: str | None = CHATML) -> PreTrainedTokenizerFast:
    """SmolLM2's way: every digit on its own first, so blank lines before digits are split differently."""
    core = Tokenizer.from_str(_train_bytes())
    core.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    return _dress(core, template)


def byte_level_with_space(template: str | None = CHATML) -> PreTrainedTokenizerFast:
    """RoBERTa's way: a space is put before the first word."""
    core = Tokenizer.from_str(_train_bytes())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    return _dress(core, template)


@cache
def _train_pieces() -> str:
    bytes_ = [f"<0x{byte:02X}>" for byte in range(256)]
    core = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    core.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    core.decoder = PIECES
    trainer = trainers.BpeTrainer(vocab_size=700, special_tokens=[*SPECIAL, *bytes_], show_progress=False)
    core.train_from_iterator([line for text in CORPUS for line in text.splitlines()], trainer)
    state = json.loads(core.to_str())  # the trainer takes the bytes only as special tokens, which they are not
    state["added_tokens"] = [token for token in state["added_tokens"] if token["content"] in SPECIAL]
    return json.dumps(state)


def metaspace(template: str | None = INST) -> PreTrainedTokenizerFast:
    """Mistral's way: `▁` for spaces, one put before the first word, bytes for unknown characters."""
    return _dress(Tokenizer.from_str(_train_pieces()), template)


def legacy(template: str | None = TURNS) -> PreTrainedTokenizerFast:
    """Llama 2's and Phi-3's way: a normalizer puts the space, also behind every control token."""
    core = Tokenizer.from_str(_train_pieces())
    core.pre_tokenizer = None
    core.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    return _dress(core, template, greedy_marks=True)


def unigram(template: str | None = CHATML) -> PreTrainedTokenizerFast:
    """T5's way: the most probable pieces, a space before every text. Made by hand: its trainer is not repeatable."""
    words = Counter("▁" + word for text in CORPUS for word in text.split())
    letters = sorted({"▁", "\n", *(chr(code) for code in range(33, 127))} - words.keys())
    pieces = [(mark, 0.0) for mark in SPECIAL] + [(word, math.log(words[word] / 1000)) for word in sorted(words)]
    core = Tokenizer(models.Unigram([*pieces, *((letter, -9.0) for letter in letters)], unk_id=0))
    core.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    core.decoder = PIECES
    core.add_special_tokens(SPECIAL[:3])
    return _dress(core, template)


BYTE_LEVEL = [byte_level, digits_apart, byte_level_with_space]
ALL = [*BYTE_LEVEL, metaspace, legacy, unigram]
