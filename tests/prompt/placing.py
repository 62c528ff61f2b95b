"""Laying prompts out in tests: the documents and the question they use, and what holds for every prompt."""

from __future__ import annotations

from collections.abc import Callable

import torch
from transformers import PreTrainedTokenizerFast

from fewer.prompt import lay_out, template
from fewer.types import Document, Prompt

Make = Callable[..., PreTrainedTokenizerFast]
QUESTION = "How tall is the tower?"
DOCUMENTS = [
    Document("The lamp room is red. It is 41 metres tall.", source="a/lamp.txt"),
    Document("Seven flights of stairs lie here.\n\nWho keeps the light?", "Stairs"),
    Document("3 kilometres away."),
]
TEXTS = [DOCUMENTS[0].text, f"Stairs\n{DOCUMENTS[1].text}", DOCUMENTS[2].text]
USER_TURN = template.INSTRUCTION + "\n\n".join(TEXTS) + template.BEFORE_QUESTION + QUESTION


def place(tokenizer: PreTrainedTokenizerFast, *args: object, **options: object) -> Prompt:
    return lay_out(tokenizer, *args, **{"max_positions": 4096, **options})


def read(tokenizer: PreTrainedTokenizerFast, prompt: Prompt, start: int = 0, stop: int | None = None) -> str:
    return tokenizer.decode(prompt.ids[start:stop].tolist(), clean_up_tokenization_spaces=False)


def check(prompt: Prompt, sinks: int = 4) -> None:
    """What holds for every prompt: types, order, and that exactly the chunks are not protected."""
    assert (prompt.ids.dtype, prompt.protected.dtype) == (torch.int64, torch.bool)
    assert prompt.ids.device.type == "cpu"
    assert prompt.ids.shape == prompt.protected.shape == (len(prompt),)
    inside = torch.zeros(len(prompt), dtype=torch.bool)
    stop = 0
    for chunk in prompt.chunks:
        assert stop <= chunk.start < chunk.stop <= len(prompt)
        inside[chunk.start : chunk.stop] = True
        stop = chunk.stop
    assert torch.equal(prompt.protected, ~inside)
    assert prompt.protected[:sinks].all()
    assert prompt.protected[slice(*prompt.query)].all()
    assert stop <= prompt.query[0] < prompt.query[1] <= len(prompt)
