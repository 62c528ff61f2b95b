"""Choosing anew at every step, and bringing tokens back: held against the dense oracle, in float64."""

from __future__ import annotations

import pytest
import torch
from cases import CASES, NUM_LAYERS, Case, gap
from torch import Tensor

from fewer import LazyLLM
from fewer.kv import State
from fewer.model.forward import forward
from fewer.model.segment import Segment
from fewer.types import Prompt
from lazy import Lazy
from tiny import VOCAB
from tolerances import FP64

SCHEDULES = ({1: 9, 3: 4}, {2: 6}, {1: 14, 2: 8, 3: 5}, {3: 3}, {1: 3, 2: 3, 3: 3})
MODES = {
    "per_step-as-in-the-paper": {"revive_limit": None, "revive_floor": 0},
    "per_step-limited": {"revive_limit": 2, "revive_floor": 0},
    "per_step-floor": {"revive_floor": 0.9},
    "per_step-off": {"revive": False},
    "prefill-revive": {"selection": "prefill", "revive_limit": None},
    "prefill-limited": {"selection": "prefill", "revive_limit": 1},
    "prefill-off": {"selection": "prefill", "revive": False},
}


def draw(seed: int, size: int) -> Tensor:
    return torch.randint(0, VOCAB, (size,), generator=torch.Generator().manual_seed(seed))


def lazy_of(case: Case, ids: Tensor, prompt: Prompt, schedule: dict[int, int], mode: dict[str, object]) -> Lazy:
    return Lazy(
        case.tiny.dense,
        case.tiny.windows,
        ids,
        len(prompt),
        schedule,
        frozenset(prompt.protected.nonzero().flatten().tolist()),
        mode.get("selection") != "prefill",
        mode.get("revive", True) is not False,
        mode.get("revive_limit", 16),  # type: ignore[arg-type]
        mode.get("revive_floor", 1.0),  # type: ignore[arg-type]
    )


class Run:
    """One generation of given tokens under LazyLLM, in float64, beside the oracle."""

    def __init__(self, case: Case, seed: int, size: int, schedule: dict[int, int], mode: dict[str, object]) -> None:
        self.case, self.ids = case, draw(seed, size + 6)
        self.prompt = Prompt.from_ids(self.ids[:size], sinks=1, recent=1)
        self.planner = LazyLLM(schedule, shortest=0, **mode)  # type: ignore[arg-type]
        self.lazy = lazy_of(case, self.ids, self.prompt, schedule, mode)
        self.state = State.new(NUM_LAYERS)
        self.next = size

    def segment(self) -> Segment:
        if self.state.num_seen == 0:
            return Segment(self.state, self.prompt.ids, self.planner, self.prompt)
        self.next += 1
        return Segment(self.state, self.ids[self.next - 1 : self.next])

    def step(self) -> float:
        segment = self.segment()
        (ours,) = forward(self.case.wide, [segment])
        return gap(ours[0], self.lazy.step())


@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
@pytest.mark.parametrize("name", CASES)
def test_every_step_is_the_dense_oracles(name: str, mode: dict[str, object]) -> None:
    for number, schedule in enumerate(SCHEDULES):
        run = Run(CASES[name], 7 + number, 23, schedule, mode)
        assert max(run.step() for _ in range(6)) < FP64
        if run.state.aux is not None:
            assert [step.revived for step in run.state.aux.steps] == run.lazy.revived[1:]
            assert [step.token_layers for step in run.state.aux.steps] == run.lazy.worked[1:]
            assert [list(step.active) for step in run.state.aux.steps] == [
                [len(kept) for kept in chosen.values()] for chosen in run.lazy.chosen[1:]
            ]
            came = [sum(token in seen for seen in run.lazy.seen) for token in range(len(run.prompt))]
            assert run.state.aux.reached.tolist() == came


def test_logits_of_all_rows_are_those_of_the_new_tokens(plain: Case) -> None:
    run = Run(plain, 3, 23, {1: 9, 3: 4}, MODES["per_step-as-in-the-paper"])
    run.step()
    for _ in range(4):
        segment = run.segment()
        segment.logits = "all"
        (ours,) = forward(plain.wide, [segment])
        assert gap(ours, run.lazy.step()[None]) < FP64
    assert sum(run.lazy.revived) > 0
