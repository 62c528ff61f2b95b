"""The nouns: what they accept, what they refuse, and the arithmetic of budgets."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fewer import BadInput, Chunk, Document, Keep, Prompt, Sampling


@pytest.mark.parametrize(
    ("value", "tokens", "fraction", "text"),
    [
        (1, 1, None, "1 tokens"),
        (256, 256, None, "256 tokens"),
        ("256", 256, None, "256 tokens"),
        (" 7 ", 7, None, "7 tokens"),
        (1.0, None, 1.0, "100%"),
        ("1.0", None, 1.0, "100%"),
        (0.25, None, 0.25, "25%"),
        ("0.25", None, 0.25, "25%"),
        ("25%", None, 0.25, "25%"),
        (" 12.5 % ", None, 0.125, "12.5%"),
        ("100%", None, 1.0, "100%"),
        ("1e-3", None, 0.001, "0.1%"),
        (np.float64(0.5), None, 0.5, "50%"),
    ],
)
def test_budgets(value: object, tokens: int | None, fraction: float | None, text: str) -> None:
    keep = Keep.parse(value)
    assert (keep.tokens, keep.fraction) == (tokens, fraction)
    assert str(keep) == text
    assert Keep.parse(keep) is keep


@pytest.mark.parametrize(
    "value",
    [
        0,
        -1,
        1.5,
        0.0,
        -0.2,
        True,
        False,
        None,
        "",
        "abc",
        "0",
        "-3",
        "2.0",
        "0%",
        "101%",
        "-5%",
        "%",
        "nan",
        "inf",
        "1/2",
    ],
)
def test_what_is_no_budget(value: object) -> None:
    with pytest.raises(BadInput) as caught:
        Keep.parse(value)
    assert str(caught.value) == (
        f"keep is {value!r}; it must be a whole number of at least 1, or a fraction above 0 and at most 1. "
        "Write a count of tokens (256) or a fraction of the prompt (0.25 or 25%)."
    )


@pytest.mark.parametrize(
    "given_", [{}, {"tokens": 5, "fraction": 0.5}, {"tokens": 0}, {"fraction": 1.5}, {"tokens": 1.0}]
)
def test_a_budget_is_one_of_the_two(given_: dict[str, object]) -> None:
    with pytest.raises(BadInput, match="keep is"):
        Keep(**given_)


@given(st.integers(1, 10_000), st.floats(0, 1, exclude_min=True))
@settings(max_examples=200, deadline=None, derandomize=True)
def test_a_fraction_of_a_prompt(size: int, fraction: float) -> None:
    count = Keep(fraction=fraction).count(size)
    assert 1 <= count <= size
    assert abs(count - fraction * size) <= 1
    assert Keep(fraction=1.0).count(size) == size


def test_counts() -> None:
    assert [Keep.parse("25%").count(size) for size in (1, 2, 3, 4, 10, 100)] == [1, 1, 1, 1, 2, 25]
    assert [Keep(tokens=3).count(size) for size in (3, 4, 99)] == [3, 3, 3]
    with pytest.raises(BadInput, match="keep is 4; it must be at most 3, the prompt's tokens"):
        Keep(tokens=4).count(3)


@pytest.mark.parametrize("size", range(1, 12))
@pytest.mark.parametrize("sinks", [0, 1, 4, 20])
@pytest.mark.parametrize("recent", [1, 3, 20])
def test_a_prompt_from_ids(size: int, sinks: int, recent: int) -> None:
    prompt = Prompt.from_ids(range(100, 100 + size), sinks, recent)
    assert len(prompt) == size
    assert prompt.ids.tolist() == list(range(100, 100 + size))
    expected = [place < sinks or place >= size - recent for place in range(size)]
    assert prompt.protected.tolist() == expected
    assert prompt.num_protected == sum(expected)
    assert prompt.query == (max(0, size - recent), size)
    assert sum(chunk.num_tokens for chunk in prompt.chunks) == size - prompt.num_protected
    assert len(prompt.chunks) == (not all(expected))
    assert prompt.truncated == 0


@pytest.mark.parametrize(
    "ids",
    [
        [3, 4],
        (3, 4),
        torch.tensor([3, 4]),
        torch.tensor([[3, 4]]),
        torch.tensor([3, 4], dtype=torch.int32),
        np.array([3, 4]),
    ],
    ids=["list", "tuple", "tensor", "a batch of one", "int32", "numpy"],
)
def test_ids_of_any_kind(ids: object) -> None:
    prompt = Prompt.from_ids(ids)
    assert (prompt.ids.tolist(), prompt.ids.dtype) == ([3, 4], torch.int64)


@pytest.mark.parametrize(
    ("name", "value"), [("sinks", -1), ("sinks", 1.0), ("recent", 0), ("recent", -2), ("recent", None)]
)
def test_how_much_of_the_ends_is_protected(name: str, value: object) -> None:
    with pytest.raises(BadInput, match=f"{name} is {value!r}; it must be a whole number of at least"):
        Prompt.from_ids([1, 2, 3], **{name: value})


def parts(**changes: object) -> dict[str, object]:
    """The parts of a legal prompt of eight tokens, with changes."""
    protected = torch.tensor([True, False, False, True, False, False, False, True])
    return {
        "ids": torch.arange(8),
        "protected": protected,
        "chunks": (Chunk("a", 1, 3), Chunk("b", 4, 7)),
        "query": (7, 8),
        **changes,
    }


def test_a_prompt_by_hand() -> None:
    prompt = Prompt(**parts())
    assert (len(prompt), prompt.num_protected) == (8, 3)
    assert Prompt(**parts(chunks=(Chunk("all", 0, 8),))).chunks[0].num_tokens == 8  # may hold protected tokens


BROKEN = {
    "ids of a wrong type": ({"ids": torch.arange(8.0)}, "ids is"),
    "a batch of ids": ({"ids": torch.arange(8)[None]}, "ids is"),
    "no ids": ({"ids": torch.zeros(0, dtype=torch.int64)}, "one row of at least one int64 token id"),
    "a mask of another length": ({"protected": torch.ones(7, dtype=torch.bool)}, "8 booleans, the last one True"),
    "a mask of numbers": ({"protected": torch.ones(8)}, "8 booleans"),
    "the last token unprotected": ({"protected": torch.zeros(8, dtype=torch.bool)}, "the last one True"),
    "a token in no chunk": ({"chunks": (Chunk("a", 1, 3),)}, "such that token 4 is in one"),
    "no chunks": ({"chunks": ()}, "such that token 1 is in one"),
    "an empty chunk": ({"chunks": (Chunk("a", 1, 7), Chunk("b", 7, 7))}, "a span of tokens after 7 and up to 8"),
    "chunks that overlap": ({"chunks": (Chunk("a", 1, 5), Chunk("b", 4, 7))}, "after 5 and up to 8"),
    "chunks out of order": ({"chunks": (Chunk("b", 4, 7), Chunk("a", 1, 3))}, "after 7 and up to 8"),
    "a chunk past the end": ({"chunks": (Chunk("a", 1, 9),)}, "after 0 and up to 8"),
    "a chunk before the start": ({"chunks": (Chunk("a", -1, 7),)}, "after 0 and up to 8"),
    "a query past the end": ({"query": (7, 9)}, "query is"),
    "a query backwards": ({"query": (8, 7)}, "a span of the 8 tokens"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_parts_that_do_not_fit_together(case: str) -> None:
    changes, message = BROKEN[case]
    with pytest.raises(BadInput, match=message) as caught:
        Prompt(**parts(**changes))
    assert "Let engine.prompt or Prompt.from_ids lay it out." in str(caught.value)


def test_stop_strings_become_a_tuple() -> None:
    assert Sampling(stop="x").stop == ("x",)
    assert Sampling(stop=["x", "yz"]).stop == ("x", "yz")
    assert Sampling().stop == ()


def test_the_defaults_are_greedy() -> None:
    sampling = Sampling()
    assert (sampling.temperature, sampling.top_k, sampling.top_p, sampling.min_p) == (0.0, 0, 1.0, 0.0)
    assert (sampling.repetition_penalty, sampling.seed, sampling.logprobs, sampling.ignore_eos) == (1.0, 0, None, False)


def test_the_ends_of_the_ranges_are_legal() -> None:
    Sampling(max_tokens=1, temperature=0, top_k=0, top_p=1, min_p=0, repetition_penalty=0.01, seed=0, logprobs=0)
    Sampling(max_tokens=10**9, temperature=100, top_k=10**6, top_p=1e-12, min_p=1, seed=2**63 - 1, logprobs=100)


@pytest.mark.parametrize(
    "noun", [Sampling(), Keep(tokens=3), Document("text"), Chunk("t", 0, 2), Prompt.from_ids([1])], ids=repr
)
def test_nouns_are_frozen(noun: object) -> None:
    name = dataclasses.fields(noun)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(noun, name, None)
