"""Which option an output chooses, and multiple choice by likelihood."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fewer.errors import BadInput
from fewer.study.metrics import extract_option, score, score_likelihood

OPTIONS = ["to study human form", "to earn money", "a farm", "a farm in the north"]


@pytest.mark.parametrize(
    ("prediction", "wanted"),
    [
        ("B", 1),
        ("b", 1),
        ("(c)", 2),
        ("D.", 3),
        ("**B**", 1),
        ("B. to earn money", 1),
        ("A to study human form", 0),
        ("The answer is (B).", 1),
        ("The correct answer is: C", 2),
        ("Answer: D because of the north", 3),
        ("I would choose option B", 1),
        ("He went there to earn money.", 1),
        ("A farm in the north", 3),  # not the article, and not the shorter option inside
        ("a farm", 2),
        ("A man needs to earn money", 1),
        ("The answer is A because he says so", 0),
        ("It must be B, given the text", 1),
        ("Both A and B", None),
        ("Both B and C", None),
        ("E", None),
        ("I do not know", None),
        ("Because he can", None),
        ("To study human form, or to earn money", None),
        ("It's a matter of taste", None),
        ("", None),
        ("  \n", None),
    ],
)
def test_extract_option(prediction: str, wanted: int | None) -> None:
    assert extract_option(prediction, OPTIONS) == wanted


def test_multiple_choice_counts_the_letter_and_the_text() -> None:
    meta = {"options": OPTIONS, "gold_index": 1}
    said = ["B", "to earn money", "C", "nothing"]
    assert [score("multiple_choice", text, ["B"], meta) for text in said] == [1.0, 1.0, 0.0, 0.0]


@given(st.text(max_size=40), st.integers(2, 26))
@settings(deadline=None, derandomize=True)
def test_extract_option_stays_within_the_options(prediction: str, count: int) -> None:
    index = extract_option(prediction, [f"option number {number}" for number in range(count)])
    assert index is None or 0 <= index < count


@pytest.mark.parametrize("count", [0, 1, 27])
def test_too_few_or_many_options(count: int) -> None:
    with pytest.raises(BadInput, match="options"):
        extract_option("A", ["text"] * count)


def test_likelihood_by_hand() -> None:
    # sums -6, -4; over lengths 12 and 4: -0.5, -1.0
    assert score_likelihood([-6.0, -4.0], [12, 4], gold_index=0) == (1, 0.0, 0, 1.0)
    assert score_likelihood([-2.0, -2.0], [1, 1], gold_index=0) == (0, 1.0, 0, 1.0)  # the first of equals
    assert score_likelihood([-math.inf, -3.0], [2, 2], gold_index=1) == (1, 1.0, 1, 1.0)


@given(st.lists(st.tuples(st.floats(-50, 0), st.integers(1, 40)), min_size=2, max_size=6), st.data())
@settings(deadline=None, derandomize=True)
def test_likelihood_is_argmax(options: list[tuple[float, int]], data: st.DataObject) -> None:
    sums, lengths = np.array([o[0] for o in options]), np.array([o[1] for o in options])
    gold = data.draw(st.integers(0, len(options) - 1))
    found = score_likelihood(sums.tolist(), lengths.tolist(), gold)
    assert found.chosen == np.argmax(sums)
    assert found.chosen_by_length == np.argmax(sums / lengths)
    assert found.accuracy == (np.argmax(sums) == gold)


@pytest.mark.parametrize(
    ("logprobs", "lengths", "gold"),
    [
        ([-1.0], [1], 0),
        ([-1.0, math.nan], [1, 1], 0),
        ([-1.0, 0.5], [1, 1], 0),
        ([-1.0, -2.0], [1], 0),
        ([-1.0, -2.0], [1, 0], 0),
        ([-1.0, -2.0], [1, 1], 2),
        ([-1.0, -2.0], [1, 1], -1),
        ([-1.0, -2.0], [1, 1], True),
    ],
)
def test_likelihood_refuses(logprobs: list[float], lengths: list[int], gold: int) -> None:
    with pytest.raises(BadInput):
        score_likelihood(logprobs, lengths, gold)
