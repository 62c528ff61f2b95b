"""What must hold of LazyLLM whatever the prompt, the schedule and the model: counts, nesting, forks, and faults."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from cases import CASES, NUM_LAYERS, Case, gap
from hypothesis import given, settings
from hypothesis import strategies as st
from lazy_runs import Run, make_prompt

from fewer import LazyLLM
from fewer.kv import State
from fewer.types import Observation, Plan, Planner, Prompt
from tiny import VOCAB
from tolerances import FP64

NAMES = (
    "llama-r1",
    "llama-r2",
    "llama-r2-unfused",
    "llama-r8",
    "mistral",
    "qwen2-sliding",
    "gemma3",
    "smollm3-sliding",
)
SETTINGS: tuple[dict[str, Any], ...] = (
    {"revive_limit": None, "revive_floor": 0},
    {},
    {"revive_limit": 1, "revive_floor": 0.5},
    {"revive": False},
    {"aux": "recompute", "revive_limit": None, "revive_floor": 0},
    {"selection": "prefill", "revive_limit": 2},
    {"selection": "prefill", "aux": "recompute", "revive_limit": None},
    {"selection": "prefill", "revive": False},
)


@dataclass
class Wandering:
    """Keeps another random subset at every stop of every step: the worst that a schedule can ask for."""

    stops: tuple[int, ...]
    aux: str = "keep"
    selection: str = "per_step"
    needs: str = "nothing"
    name: str = "wandering"

    def layers(self, num_layers: int) -> tuple[int, ...]:
        return self.stops

    def after(self, seen: Observation) -> Plan:
        drawn = torch.rand(seen.pos.numel(), generator=seen.generator) < 0.5
        if self.aux == "off" and seen.ready is not None:
            drawn &= seen.ready
        keep = seen.pos[drawn | seen.prompt.protected[seen.pos]]
        return Plan(seen.layer, keep, release=False, score=torch.zeros(seen.pos.numel()) if not seen.step else None)


@dataclass(frozen=True)
class Draw:
    """What hypothesis chose."""

    name: str
    prompt: Prompt
    schedule: dict[int, str]
    settings: dict[str, Any]
    steps: int

    def run(self, planner: Planner | None) -> Run:
        return Run(CASES[self.name].wide, self.prompt, planner)

    def lazy(self, schedule: dict[int, str] | None = None, **changes: Any) -> LazyLLM:
        chosen = {**self.settings, **changes}
        planner = LazyLLM(schedule or self.schedule, shortest=0, profile=None, **chosen)
        return planner.fitted(CASES[self.name].wide.facts)


@st.composite
def draws(draw: st.DrawFn, names: tuple[str, ...] = NAMES, most_stops: int = 3) -> Draw:
    name = draw(st.sampled_from(names))
    size = draw(st.integers(1, 40))
    free = draw(st.sets(st.integers(0, max(0, size - 2)), min_size=size // 2))
    legal = [layer for layer, window in enumerate(CASES[name].tiny.windows, 1) if window is None and layer < NUM_LAYERS]
    if not legal:
        size, legal = min(size, 6), [1, 2, 3]  # within mistral's window
    stops = sorted(draw(st.sets(st.sampled_from(legal), min_size=1, max_size=most_stops)))
    shares = sorted((draw(st.integers(1, 100)) for _ in stops), reverse=True)
    schedule = {stop: f"{share}%" for stop, share in zip(stops, shares, strict=True)}
    prompt = make_prompt(size, free, draw(st.integers(0, 1000)))
    return Draw(name, prompt, schedule, draw(st.sampled_from(SETTINGS)), draw(st.integers(0, 6)))


@given(draws())
@settings(max_examples=60, deadline=None, derandomize=True)
def test_keeping_all_is_the_full_run(drawn: Draw) -> None:
    full, lazy = drawn.run(None), drawn.run(drawn.lazy(dict.fromkeys(drawn.schedule, "100%")))
    for _ in range(drawn.steps + 1):
        assert gap(lazy.step(), full.step()) < FP64
        assert lazy.token == full.token


@given(draws(), st.booleans())
@settings(max_examples=120, deadline=None, derandomize=True)
def test_no_pair_is_computed_twice_and_never_more_than_a_full_run(drawn: Draw, wandering: bool) -> None:
    planner: Any = drawn.lazy()
    if wandering:
        planner = Wandering(tuple(drawn.schedule), planner.aux)
    size, held = len(drawn.prompt), set(drawn.prompt.protected.nonzero().flatten().tolist())
    run = drawn.run(planner)
    for _ in range(drawn.steps + 1):
        run.step()
    assert max(run.pairs.values()) == 1
    assert run.pairs.total() == sum(run.rows) <= (size + drawn.steps) * NUM_LAYERS
    assert all((pos, layer) in run.pairs for pos in held for layer in range(1, NUM_LAYERS + 1))
    assert set(run.again) <= set(run.pairs)
    assert bool(run.again) <= (planner.aux == "recompute")
    for layer, kv in enumerate(run.state.layers, 1):
        assert sorted(kv.pos[0].tolist()) == sorted(pos for pos, number in run.pairs if number == layer)
    aux = run.state.aux
    if aux is None:
        return
    assert len(aux.steps) == drawn.steps
    assert run.again.total() == sum(step.repeated for step in aux.steps)
    work = sum(step.token_layers - step.repeated for step in aux.steps)
    assert sum(run.rows) == sum(run.rows[:NUM_LAYERS]) + drawn.steps * NUM_LAYERS + work
    came = Counter(pos for pos, _ in run.pairs if pos < size)
    assert aux.reached.tolist() == [came[pos] for pos in range(size)]
    later = {pos for pos, layer in run.pairs if pos < size} if drawn.steps else set()
    assert set(aux.revived.nonzero().flatten().tolist()) <= later - held
    num_left = len({pos for pos in range(size) if aux.slot.numel() and int(aux.slot[pos]) >= 0})
    width = run.adapter.hidden_size * 8
    assert aux.nbytes == (num_left * width if aux.planner.aux == "keep" else 0)


@given(draws())
@settings(max_examples=60, deadline=None, derandomize=True)
def test_active_sets_nest_and_hold_the_protected_in_order(drawn: Draw) -> None:
    kept: list[tuple[int, int, list[int]]] = []
    held = set(drawn.prompt.protected.nonzero().flatten().tolist())

    class Told:
        """The planner, overheard."""

        def __getattr__(self, name: str) -> Any:
            return getattr(planner, name)

        def after(self, seen: Observation) -> Plan | None:
            plan = planner.after(seen)
            assert (plan is None) == (len(held) == len(drawn.prompt))
            if plan is None:
                return None
            kept.append((seen.step, seen.layer, plan.keep.tolist()))
            before = [keep for step, _, keep in kept[:-1] if step == seen.step]
            assert seen.pos.tolist() == (before[-1] if before else list(range(len(drawn.prompt))))
            return plan

    planner = drawn.lazy()
    run = drawn.run(Told())
    for _ in range(drawn.steps + 1):
        run.step()
    budgets = {layer: keep.count(len(drawn.prompt)) for layer, keep in planner.keeps(NUM_LAYERS).items()}
    by_step: dict[int, list[list[int]]] = {}
    for step, layer, keep in kept:
        assert keep == sorted(set(keep))
        assert held <= set(keep)
        if planner.selection == "per_step" or step == 0:
            assert len(keep) <= max(budgets[layer], len(held))
        by_step.setdefault(step, []).append(keep)
    for sets in by_step.values():
        assert all(set(deep) <= set(shallow) for shallow, deep in pairwise(sets))
    assert run.state.aux is None or sorted(by_step) == list(range(drawn.steps + 1))


@given(draws(("llama-r1", "llama-r2", "llama-r8", "qwen2-sliding", "gemma3"), most_stops=1))
@settings(max_examples=50, deadline=None, derandomize=True)
def test_recomputing_is_keeping_where_there_is_one_stop(drawn: Draw) -> None:
    choice = {name: value for name, value in drawn.settings.items() if name not in ("aux", "revive")}
    (stop,) = drawn.schedule
    runs = []
    for aux in ("keep", "recompute"):
        lazy = LazyLLM(drawn.schedule, aux, profile=None, shortest=0, **choice)
        runs.append(drawn.run(lazy.fitted(CASES[drawn.name].wide.facts)))
    keeps, again = runs
    for _ in range(drawn.steps + 1):
        assert gap(again.step(), keeps.step()) < FP64
        assert again.token == keeps.token
    one, other = keeps.state.aux, again.state.aux
    assert (one is None) == (other is None) == bool(drawn.prompt.protected.all())
    if one is None:
        return
    assert [step.active for step in one.steps] == [step.active for step in other.steps]
    assert [step.repeated for step in one.steps] == [0] * drawn.steps
    assert [step.repeated for step in other.steps] == [stop * step.revived for step in other.steps]
    assert [step.token_layers for step in other.steps] == [NUM_LAYERS * step.revived for step in other.steps]
    assert torch.equal(one.reached, other.reached)
    assert other.nbytes == 0


def test_tokens_chosen_to_bring_back_the_most_cost_no_more_than_a_full_run(plain: Case) -> None:
    lazy = LazyLLM({1: 12, 2: 8, 3: 5}, profile=None, shortest=0, revive_limit=None, revive_floor=0)
    run = Run(plain.wide, make_prompt(40, set(range(39)), 5), lazy)
    run.step()
    for _ in range(12):
        forks = [(Run(plain.wide, run.prompt, None, run.state.fork()), token) for token in range(0, VOCAB, 9)]
        for fork, token in forks:
            fork.step(token)
        worst = max(forks, key=lambda pair: pair[0].state.aux.steps[-1].token_layers)[1]
        run.step(worst)
    assert sum(step.revived for step in run.state.aux.steps) > 25
    assert int(run.state.aux.revived.sum()) > 15
    assert max(run.pairs.values()) == 1
    assert run.pairs.total() <= (40 + 12) * NUM_LAYERS


def test_hundreds_of_steps_past_the_reserved_rows(plain: Case) -> None:
    prompt = make_prompt(40, set(range(39)), 3)
    lazy = LazyLLM({1: 20, 2: 12, 3: 6}, profile=None, shortest=0, revive_limit=None, revive_floor=0)
    every = LazyLLM({1: "100%", 3: "100%"}, profile=None, shortest=0)
    runs = [Run(plain.wide, prompt, planner, State.new(NUM_LAYERS, 3)) for planner in (lazy, every, None)]
    tokens = torch.randint(0, VOCAB, (300,), generator=torch.Generator().manual_seed(8)).tolist()
    for token in (None, *tokens):
        pruned, kept, full = (run.step(token) for run in runs)
    assert gap(kept, full) < FP64
    assert pruned.isfinite().all()
    assert max(runs[0].pairs.values()) == 1
    assert runs[0].pairs.total() <= runs[2].pairs.total() == (40 + 300) * NUM_LAYERS
    assert int(runs[0].state.aux.revived.sum()) > 30
    assert runs[0].state.aux.nbytes == (40 - 6) * plain.wide.hidden_size * 8
