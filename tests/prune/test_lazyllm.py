"""LazyLLM's gate: which of the active tokens go on, in the prefill and at later steps."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from planning import observe, prompt_of
from torch import Tensor

from fewer import BadInput, LazyLLM, Plan, Prompt
from fewer.prune.gate import highest
from fewer.types import ModelFacts

L = 6


def lazy(schedule: object, **settings: object) -> LazyLLM:
    return LazyLLM(schedule, **{"shortest": 0, "profile": None, **settings})


def ask(
    planner: LazyLLM,
    prompt: Prompt,
    scores: list[float],
    layer: int = 1,
    pos: list[int] | None = None,
    step: int = 0,
    ready: list[bool] | None = None,
    first: list[float] | None = None,
) -> Plan:
    seen = observe(prompt, scores, layer, pos=pos)
    as_tensor = None if ready is None else torch.tensor(ready)
    first_score = None if first is None else torch.tensor(first)
    return planner.after(replace(seen, num_layers=L, step=step, ready=as_tensor, first_score=first_score))


def later(planner: LazyLLM, scores: list[float], waiting: set[int], prompt: Prompt | None = None) -> list[int]:
    """What a step keeps of a prompt whose tokens in `waiting` have no keys above."""
    prompt = prompt or prompt_of(len(scores) - 2, sinks=1, tail=1)
    ready = [place not in waiting for place in range(len(scores))]
    return ask(planner, prompt, scores, step=1, ready=ready).keep.tolist()


def facts(*windows: int | None) -> ModelFacts:
    return ModelFacts("made up", "0" * 32, len(windows), 2, 1, windows)


def slow_gate(scores: list[float], protected: list[bool], budget: int) -> list[int]:
    """From the definition: protected tokens, and the best of the others up to the budget; of equals the earlier."""
    room = max(0, budget - sum(protected))
    order = sorted((p for p, held in enumerate(protected) if not held), key=lambda place: (-scores[place], place))
    return sorted([p for p, held in enumerate(protected) if held] + order[:room])


@given(
    scores=st.lists(st.sampled_from([0.0, 0.1, 0.2, 0.5, 1.0]), min_size=1, max_size=30),
    free=st.sets(st.integers(0, 28)),
    share=st.integers(1, 100),
)
@settings(max_examples=150, deadline=None, derandomize=True)
def test_the_gate_is_the_percentile_of_the_prompt(scores: list[float], free: set[int], share: int) -> None:
    size = len(scores)
    held = [place not in free for place in range(size - 1)] + [True]
    base = Prompt.from_ids(range(1, size + 1), sinks=0)
    prompt = Prompt(base.ids, torch.tensor(held), base.chunks, base.query)
    plan = ask(lazy({1: f"{share}%"}), prompt, scores)
    if all(held):
        assert plan is None
        return
    budget = max(1, round(share / 100 * size))
    assert plan.keep.tolist() == slow_gate(scores, held, budget)
    assert plan.keep.numel() == max(budget, sum(held))
    assert plan.score.tolist() == pytest.approx(scores)
    assert (plan.layer, plan.release) == (1, False)
    more = f"; {sum(held)} are protected and always stay" if sum(held) > budget else ""
    assert plan.reason == f"best of {size} active tokens: {plan.keep.numel()} go on, asked for {budget}{more}"


def test_fractions_are_of_the_prompt_and_not_of_what_is_active() -> None:
    prompt = prompt_of(16, sinks=2, tail=2)
    pos = [0, 1, *range(4, 14), 18, 19]
    scores = [0.0, 0.0, *[0.1 * place for place in range(10)], 0.0, 0.0]
    assert ask(lazy({1: 0.9, 3: 0.5}), prompt, scores, 3, pos).keep.tolist() == [0, 1, *range(8, 14), 18, 19]


def test_ties_keep_the_earlier() -> None:
    prompt = prompt_of(10, sinks=1, tail=1)
    assert ask(lazy({1: 6}), prompt, [0.5] * 12).keep.tolist() == [0, 1, 2, 3, 4, 11]
    scores = [0.5] * 9 + [0.6] + [0.5] * 2
    assert ask(lazy({1: 5}), prompt, scores).keep.tolist() == [0, 1, 2, 9, 11]


def test_heads_count_alike() -> None:
    prompt = prompt_of(3, sinks=1, tail=1)
    rows = torch.tensor([[0, 0.9, 0.4, 0, 0], [0, 0.0, 0.6, 0, 0]])
    seen = replace(observe(prompt), attention=rows, num_layers=L)
    assert lazy({1: 3}).after(seen).keep.tolist() == [0, 2, 4]


def test_every_budget_in_tokens() -> None:
    prompt = prompt_of(3, 1, 5)
    scores = torch.rand(len(prompt), generator=torch.Generator().manual_seed(1)).tolist()
    sets = [set(ask(lazy({1: budget}), prompt, scores).keep.tolist()) for budget in range(1, len(prompt) + 1)]
    held = set(prompt.protected.nonzero().flatten().tolist())
    assert [len(kept) for kept in sets] == [max(budget, len(held)) for budget in range(1, len(prompt) + 1)]
    assert all(held <= small <= large for small, large in pairwise(sets))


@pytest.mark.parametrize("size", [1, 2, 5])
def test_a_prompt_that_is_all_protected_is_declined(size: int) -> None:
    prompt = Prompt.from_ids(range(size), sinks=size)
    assert lazy({1: 1}).declines(prompt) == "every token is protected"
    assert ask(lazy({1: 1}), prompt, [0.3] * size) is None


def test_only_the_last_token_is_protected_at_least() -> None:
    prompt = Prompt.from_ids(range(5), sinks=0)
    assert ask(lazy({1: 1}), prompt, [0.9, 0.1, 0.2, 0.3, 0.0]).keep.tolist() == [4]
    assert ask(lazy({1: 2}), prompt, [0.9, 0.1, 0.2, 0.3, 0.0]).keep.tolist() == [0, 4]


@given(
    st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0, float("-inf")]), min_size=1, max_size=20),
    st.integers(-2, 25),
)
@settings(max_examples=150, deadline=None, derandomize=True)
def test_highest_against_sorting(scores: list[float], count: int) -> None:
    order = sorted(
        (place for place, score in enumerate(scores) if score > float("-inf")), key=lambda p: (-scores[p], p)
    )
    found = np.flatnonzero(highest(np.array(scores), count)).tolist()
    assert found == sorted(order[: max(0, count)])


SCORES = [0.0, 0.30, 0.05, 0.20, 0.01, 0.15, 0.02, 0.10, 0.0, 0.17]  # mean 0.1; 0 and 9 are protected


def test_a_step_brings_back_what_the_gate_wants() -> None:
    paper = lazy({1: 5}, revive_floor=0, revive_limit=None)
    assert later(paper, SCORES, set()) == [0, 1, 3, 5, 9]
    assert later(paper, SCORES, {1, 3, 5}) == [0, 1, 3, 5, 9]
    assert later(paper, SCORES, {1, 2, 4, 6}) == [0, 1, 3, 5, 9]


def test_the_floor_is_a_multiple_of_the_mean() -> None:
    wide = {1: 10}
    floor = [later(lazy(wide, revive_floor=times, revive_limit=None), SCORES, {1, 3, 5, 7}) for times in (0, 1.2, 1.9)]
    assert floor == [[*range(10)], [0, 1, 2, 3, 4, 5, 6, 8, 9], [0, 1, 2, 3, 4, 6, 8, 9]]
    assert later(lazy(wide, revive_floor=100.0), SCORES, {1, 3, 5, 7}) == [0, 2, 4, 6, 8, 9]  # what is ready stays


def test_exactly_the_floor_comes_back() -> None:
    scores = [0.25, 0.5, 0.25, 0.0]  # mean 0.25, exact in binary
    assert later(lazy({1: 4}, revive_floor=1.0), scores, {1, 2}) == [0, 1, 2, 3]
    assert later(lazy({1: 4}, revive_floor=2.0), scores, {1, 2}) == [0, 1, 3]


def test_the_limit_takes_the_best_and_the_earlier() -> None:
    for limit, back in ((1, [1]), (2, [1, 3]), (3, [1, 3, 5]), (4, [1, 3, 5, 7]), (99, [1, 3, 5, 7])):
        found = later(lazy({1: 10}, revive_floor=0, revive_limit=limit), SCORES, {1, 3, 5, 7})
        assert found == sorted({0, 2, 4, 6, 8, 9} | set(back))
    flat = [0.1] * 10
    assert later(lazy({1: 10}, revive_floor=0, revive_limit=2), flat, {2, 4, 6, 8}) == [0, 1, 2, 3, 4, 5, 7, 9]


def test_a_limit_does_not_hold_back_what_is_ready() -> None:
    assert later(lazy({1: 5}, revive_floor=0, revive_limit=1), SCORES, {1, 3}) == [0, 1, 5, 9]


@pytest.mark.parametrize("switch", [{"revive": False}, {"aux": "off"}])
def test_without_reviving_only_the_ready_stay(switch: dict[str, object]) -> None:
    planner = lazy({1: 5}, **switch)
    assert (planner.aux, planner.revive) == ("off", False)
    assert later(planner, SCORES, {1, 3}) == [0, 5, 9]


def test_the_switches_resolve_each_other() -> None:
    assert (lazy("mild").aux, lazy("mild").revive) == ("keep", True)
    assert (lazy("mild", revive=True).aux, lazy("mild", aux="recompute").revive) == ("keep", True)
    for aux, revive in (("keep", False), ("recompute", False), ("off", True)):
        with pytest.raises(BadInput, match=f"aux is '{aux}'; it must be off where revive is False, keep or recompute"):
            lazy("mild", aux=aux, revive=revive)


def test_selection_by_the_prefill_brings_all_back_in_its_order() -> None:
    prompt = prompt_of(6, sinks=1, tail=1)
    first = [0.0, 0.3, 0.1, 0.2, float("-inf"), 0.4, 0.0, 0.0]
    ready = [True, False, False, True, False, True, False, True]

    def kept(**settings: object) -> list[int]:
        planner = lazy({1: 3}, selection="prefill", **settings)
        return ask(planner, prompt, [0.0] * 8, step=1, ready=ready, first=first).keep.tolist()

    assert kept(revive_limit=None) == [*range(8)]
    assert kept(revive_limit=1) == [0, 1, 3, 5, 7]
    assert kept(revive_limit=3) == [0, 1, 2, 3, 5, 6, 7]
    assert kept(revive_limit=4) == [*range(8)]  # what never came this far comes last
    assert kept(revive=False) == [0, 3, 5, 7]


def test_a_later_step_gives_no_score() -> None:
    plan = ask(lazy({1: 5}), prompt_of(8, sinks=1, tail=1), SCORES, step=1, ready=[True] * 10)
    assert plan.score is None
    assert not plan.release


def test_short_prompts_are_declined() -> None:
    planner = LazyLLM({1: 3}, profile=None)
    assert planner.shortest == 256
    short, long = Prompt.from_ids(range(255)), Prompt.from_ids(range(256))
    assert planner.declines(long) is None
    assert planner.declines(short) == "the prompt has 255 tokens; below 256 choosing costs more than it saves"
    assert ask(planner, short, [0.1] * 255) is None
    assert ask(planner, long, [0.1] * 256).keep.tolist() == [0, 1, 2, 3, 255]  # protected
    assert lazy({1: 3}).declines(Prompt.from_ids(range(2), sinks=0)) is None


def reach_of(windows: tuple[int | None, ...], step: int = 0, layer: int = 1) -> list[int]:
    size = 30
    planner = replace(lazy({layer: "100%"}), facts=facts(*windows))
    ready = [True] * size if step else None
    prompt = Prompt.from_ids(range(size), sinks=1)
    return ask(planner, prompt, [0.1] * size, layer, step=step, ready=ready).keep.tolist()


def test_what_no_window_reaches_any_more_leaves() -> None:
    assert reach_of((None, 4, 4, 4, 4, 4)) == [0, *range(29 - 5 * 3, 30)]
    assert reach_of((None, 4, 4, 4, 4, 4), layer=3) == [0, *range(29 - 3 * 3, 30)]
    assert reach_of((None, 4, 4, 4, 4, 4), step=2) == [0, *range(31 - 5 * 3, 30)]
    assert reach_of((None, None, 1, 1, 1, 1), layer=2) == [0, 29]
    assert reach_of((None, 400, 4, 4, 4, 4)) == [*range(30)]
    assert reach_of((None, 4, 4, None, 4, 4)) == [*range(30)]
    assert reach_of((None,) * 6) == [*range(30)]


def test_a_plan_is_not_the_observations_memory() -> None:
    prompt = prompt_of(4)
    seen = replace(observe(prompt, [0.1] * len(prompt)), num_layers=L)
    pos: Tensor = seen.pos.clone()
    lazy({1: 2}).after(seen).keep.zero_()
    assert torch.equal(seen.pos, pos)
