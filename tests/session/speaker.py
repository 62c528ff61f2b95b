"""Engines over tiny random models that speak bytes, for sessions; and what a fresh prefill says to the same tokens."""

from __future__ import annotations

import copy
import os
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from fewer import Answer, Engine, Policy, Prompt, Request, Sampling
from fewer.engine.record import Setting
from fewer.evict import make_policy
from fewer.kv import LayerKV
from fewer.model.adapter import Adapter
from fewer.model.store import Source
from fewer.session import Session
from tiny import TINY, Tiny

END = "<|end|>"
CHAT = (
    "{% for turn in messages %}<|turn|>{{ turn['role'] }}\n{{ turn['content'] }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|turn|>assistant\n{% endif %}"
)
NUM_LAYERS, KV_HEADS = 4, 2
DEVICE = torch.device(os.environ.get("FEWER_TEST_DEVICE", "cpu"))  # as in the folder above


def byte_tokenizer(template: str | None = CHAT) -> PreTrainedTokenizerFast:
    """One token for each byte, so that texts joined are ids joined; two control tokens."""
    core = Tokenizer(
        models.BPE({letter: at for at, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}, [])
    )
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, eos_token=END, additional_special_tokens=["<|turn|>"])
    tokenizer.chat_template = template
    return tokenizer


TOKENIZER = byte_tokenizer()
VOCAB = len(TOKENIZER)


def make_engine(
    name: str = "llama-r2", positions: int = 512, seed: int = 0, dtype: torch.dtype = torch.float32
) -> Engine:
    """An engine over a family's tiny model. `seed` other than 0: other weights of the same shapes."""
    base = TINY[name]
    settings = {**base.settings, "vocab_size": VOCAB, "max_position_embeddings": positions}
    model = copy.deepcopy(Tiny(name, base.family, base.windows, settings, base.tail).on(DEVICE).model)
    if seed:
        with torch.no_grad():
            for weight in model.parameters():
                weight.mul_(1.0 + 0.01 * seed)
    return Engine(
        Adapter(model.to(dtype), name=name), TOKENIZER, Setting(Source(name, "directory", Path(name)), "asked for", 0.1)
    )


def random_ids(seed: int, size: int) -> list[int]:
    """Token ids without control tokens."""
    return torch.randint(0, 256, (size,), generator=torch.Generator().manual_seed(seed)).tolist()


def policy(name: str = "systematic:snapkv", budget: int | str = 20, **settings: object) -> Policy:
    """A small policy."""
    made = make_policy(name, budget, **{"sinks": 2, "recent": 4, **settings})
    assert made is not None
    return made


def answer_afresh(engine: Engine, ids: tuple[int, ...] | list[int], **sampling: object) -> Answer:
    """What a full prefill of all these tokens answers."""
    return engine.generate([Request(Prompt.from_ids(list(ids)), Sampling(**sampling))])[0]


def ask_and_compare(session: Session, question: list[int] | str, tolerance: float, keep: bool = True) -> Answer:
    """Ask, and hold the answer against a fresh prefill: the same tokens, log-probabilities within the tolerance."""
    before = session.ids
    sampling = {"max_tokens": 5, "logprobs": 2, "ignore_eos": True}
    answer = session.ask(question, keep=keep, **sampling)
    size = len(answer.receipt.prompt.chunks) and answer.receipt.prompt.chunks[0].num_tokens
    assert size <= len(before) <= size + 1
    if keep:
        assert session.ids[: len(before)] == before
        assert session.ids[len(session.ids) - 5 :] == answer.ids
        asked = session.ids[: len(session.ids) - 5]
    else:
        assert session.ids == before
        assert not isinstance(question, str)
        asked = (*before, *question)
    fresh = answer_afresh(session.engine, asked, **sampling)
    assert answer.ids == fresh.ids
    assert answer.text == fresh.text
    for mine, theirs in zip(answer.logprobs, fresh.logprobs, strict=True):
        assert mine.logprob == pytest.approx(theirs.logprob, abs=tolerance)
        assert [value for _, value in mine.top] == pytest.approx([value for _, value in theirs.top], abs=tolerance)
    return answer


def kept(session: Session) -> list[list[list[int]]]:
    """The positions in the cache, by layer and head, without padding."""
    return [
        [row[held].tolist() for row, held in zip(kv.pos.expand(KV_HEADS, -1), _held(kv), strict=True)]
        for kv in session._state.layers
    ]


def same_bits(one: Session, other: Session) -> bool:
    """Whether two sessions' caches are the same, to the bit and with their weights and probabilities."""
    pairs = zip(one._state.layers, other._state.layers, strict=True)
    return all(
        _equal(getattr(mine, name), getattr(theirs, name))
        for mine, theirs in pairs
        for name in ("k", "v", "pos", "log_w", "pi", "gathered")
    )


def _held(kv: LayerKV) -> torch.Tensor:
    pos = kv.pos.expand(KV_HEADS, -1)
    return torch.ones_like(pos, dtype=torch.bool) if kv.log_w is None else ~torch.isneginf(kv.log_w).expand_as(pos)


def _equal(one: torch.Tensor | None, other: torch.Tensor | None) -> bool:
    return one is other if one is None or other is None else torch.equal(one, other)
