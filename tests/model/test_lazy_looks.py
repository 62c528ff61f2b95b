"""What LazyLLM sees of the layers, in the prefill and at later steps, held against the dense oracle's attention."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from cases import CASES, NUM_LAYERS
from lazy_runs import Run, make_prompt
from torch import Tensor

from fewer import LazyLLM
from fewer.prune.profile import Profile
from fewer.types import Observation, Plan, Prompt
from lazy import Lazy
from tolerances import FP64

SIZE, TOKENS = 26, (7, 99, 5, 88, 41)
PAPER = {"revive_limit": None, "revive_floor": 0}


@dataclass
class Following(Lazy):
    """The oracle, told what was chosen; keeps each stop's attention weights."""

    told: list[dict[int, set[int]]] = field(default_factory=list)
    weights: list[dict[int, list[Tensor]]] = field(default_factory=list)

    def _choose(self, layer: int, active: set[int], total: int, moved: set[int]) -> set[int]:
        step = len(self.chosen) - 1
        self.weights.extend({} for _ in range(step + 1 - len(self.weights)))
        self.weights[step][layer] = self._run(total)[1]
        return self.told[step][layer]


class Overheard:
    """A planner whose observations and plans are written down."""

    def __init__(self, planner: LazyLLM) -> None:
        self.planner = planner
        self.seen: list[tuple[Observation, Plan]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.planner, name)

    def after(self, seen: Observation) -> Plan | None:
        plan = self.planner.after(seen)
        self.seen.append((seen, plan))
        return plan


def profile_of(name: str) -> Profile:
    facts = CASES[name].wide.facts
    heads = [{"layer": 2, "head": 3, "weight": 0.5}, {"layer": 1, "head": 1}, {"layer": 2, "head": 0, "weight": 2.0}]
    return Profile(
        format="fewer-profile",
        version=1,
        model=name,
        fingerprint=facts.fingerprint,
        num_layers=facts.num_layers,
        num_heads=facts.num_heads,
        before=1,
        after=2,
        scores=[{"layer": 1, "heads": [{"layer": 1, "head": 2}]}, {"layer": 2, "heads": heads}],
        presets={},
        fitted_on={},
    )


def run_both(name: str, planner: LazyLLM, prompt: Prompt) -> tuple[Overheard, Following]:
    case = CASES[name]
    overheard = Overheard(planner.fitted(case.wide.facts))
    run = Run(case.wide, prompt, overheard)
    ids = torch.cat([prompt.ids, torch.tensor(TOKENS)])
    oracle = Following(case.tiny.dense, case.tiny.windows, ids, SIZE, dict(overheard.keeps(NUM_LAYERS)), frozenset())
    for token in (None, *TOKENS):
        logits = run.step(token)
        step = len(oracle.told)
        kept = {seen.layer: set(plan.keep.tolist()) for seen, plan in overheard.seen if seen.step == step}
        oracle.told.append(kept)
        assert float((oracle.step() - logits).abs().max()) < FP64
    return overheard, oracle


def prompt_with_tail() -> Prompt:
    """The last four tokens and one of the others are protected."""
    return make_prompt(SIZE, set(range(SIZE - 4)) - {9}, 4)


@pytest.mark.parametrize("name", ["llama-r2", "llama-r8", "qwen2-sliding", "gemma3", "olmo2-r2"])
@pytest.mark.parametrize("switches", [PAPER, {"revive": False}, {"aux": "recompute", **PAPER}], ids=str)
def test_the_newest_row_is_the_oracles(name: str, switches: dict[str, Any]) -> None:
    once = "sliding" in name or name == "gemma3" or switches.get("aux") == "recompute"
    schedule = {2: 12} if once else {1: 18, 2: 12, 3: 9}  # recomputed over several stops, states are others
    planner = LazyLLM(schedule, profile=None, shortest=0, **switches)
    overheard, oracle = run_both(name, planner, prompt_with_tail())
    for seen, _ in overheard.seen:
        dense = oracle.weights[seen.step][seen.layer][seen.layer - 1][:, SIZE - 1 + seen.step, seen.pos]
        assert float((seen.attention - dense).abs().max()) < FP64


@pytest.mark.parametrize("name", ["llama-r2", "llama-r2-unfused", "gemma3"])
@pytest.mark.parametrize("switches", [PAPER, {}, {"revive": False}, {"aux": "recompute", **PAPER}], ids=str)
def test_a_profiles_score_is_the_oracles(name: str, switches: dict[str, Any]) -> None:
    once = name == "gemma3" or switches.get("aux") == "recompute"
    schedule = {2: 14} if once else {1: 20, 2: 14, 3: 10}
    prompt, profile = prompt_with_tail(), profile_of(name)
    overheard, oracle = run_both(name, LazyLLM(schedule, profile=profile, shortest=0, **switches), prompt)
    free = (~prompt.protected).double()
    for seen, plan in overheard.seen:
        score = profile.score_at(seen.layer)
        rows = slice(SIZE - 4, SIZE) if seen.step == 0 else slice(SIZE - 1 + seen.step, SIZE + seen.step)
        total = torch.zeros(SIZE, dtype=torch.float64)
        for head in score.heads:
            weights = oracle.weights[seen.step][seen.layer][head.layer - 1][head.head]
            before = [layer for layer in oracle.told[seen.step] if layer < head.layer]
            active = torch.zeros(SIZE, dtype=torch.float64)
            active[sorted(oracle.told[seen.step][before[-1]]) if before else slice(None)] = 1.0
            most = weights[rows, :SIZE].amax(0) * free * active
            total += head.weight * (most / most.sum() if seen.step == 0 else most)
        spread = torch.stack([total[max(0, place - 2) : place + 2].sum() / 4 for place in range(SIZE)])[seen.pos]
        if seen.step == 0:
            assert float((plan.score - spread).abs().max()) < FP64
        else:
            looked = profile.add_up(score, seen.looked, seen.pos, prompt)
            assert float((looked - spread).abs().max()) < FP64
            assert torch.equal(seen.first_score, overheard_score(overheard, seen))


def overheard_score(overheard: Overheard, seen: Observation) -> Tensor:
    """The prefill's score of the same stop, at the positions that are active now."""
    (first,) = [pair for pair in overheard.seen if (pair[0].step, pair[0].layer) == (0, seen.layer)]
    table = torch.full((SIZE,), float("-inf"))
    table[first[0].pos] = first[1].score.float()
    return table[seen.pos]
