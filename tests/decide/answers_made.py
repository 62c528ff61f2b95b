"""Answers of a tiny model under several policies, and their receipts with numbers put in."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from fewer import Answer, Engine, Prompt, Receipt, Request, Sampling
from fewer.decide import Setting
from fewer.engine.record import Setting as EngineSetting
from fewer.evict import make_policy
from fewer.model.adapter import Adapter
from fewer.model.store import Source
from tiny import Tiny

NUM_LAYERS = 4


@cache
def make_engine() -> Engine:
    """It speaks bytes."""
    letters = {letter: at for at, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    core = Tokenizer(models.BPE(letters, []))
    core.pre_tokenizer, core.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, eos_token="<|end|>")
    settings = {"vocab_size": len(tokenizer), "max_position_embeddings": 256}
    model = Tiny("attributed", "Llama", settings=settings).on(torch.device("cpu")).model
    return Engine(
        Adapter(model, name="tiny"), tokenizer, EngineSetting(Source("tiny", "directory", Path("tiny")), "so", 0.1)
    )


@cache
def answer(name: str = "systematic:snapkv", budget: str = "30", **settings: object) -> Answer:
    """To 96 tokens, in 8 tokens; keywords of Sampling, and of the policy."""
    asked = {key: settings.pop(key) for key in ("max_tokens", "logprobs") if key in settings}
    tokens = torch.randint(0, 256, (96,), generator=torch.Generator().manual_seed(0)).tolist()
    small = {} if name == "none" else {"sinks": 2, "recent": 4}
    policy = make_policy(name, **({} if name == "none" else {"budget": budget}), **{**small, **settings})
    sampling = Sampling(**{"max_tokens": 8, "ignore_eos": True, **asked})
    request = Request(Prompt.from_ids(tokens), sampling, evict=policy, evidence=True)
    return make_engine().generate([request])[0]


def receipt_of(certificate: float, logprob: float | None, name: str = "systematic:snapkv") -> Receipt:
    """A sampled answer's receipt with these two numbers in place of its own."""
    plain = answer(name).receipt.model_dump(mode="json")
    steps = [certificate / 2, certificate, certificate / 4, 0.0, 0.0, 0.0, 2 * certificate]
    plain["certificate"] |= {"radius": certificate, "steps": steps, "mean": sum(steps) / 7, "largest": steps[-1]}
    plain["certificate"]["per_layer"] = [certificate * share for share in (0.4, 2.0, 0.4, 1.2)]
    plain["certificate"]["clipped_steps"] = [min(1.0, step) for step in steps]
    plain["certificate"]["clipped_per_layer"] = [min(1.0, layer) for layer in plain["certificate"]["per_layer"]]
    plain["certificate"]["clipped"] = min(1.0, certificate)
    plain["output"]["mean_logprob"] = logprob
    return Receipt.model_validate(plain)


def setting_of(receipt: Receipt) -> Setting:
    """The receipt's own, as a study would write it."""
    return Setting(receipt.model.fingerprint, {**receipt.settings.evict}, "aware")
