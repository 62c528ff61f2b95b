"""The baselines: which positions stay, at every budget and grain."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from planning import observe, prompt_of
from scipy.stats import chi2

from fewer import BadInput, EndsPrune, Keep, Plan, Prompt, RandomPrune, StaticPrune
from fewer.prune import PLANNERS, make_planner
from fewer.types import Planner

KINDS = [RandomPrune, StaticPrune, EndsPrune]
SCORES = [float(value) for value in torch.rand(60, generator=torch.Generator().manual_seed(1))]


def plan_of(planner: Planner, prompt: Prompt, scores: list[float] | None = None, **seen: object) -> Plan:
    scores = SCORES[: len(prompt)] if scores is None else scores
    return planner.after(observe(prompt, scores if planner.needs == "last_query" else None, **seen))


def kept(planner: Planner, prompt: Prompt, scores: list[float] | None = None, **seen: object) -> list[int]:
    return plan_of(planner, prompt, scores, **seen).keep.tolist()


def free(prompt: Prompt, positions: list[int]) -> list[int]:
    """Those of the positions that are not protected."""
    return [position for position in positions if not prompt.protected[position]]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sizes", [(), (1,), (12,), (3, 1, 5)])
def test_every_token_budget(kind: type, sizes: tuple[int, ...]) -> None:
    prompt = prompt_of(*sizes)
    for budget in range(1, len(prompt) + 1):
        plan = plan_of(kind(budget), prompt)
        positions = plan.keep.tolist()
        assert positions == sorted(set(positions))
        assert plan.keep.dtype == torch.int64
        assert len(positions) == max(budget, prompt.num_protected)
        assert set(prompt.protected.nonzero().flatten().tolist()) <= set(positions)
        assert plan.layer == 1
        assert plan.release
        assert (plan.bound, plan.dual_gap) == (None, None)
        assert f"{len(positions)} of {len(prompt)} active tokens go on, asked for {budget}" in plan.reason
        surplus = f"; {prompt.num_protected} are protected and always stay"
        assert plan.reason.endswith(surplus) == (budget < prompt.num_protected)
    for fraction in (0.01, 0.3, 0.5, 1.0):
        assert kept(kind(fraction), prompt) == kept(kind(max(1, round(fraction * len(prompt)))), prompt)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sizes", [(), (1,), (12,), (3, 1, 5), (2, 2, 2, 2)])
def test_every_chunk_budget(kind: type, sizes: tuple[int, ...]) -> None:
    prompt = prompt_of(*sizes)
    for budget in range(1, len(prompt) + 1):
        positions = set(kept(kind(budget, grain="chunk"), prompt))
        assert set(prompt.protected.nonzero().flatten().tolist()) <= positions
        assert len(positions) <= max(budget, prompt.num_protected)
        for chunk in prompt.chunks:  # whole, or not at all
            assert len(positions & set(range(chunk.start, chunk.stop))) in (0, chunk.num_tokens)
        left = [chunk.num_tokens for chunk in prompt.chunks if chunk.start not in positions]
        assert not left or len(positions) + min(left) > budget  # nothing that would have fitted was left out
    assert len(kept(kind(1.0, grain="chunk"), prompt)) == len(prompt)


@pytest.mark.parametrize("kind", [StaticPrune, EndsPrune])
def test_a_larger_budget_keeps_what_a_smaller_one_kept(kind: type) -> None:
    prompt = prompt_of(7, 11, 4)
    sets = [set(kept(kind(budget), prompt)) for budget in range(1, len(prompt) + 1)]
    assert all(smaller <= larger for smaller, larger in pairwise(sets))
    assert len(sets[-1]) == len(prompt)


def test_static_keeps_the_most_attended() -> None:
    prompt = prompt_of(6, sinks=1, tail=1)
    scores = [0.9, 0.1, 0.5, 0.3, 0.8, 0.0, 0.4, 0.9]
    assert [free(prompt, kept(StaticPrune(budget), prompt, scores)) for budget in (2, 3, 4, 5, 6, 7)] == [
        *([], [4], [2, 4], [2, 4, 6], [2, 3, 4, 6], [1, 2, 3, 4, 6])
    ]


def test_static_looks_at_the_mean_over_heads() -> None:
    prompt = prompt_of(3, sinks=1, tail=1)
    observation = observe(prompt)
    for rows, best in (
        ([[0, 0.9, 0.4, 0, 0], [0, 0.0, 0.6, 0, 0]], 2),
        ([[0, 0.9, 0.4, 0, 0], [0, 0.2, 0.6, 0, 0]], 1),
    ):
        object.__setattr__(observation, "attention", torch.tensor(rows))
        assert free(prompt, StaticPrune(3).after(observation).keep.tolist()) == [best]


def test_ties_keep_the_earlier_position() -> None:
    prompt = prompt_of(40, sinks=1, tail=1)
    flat = [0.5] * len(prompt)
    assert free(prompt, kept(StaticPrune(12), prompt, flat)) == list(range(1, 11))
    flat[30] = 0.6
    assert free(prompt, kept(StaticPrune(12), prompt, flat)) == [*range(1, 10), 30]
    chunks = prompt_of(*[2] * 20)
    first = kept(StaticPrune(chunks.num_protected + 6, grain="chunk"), chunks, [0.5] * len(chunks))
    assert free(chunks, first) == [place for chunk in chunks.chunks[:3] for place in range(chunk.start, chunk.stop)]


def test_static_ranks_chunks_by_their_mean() -> None:
    prompt = prompt_of(4, 1, 2, sinks=1, gap=0, tail=1)  # at 1-4, 5, 6-7
    scores = [0, *[0.3, 0.3, 0.3, 0.3], 0.35, *[0.5, 0.3], 0]  # means 0.3, 0.35, 0.4
    assert [free(prompt, kept(StaticPrune(budget, grain="chunk"), prompt, scores)) for budget in range(2, 10)] == [
        *([], [5], [6, 7], [5, 6, 7], [5, 6, 7], [5, 6, 7], [5, 6, 7], [1, 2, 3, 4, 5, 6, 7])
    ]


def test_a_chunk_that_does_not_fit_is_passed_over() -> None:
    prompt = prompt_of(6, 3, 2, sinks=1, gap=0, tail=1)  # at 1-6, 7-9, 10-11
    scores = [0, *[0.9] * 6, *[0.5] * 3, *[0.1] * 2, 0]
    assert free(prompt, kept(StaticPrune(7, grain="chunk"), prompt, scores)) == [7, 8, 9, 10, 11]
    assert free(prompt, kept(StaticPrune(4, grain="chunk"), prompt, scores)) == [10, 11]
    assert free(prompt, kept(StaticPrune(3, grain="chunk"), prompt, scores)) == []


def test_a_single_chunk_larger_than_the_budget() -> None:
    prompt = prompt_of(9)
    assert kept(StaticPrune(12, grain="chunk"), prompt) == prompt.protected.nonzero().flatten().tolist()
    assert len(kept(StaticPrune(13, grain="chunk"), prompt)) == 13


def test_protected_tokens_inside_a_chunk_are_not_counted_twice() -> None:
    prompt = prompt_of(5, 4, sinks=1, gap=0, tail=1)
    protected = prompt.protected.clone()
    protected[1:3] = True  # sinks that reach into the first chunk
    prompt = Prompt(prompt.ids, protected, prompt.chunks, prompt.query)
    scores = [0, *[0.9] * 5, *[0.1] * 4, 0]
    assert kept(StaticPrune(7, grain="chunk"), prompt, scores) == [0, 1, 2, 3, 4, 5, 10]


def test_ends_takes_from_the_two_ends_in_turn() -> None:
    prompt = prompt_of(7, sinks=1, tail=1)
    assert [free(prompt, kept(EndsPrune(budget), prompt)) for budget in range(2, 10)] == [
        *([], [1], [1, 7], [1, 2, 7], [1, 2, 6, 7], [1, 2, 3, 6, 7], [1, 2, 3, 5, 6, 7], [1, 2, 3, 4, 5, 6, 7])
    ]


def test_ends_by_chunk() -> None:
    prompt = prompt_of(2, 2, 2, 2, sinks=1, gap=0, tail=1)
    assert [free(prompt, kept(EndsPrune(budget, grain="chunk"), prompt)) for budget in (3, 4, 6, 8, 10)] == [
        *([], [1, 2], [1, 2, 7, 8], [1, 2, 3, 4, 7, 8], [*range(1, 9)])
    ]


@pytest.mark.parametrize("grain", ["token", "chunk"])
def test_random_is_the_generators_choice(grain: str) -> None:
    prompt = prompt_of(*[1] * 30, gap=0) if grain == "chunk" else prompt_of(30)
    planner = RandomPrune(0.5, grain=grain)
    assert kept(planner, prompt, seed=3) == kept(planner, prompt, seed=3)
    assert len({tuple(kept(planner, prompt, seed=seed)) for seed in range(20)}) == 20


@pytest.mark.parametrize("grain", ["token", "chunk"])
def test_random_is_uniform(grain: str) -> None:
    """2000 draws of 4 out of 12: how often each stays (chi-square for draws without replacement), and each pair.

    A right planner would fail one of the four with probability 5e-5 over the choice of seeds.
    """
    prompt = prompt_of(*[1] * 12, sinks=0, gap=0, tail=1) if grain == "chunk" else prompt_of(12, sinks=0, tail=1)
    draws, single, pairs = 2000, np.zeros(12), np.zeros((12, 12))
    for seed in range(draws):
        chosen = free(prompt, kept(RandomPrune(5, grain=grain), prompt, seed=seed))
        assert len(chosen) == 4
        single[chosen] += 1
        pairs[np.ix_(chosen, chosen)] += 1
    expected = draws * 4 / 12
    assert ((single - expected) ** 2).sum() / (expected * (1 - 4 / 12)) * 11 / 12 < chi2.isf(1e-5, 11)
    both = pairs[np.triu_indices(12, 1)]
    chance = 4 * 3 / (12 * 11)
    deviation = np.abs(both - draws * chance) / np.sqrt(draws * chance * (1 - chance))
    assert deviation.max() < 5.2  # 66 normal deviates, 2e-7 each


def test_positions_and_not_rows_are_kept_after_an_earlier_drop() -> None:
    prompt = prompt_of(10, sinks=2, tail=2)
    active = [0, 1, 3, 4, 7, 9, 10, 12, 13]
    scores = [0.0, 0.0, 0.1, 0.9, 0.2, 0.8, 0.3, 0.0, 0.0]
    assert kept(StaticPrune(6), prompt, scores, pos=active) == [0, 1, 4, 9, 12, 13]
    assert kept(EndsPrune(6), prompt, pos=active) == [0, 1, 3, 10, 12, 13]
    assert set(kept(RandomPrune(6), prompt, pos=active)) <= set(active)
    assert kept(StaticPrune(13), prompt, scores, pos=active) == active


@pytest.mark.parametrize("kind", KINDS)
def test_layers(kind: type) -> None:
    lowest = 1 if kind is StaticPrune else 0
    for layer in range(lowest, 6):
        assert kind(0.5, layer).layers(6) == (layer,)
    for layer in (-1, 6, 7, 1.0, "1", True, *([0] if lowest else [])):
        with pytest.raises(BadInput, match=f"layer is {layer!r}; it must be a whole number from {lowest} to 5"):
            kind(0.5, layer).layers(6)


def test_layers_by_default() -> None:
    assert [StaticPrune(0.5).layers(size)[0] for size in (2, 3, 5, 6, 12, 30, 32)] == [1, 1, 1, 2, 4, 10, 10]
    for kind in (RandomPrune, EndsPrune):
        assert kind(0.5).layers(30) == (0,)
    with pytest.raises(BadInput, match="the model has 1 layers"):
        StaticPrune(0.5).layers(1)


@pytest.mark.parametrize("kind", KINDS)
def test_check(kind: type) -> None:
    prompt = prompt_of(4)
    for budget in (1, len(prompt), 0.01, 1.0):
        kind(budget).check(prompt)
    with pytest.raises(BadInput, match="keep is 9; it must be at most 8, the prompt's tokens"):
        kind(9).check(prompt)


@pytest.mark.parametrize("kind", KINDS)
def test_descriptions(kind: type) -> None:
    planner = kind("25%", 3, "chunk")
    assert planner.describe() == {"keep": "25%", "layer": 3, "grain": "chunk"}
    assert kind(64).describe() == {"keep": "64 tokens", "layer": None, "grain": "token"}
    assert planner.keep == Keep(fraction=0.25)
    assert planner == kind(0.25, 3, "chunk")
    assert PLANNERS[planner.name] is kind
    assert planner.needs == ("last_query" if kind is StaticPrune else "nothing")


def test_planners_by_name() -> None:
    assert make_planner("none") is None
    assert make_planner("static", keep=0.5, layer=2) == StaticPrune(0.5, 2)
    assert make_planner("ends", keep=8, grain="chunk") == EndsPrune(8, grain="chunk")
    with pytest.raises(BadInput, match="prune is 'lazy'; it must be one of none, ends, entroprefill, lazyllm, lexical"):
        make_planner("lazy", keep=0.5)
    with pytest.raises(TypeError, match="keep"):
        make_planner("random")
    with pytest.raises(BadInput, match="grain is 'sentence'"):
        make_planner("random", keep=0.5, grain="sentence")
