"""BM25 against a sum written out, and what stays by passage and by chunk."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from planning import observe

from fewer import BadInput, Chunk, Keep, LexicalPrune, Prompt
from fewer.prune import PLANNERS
from fewer.prune.lexical import score_bm25
from tolerances import FP64


def asked(*chunks: list[int], query: list[int]) -> Prompt:
    """A sink, chunks with no gaps, the query and one token more."""
    ids, spans = [0], []
    for chunk in chunks:
        spans.append(Chunk("", len(ids), len(ids) + len(chunk)))
        ids += chunk
    end = len(ids)
    ids += [*query, 1]
    protected = torch.ones(len(ids), dtype=torch.bool)
    protected[1:end] = False
    return Prompt(torch.tensor(ids), protected, tuple(spans), (end, end + len(query)))


def free(planner: LexicalPrune, prompt: Prompt, pos: list[int] | None = None) -> list[int]:
    plan = planner.after(observe(prompt, layer=0, pos=pos))
    return [position for position in plan.keep.tolist() if not prompt.protected[position]]


def written_out(query: list[int], passages: list[list[int]]) -> list[float]:
    mean = sum(map(len, passages)) / len(passages)
    scores = []
    for passage in passages:
        total = 0.0
        for term in set(query):
            having = sum(term in other for other in passages)
            idf = math.log(1 + (len(passages) - having + 0.5) / (having + 0.5))
            count = passage.count(term)
            total += idf * count * 2.2 / (count + 1.2 * (0.25 + 0.75 * len(passage) / mean))
        scores.append(total)
    return scores


def test_bm25_is_the_sum_over_terms() -> None:
    rng = np.random.default_rng(3)
    passages = [rng.integers(0, 12, size).tolist() for size in (1, 7, 32, 5, 20, 3)]
    query = [3, 5, 5, 11, 40]
    found = score_bm25(np.array(query), [np.array(passage) for passage in passages])
    assert np.abs(found - written_out(query, passages)).max() < FP64
    assert score_bm25(np.array(query), []).tolist() == []
    assert score_bm25(np.array([], dtype=np.int64), [np.array([1, 2])]).tolist() == [0.0]


def test_a_rare_token_counts_more_and_a_long_chunk_less() -> None:
    common, rare = 7, 9
    prompt = asked([common] * 2, [common, 3], [rare, 3], [common, 4], query=[common, rare])
    first = len(prompt) - 8 + 2  # protected: sink, query, end
    assert first == 5 + 1
    assert free(LexicalPrune(6, grain="chunk"), prompt) == [5, 6]
    long = asked([rare, *[3] * 9], [rare, 3], query=[rare])
    assert free(LexicalPrune(5, grain="chunk"), long) == [11, 12]


def test_chunks_fill_the_budget_in_their_order() -> None:
    prompt = asked([5, 5], [8, 5], [5, 8, 5], [5, 5], query=[8])
    assert [free(LexicalPrune(budget, grain="chunk"), prompt) for budget in (3, 5, 8, 10, 12)] == [
        [],
        [3, 4],
        [3, 4, 5, 6, 7],
        [1, 2, 3, 4, 5, 6, 7],
        list(range(1, 10)),
    ]


def test_passages_are_cut_from_each_chunk_and_fill_the_budget_to_the_token() -> None:
    chunks = [[5] * 70, [5] * 40]
    chunks[0][40], chunks[1][35] = 8, 8  # the second passage of the first, and the short second one of the other
    prompt = asked(*chunks, query=[8])
    second, short = range(1 + 32, 1 + 64), range(71 + 32, 71 + 40)
    assert free(LexicalPrune(3 + 8), prompt) == list(short)
    assert free(LexicalPrune(3 + 8 + 5), prompt) == [*second[:5], *short]
    assert free(LexicalPrune(3 + 8 + 32), prompt) == [*second, *short]
    assert free(LexicalPrune(3 + 8 + 32 + 2), prompt) == [1, 2, *second, *short]


@pytest.mark.parametrize("query", [[], [99]])
def test_a_question_that_shares_nothing_keeps_the_beginning(query: list[int]) -> None:
    prompt = asked(*[[5, 6, 7]] * 20, query=query)
    held = prompt.num_protected
    assert free(LexicalPrune(held + 30), prompt) == list(range(1, 31))
    assert free(LexicalPrune(held + 30, grain="chunk"), prompt) == list(range(1, 31))


def test_a_larger_budget_keeps_what_a_smaller_one_kept() -> None:
    rng = np.random.default_rng(4)
    prompt = asked(*[rng.integers(2, 30, size).tolist() for size in (40, 3, 90)], query=[3, 9, 14])
    sets = [set(free(LexicalPrune(budget), prompt)) for budget in range(1, len(prompt) + 1)]
    assert all(smaller <= larger for smaller, larger in pairwise(sets))
    assert [len(kept) for kept in sets] == [max(0, n - prompt.num_protected) for n in range(1, len(prompt) + 1)]


def test_only_what_is_active_is_kept() -> None:
    prompt = asked([8, 5, 5, 5, 8, 5], query=[8])
    assert free(LexicalPrune(6), prompt, [0, 2, 3, 5, 6, 7, 8]) == [2, 3, 5]


def test_a_prompt_without_chunks_is_all_protected() -> None:
    prompt = Prompt(torch.tensor([3, 4]), torch.ones(2, dtype=torch.bool), (), (0, 1))
    for grain in ("token", "chunk"):
        assert LexicalPrune(1, grain=grain).after(observe(prompt, layer=0)).keep.tolist() == [0, 1]


def test_settings_of_lexical() -> None:
    planner = LexicalPrune("25%", 3, "chunk")
    assert planner.describe() == {"keep": "25%", "layer": 3, "grain": "chunk"}
    assert (planner.keep, planner.needs, PLANNERS[planner.name]) == (Keep(fraction=0.25), "nothing", LexicalPrune)
    assert (LexicalPrune(0.5).layers(6), LexicalPrune(0.5, 5).layers(6)) == ((0,), (5,))
    with pytest.raises(BadInput, match="layer is 6; it must be a whole number from 0 to 5"):
        LexicalPrune(0.5, 6).layers(6)
    with pytest.raises(BadInput, match="keep is 9; it must be at most 4"):
        LexicalPrune(9).check(asked([5], query=[5]))
    with pytest.raises(BadInput, match="grain is 'sentence'"):
        LexicalPrune(0.5, grain="sentence")
