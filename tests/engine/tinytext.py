"""A tiny model that speaks bytes: random weights, a byte-level tokenizer, and an engine over the two.

Its answers are random bytes, so half characters and broken ones are the rule. Weights and tokens are the same in every
session.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers
from transformers import GenerationConfig, PreTrainedModel, PreTrainedTokenizerFast

from fewer import Engine, Prompt, Request, Sampling
from fewer.engine.record import Setting
from fewer.model.adapter import Adapter
from fewer.model.store import Source
from fewer.types import Planner
from tiny import Tiny

NUM_LAYERS = 4
END, TURN = "<|end|>", "<|turn|>"
MERGES = [
    *("h e", "l l", "he ll", "hell o", "t h", "th e", "Ġ the", "Ġ a", "o r", "Ġ w", "Ġw or", "i n", "e r", "a n"),
    *("ð Ł", "ðŁ ĺ", "ðŁĺ Ģ", "Ġ ð", "Ġð Ł", "â Ĥ", "Ċ Ċ", "! !", "Ã ©", "a Ã", "S T", "O P", "ST O"),
]  # words, whole and half emoji, a space with half an emoji, a letter with half of another one
CHAT = (
    "{% for turn in messages %}<|turn|>{{ turn['role'] }}\n{{ turn['content'] }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|turn|>assistant\n{% endif %}"
)
Change = Callable[[PreTrainedModel], None]


def byte_tokenizer() -> PreTrainedTokenizerFast:
    """Byte-level BPE: 256 bytes, the merges above, two control tokens."""
    merges = [tuple(merge.split(" ")) for merge in MERGES]
    symbols = [*sorted(pre_tokenizers.ByteLevel.alphabet()), *("".join(merge) for merge in merges)]
    core = Tokenizer(models.BPE({symbol: number for number, symbol in enumerate(symbols)}, merges))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, eos_token=END, additional_special_tokens=[TURN])
    tokenizer.chat_template = CHAT
    return tokenizer


def space_tokenizer() -> PreTrainedTokenizerFast:
    """SentencePiece's way, as in Llama 2: `▁` for a space, one put before the text, single bytes for the rest."""
    letters = [chr(code) for code in range(33, 127)] + ["é", "ß", "中", "文"]
    merges = [("▁", "a"), ("▁", "b"), ("t", "h"), ("th", "e"), ("▁", "the"), ("▁", "▁"), ("▁▁", "▁▁")]
    pieces = ["<unk>", "<s>", "</s>", "▁", *(f"<0x{byte:02X}>" for byte in range(256)), *letters]
    vocabulary = {piece: number for number, piece in enumerate([*pieces, *("".join(merge) for merge in merges)])}
    core = Tokenizer(models.BPE(vocabulary, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    core.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    core.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return PreTrainedTokenizerFast(tokenizer_object=core, bos_token="<s>", eos_token="</s>", unk_token="<unk>")


def byte_letter(byte: int) -> str:
    """The letter that byte-level tokenizers write for a byte: itself where it can be seen, else one from 256 on."""
    seen = [*range(33, 127), *range(161, 173), *range(174, 256)]
    return chr(byte) if byte in seen else chr(256 + sum(other not in seen for other in range(byte)))


TOKENIZER = byte_tokenizer()
VOCAB = len(TOKENIZER)
END_ID, TURN_ID = TOKENIZER.convert_tokens_to_ids([END, TURN])
SPEAKER = Tiny("speaker", "Llama", settings={"vocab_size": VOCAB, "max_position_embeddings": 128})


def make_engine(device: torch.device, change: Change | None = None, weights: str = "native") -> Engine:
    """An engine over a copy of the tiny model, changed before it is taken over."""
    model = copy.deepcopy(SPEAKER.on(device).model)
    if change is not None:
        with torch.no_grad():
            change(model)
    source = Source("tiny", "directory", Path("tiny"))
    return Engine(Adapter(model, weights=weights), TOKENIZER, Setting(source, "asked for", 0.25))


def random_ids(seed: int, size: int) -> list[int]:
    """Token ids of a prompt, no control tokens among them."""
    return torch.randint(0, END_ID, (size,), generator=torch.Generator().manual_seed(seed)).tolist()


def request(ids: list[int], prune: Planner | None = None, **sampling: object) -> Request:
    """A request from ids, with two sinks."""
    return Request(Prompt.from_ids(ids, sinks=2), Sampling(**{"max_tokens": 12, **sampling}), prune)


def theirs(model: PreTrainedModel, ids: list[int], max_tokens: int, end: int | None = None, **settings: object) -> list:
    """What transformers generates."""
    config = GenerationConfig(max_new_tokens=max_tokens, eos_token_id=end, pad_token_id=0, **settings)
    prompt = torch.tensor([ids], device=model.device)
    out = model.generate(prompt, attention_mask=torch.ones_like(prompt), generation_config=config)
    return out[0, len(ids) :].tolist()
