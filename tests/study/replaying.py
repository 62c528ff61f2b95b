"""A made-up capture, so that replays can be tested without a model; and a tiny study."""

from __future__ import annotations

from typing import Any

import torch

from fewer.study.replay.capture import Captured
from fewer.study.replay.spec import ArmSpec, ReplayStudy

OURS = {"before": 0, "behind": 0, "core": 0, "size": "spread", "floor": 0.2}
TOPK = ArmSpec(name="topk", says="highest", policy="question", settings={"before": 0, "behind": 0})
PIVOTAL = ArmSpec(name="pivotal", says="ours", policy="pivotal:question", settings=OURS)


def make_captured(steps: int = 3, length: int = 80, layers: int = 2, seed: int = 0) -> Captured:
    """Four query heads on two key-value heads of dimension 8, in float32."""
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator)

    last, observed = length + steps, 20
    return Captured(
        k=tuple(draw(2, last, 8) for _ in range(layers)),
        v=tuple(draw(2, last, 8) for _ in range(layers)),
        q=tuple(2.0 * draw(4, observed + steps, 8) for _ in range(layers)),
        pos=torch.arange(last - observed - steps, last),
        scaling=(8**-0.5,) * layers,
        steps=steps,
    )


def make_study(**changes: Any) -> ReplayStudy:
    """Two short generated prompts, two arms and one claim."""
    content: dict[str, Any] = {
        "name": "tiny",
        "title": "A tiny replay",
        "seed": 5,
        "steps": 2,
        "budgets": [0.25, 0.5],
        "conditions": ["aware", "stream"],
        "delta": 0.1,
        "main": "pivotal",
        "reference": "topk",
        "factor": 0.5,
        "generated": [{"task": "passcode", "length": 700}, {"task": "ruler_niah_single_1", "length": 800}],
        "documents": {"tasks": ["tower_qa"], "shortest": 10, "longest": 1000},
        "arms": [TOPK.model_dump(), PIVOTAL.model_dump() | {"draws": 2}],
        "fewest": 2,
        "worlds": {"permutations": 2, "budget": 0.25},
        "claims": [{"id": "covers", "statement": "It covers.", "measure": "coverage", "at_least": 0.0}],
    }
    return ReplayStudy.model_validate(content | changes)
