"""Scores and designs of somebody else's are held to their protocols before anything leaves the cache."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from views import make_view

from fewer.errors import BadInput
from fewer.evict.checks import check_score, check_selection
from fewer.types import Sample, Selection

INF = float("inf")


def test_a_sound_score_and_selection_pass() -> None:
    view = make_view()
    score = torch.rand(view.pos.shape, dtype=torch.float64)
    assert check_score(score, view, "mine").dtype == torch.float32
    padded = replace(view, log_w=torch.zeros(view.pos.shape).index_fill(1, torch.tensor([3]), -INF))
    assert check_score(score.index_fill(1, torch.tensor([3]), -INF), padded, "mine")[0, 3] == -INF
    selection = Selection(torch.tensor([[0, 2, 4], [1, 3, 3]]), torch.tensor([3, 2]))
    assert check_selection(selection, torch.rand(2, 5), "mine") is selection
    sample = Sample(selection.idx, selection.count, torch.full((2, 3), 0.5))
    assert check_selection(sample, torch.rand(2, 5), "mine") is sample


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda score: None, "NoneType"),
        (lambda score: score[0], "shape"),
        (lambda score: score.long(), "int64"),
        (lambda score: score.index_fill(1, torch.tensor([2]), float("nan")), "'nan'.*finite"),
        (lambda score: score.index_fill(1, torch.tensor([2]), INF), "'inf'.*finite"),
        (lambda score: score - 2, "at least 0"),
    ],
)
def test_scores_that_are_refused(change: object, words: str) -> None:
    view = make_view()
    with pytest.raises(BadInput, match=words):
        check_score(change(torch.rand(view.pos.shape)), view, "mine")


@pytest.mark.parametrize(
    ("idx", "count", "pi", "words"),
    [
        ([[0, 2, 2], [1, 3, 4]], [3, 3], None, "ascending rows, each once"),
        ([[0, 3, 2], [1, 3, 4]], [3, 3], None, "ascending rows, each once"),
        ([[0, 2, 5], [1, 3, 4]], [3, 3], None, "at least one of 5 rows"),
        ([[0, 2, -1], [1, 3, 4]], [3, 3], None, "at least one of 5 rows"),
        ([[0, 2, 3], [1, 3, 4]], [3, 0], None, "at least one of 5 rows"),
        ([[0, 2, 3], [1, 3, 4]], [3, 4], None, "at least one of 5 rows"),
        ([[1, 2, 3], [1, 3, 4]], [3, 3], None, "every row that is certain"),
        ([[0, 2, 4], [1, 3, 4]], [3, 3], None, "none that is gone"),
        ([[0, 2, 3]], [3], None, "2 heads"),
        ([[0, 2, 3], [1, 3, 4]], [3, 3], [[1.0, 0.0, 1.0]] * 2, "probabilities above 0"),
        ([[0, 2, 3], [1, 3, 4]], [3, 3], [[1.0, 1.5, 1.0]] * 2, "probabilities above 0"),
        ([[0, 2, 3], [1, 3, 4]], [3, 3], [[1.0, 1.0]] * 2, "one a row"),
    ],
)
def test_selections_that_are_refused(idx: list, count: list, pi: list | None, words: str) -> None:
    score = torch.tensor([[INF, 1.0, 1.0, 1.0, -INF], [1.0, INF, 1.0, 1.0, 1.0]])
    rows, counts = torch.tensor(idx), torch.tensor(count)
    given = Selection(rows, counts) if pi is None else Sample(rows, counts, torch.tensor(pi))
    with pytest.raises(BadInput, match=words):
        check_selection(given, score, "mine")


def test_something_else_is_no_selection() -> None:
    with pytest.raises(BadInput, match=r"NoneType.*a Selection or a Sample"):
        check_selection(None, torch.rand(2, 5), "mine")
