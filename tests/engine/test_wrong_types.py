"""What is not even of the right type is named, like any other bad input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tinytext import make_engine

from fewer import Answer, BadInput, Chunk, Engine, Prompt, Request, Sampling

TOKENS, MASK = torch.arange(3, 9), torch.ones(6, dtype=torch.bool)


@pytest.fixture(scope="module")
def engine(device: torch.device) -> Engine:
    return make_engine(device)


@pytest.fixture(scope="module")
def answer(engine: Engine) -> Answer:
    return engine.generate([Request(Prompt(TOKENS, MASK), Sampling(max_tokens=2))])[0]


@pytest.mark.parametrize("requests", [None, 5, Prompt(TOKENS, MASK)], ids=["none", "number", "prompt"])
def test_generate_wants_several(engine: Engine, requests: Any) -> None:
    with pytest.raises(BadInput, match=r"requests is .*several requests or prompts"):
        engine.generate(requests)


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: Prompt([3, 4], MASK), "ids"),
        (lambda: Prompt(TOKENS, [True]), "protected"),
        (lambda: Prompt(TOKENS.to("meta"), MASK), "ids"),
        (lambda: Prompt(TOKENS.to_sparse(), MASK), "ids"),
        (lambda: Prompt(TOKENS, MASK, ((0, 2),)), "chunks"),
        (lambda: Prompt(TOKENS, MASK, (), (0, 1, 2)), "query"),
        (lambda: Prompt(TOKENS, MASK, truncated=-1), "truncated"),
        (lambda: Request(Prompt(TOKENS, MASK), layout_s=-1.0), "layout_s"),
        (lambda: Prompt(TOKENS, torch.zeros(6, dtype=torch.bool) | MASK, (Chunk("", 4, 2),)), "chunk"),
    ],
)
def test_prompts_and_requests(make: Callable[[], Any], named: str) -> None:
    with pytest.raises(BadInput, match=named):
        make()


def test_prompts_are_equal_only_to_themselves() -> None:
    one = Prompt(TOKENS, MASK)
    assert one == one
    assert one != Prompt(TOKENS, MASK)


@pytest.mark.parametrize("other", [None, 5, {}], ids=str)
def test_a_receipt_is_compared_with_a_receipt(answer: Answer, other: Any) -> None:
    with pytest.raises(BadInput, match="a Receipt"):
        answer.receipt.compare(other)


@pytest.mark.parametrize("path", [None, 5, b"page.html"], ids=str)
def test_a_file_has_a_name(answer: Answer, path: Any) -> None:
    with pytest.raises(BadInput, match="path is"):
        answer.receipt.save_json(path)
