"""LazyLLM's states: a fork goes its own way, and a pass that raises changes neither the keys nor the memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from cases import NUM_LAYERS, Case, gap
from lazy_runs import Run, make_prompt
from torch import Tensor

from fewer import LazyLLM
from fewer.aux_cache import AuxCache
from fewer.kv import State
from fewer.model.adapter import Adapter
from fewer.model.forward import forward
from fewer.model.segment import Segment
from fewer.types import Observation, Plan
from tolerances import FP64

LAZY = {"profile": None, "shortest": 0, "revive_limit": None, "revive_floor": 0}
SCHEDULE = {1: 14, 2: 8, 3: 5}


def picture(state: State) -> list[object]:
    """All that a state holds, as it is now."""
    aux = state.aux
    kv = [(layer.num_rows, layer.pos.tolist(), layer.k.tolist(), layer.v.tolist()) for layer in state.layers]
    return [
        *(state.num_seen, kv, aux.reached.tolist(), list(aux.steps), aux.revived.tolist(), aux.slot.tolist()),
        *(None if aux.states is None else aux.states.tolist(), {k: v.tolist() for k, v in aux.scores.items()}),
    ]


@pytest.mark.parametrize("aux", ["keep", "recompute", "off"])
def test_a_fork_goes_its_own_way(plain: Case, aux: str) -> None:
    settings = LAZY if aux != "off" else {"profile": None, "shortest": 0}

    def start() -> Run:
        run = Run(plain.wide, make_prompt(30, set(range(29)), 2), LazyLLM(SCHEDULE, aux, **settings))
        for token in (None, 7, 99):
            run.step(token)
        return run

    ways = ([5, 88, 41, 17, 3], [120, 60, 7, 1, 90])
    alone = []
    for way in ways:
        run = start()
        alone.append([run.step(token) for token in way])
    first = start()
    second = Run(plain.wide, first.prompt, None, first.state.fork())
    for index in range(5):  # in turn, so that anything shared would show
        for run, way, expected in zip((first, second), ways, alone, strict=True):
            assert torch.equal(run.step(way[index]), expected[index])
    assert aux == "off" or sum(step.revived for step in first.state.aux.steps) > 0
    assert first.state.aux.steps != second.state.aux.steps


@contextmanager
def broken(adapter: Adapter, place: str) -> Iterator[None]:
    """A layer, the rotary angles or the head raises."""

    def fail(*_: object) -> Tensor:
        raise RuntimeError("broke")

    if place in ("head", "embed"):
        setattr(adapter, place, fail)
    else:
        layers = adapter.layers
        adapter.layers = [fail if number == int(place) else layer for number, layer in enumerate(layers, 1)]
    try:
        yield
    finally:
        if place in ("head", "embed"):
            delattr(adapter, place)
        else:
            adapter.layers = layers


@pytest.mark.parametrize("aux", ["keep", "recompute"])
@pytest.mark.parametrize("place", ["embed", "1", "2", "3", "4", "head"])
def test_a_pass_that_raises_changes_nothing(plain: Case, aux: str, place: str) -> None:
    def start() -> Run:
        return Run(plain.wide, make_prompt(30, set(range(29)), 2), LazyLLM(SCHEDULE, aux, **LAZY))

    tokens = [None, 7, 99, 5, 88, 41]
    whole = start()
    expected = [whole.step(token) for token in tokens]
    run = start()
    for token, logits in zip(tokens, expected, strict=True):
        before = picture(run.state) if token is not None else None
        with broken(plain.wide, place), pytest.raises(RuntimeError, match="broke"):
            run.step(token)
        if before is None:
            assert [layer.num_rows for layer in run.state.layers] == [0] * NUM_LAYERS
            assert (run.state.num_seen, run.state.aux) == (0, None)
        else:
            assert picture(run.state) == before
        assert gap(run.step(token), logits) < FP64
    assert run.state.aux.steps == whole.state.aux.steps


@pytest.mark.parametrize("layer", [1, 2, 3])
def test_a_planner_that_raises_at_a_step_changes_nothing(plain: Case, layer: int) -> None:
    faults = []

    class Failing:
        """Raises where it is told to."""

        def __getattr__(self, name: str) -> Any:
            return getattr(lazy, name)

        def after(self, seen: Observation) -> Plan | None:
            if faults and seen.layer == layer:
                raise RuntimeError(faults.pop())
            return lazy.after(seen)

    lazy = LazyLLM(SCHEDULE, **LAZY)
    whole = Run(plain.wide, make_prompt(30, set(range(29)), 2), lazy)
    run = Run(plain.wide, whole.prompt, Failing())
    for token in (None, 7, 99, 5, 88):
        before = picture(run.state) if run.state.aux else None
        faults.append("the planner broke")
        with pytest.raises(RuntimeError, match="the planner broke"):
            run.step(token)
        assert (picture(run.state) if run.state.aux else None) == before
        assert gap(run.step(token), whole.step(token)) < FP64
    assert run.state.aux.steps == whole.state.aux.steps


@pytest.mark.parametrize("first", [True, False])
def test_memory_that_runs_out_for_a_neighbour_changes_nothing(
    plain: Case, monkeypatch: pytest.MonkeyPatch, first: bool
) -> None:
    def start() -> Run:
        return Run(plain.wide, make_prompt(30, set(range(29)), 2), LazyLLM(SCHEDULE, **LAZY))

    def refuse(*_: object) -> None:
        raise MemoryError("no room for the states")

    run, whole = start(), start()
    for token in (None, 7, 99):
        run.step(token)
        whole.step(token)
    other = make_prompt(25, set(range(24)), 9)
    before = picture(run.state)
    segments = [
        Segment(run.state, torch.tensor([5])),
        Segment(State.new(NUM_LAYERS), other.ids, LazyLLM(SCHEDULE, **LAZY), other),
    ]
    with monkeypatch.context() as patch:
        patch.setattr(AuxCache, "reserve", refuse)
        with pytest.raises(MemoryError, match="no room"):
            forward(plain.wide, segments if first else segments[::-1])
    assert picture(run.state) == before
    assert segments[1].state.aux is None
    for token in (5, 88, 41):
        assert gap(run.step(token), whole.step(token)) < FP64
    assert run.state.aux.steps == whole.state.aux.steps
