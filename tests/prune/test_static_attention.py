"""What the static planner ranks by is the attention of transformers' own eager model, averaged over heads."""

from __future__ import annotations

import copy

import pytest
import torch

from fewer import Observation, Plan, Prompt, StaticPrune
from fewer.kv import State
from fewer.model.adapter import Adapter
from fewer.model.forward import forward
from fewer.model.segment import Segment
from tiny import TINY, VOCAB

SIZE = 21


class Watching(StaticPrune):
    """The planner itself, with a memory."""

    def after(self, observation: Observation) -> Plan:
        watched.append(observation)
        return StaticPrune.after(self, observation)


watched: list[Observation] = []


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("layer", [1, 2, 3])
@pytest.mark.parametrize("family", ["llama-r2", "llama-r8", "mistral", "qwen3", "gemma3", "granite", "olmo2"])
def test_scores_are_the_eager_attention(
    device: torch.device, fp32: float, family: str, layer: int, fused: bool
) -> None:
    model = TINY[family].on(device).model
    ids = torch.randint(0, VOCAB, (SIZE,), generator=torch.Generator().manual_seed(layer))
    eager = copy.deepcopy(model)
    eager.set_attn_implementation("eager")
    with torch.no_grad():
        attention = eager(ids[None].to(device), output_attentions=True).attentions[layer - 1][0]
    expected = attention[:, -1].mean(0).cpu()  # [T]

    watched.clear()
    prompt = Prompt.from_ids(ids, sinks=2)
    adapter = Adapter(copy.deepcopy(model), fused=fused)
    company = [torch.randint(0, VOCAB, (size,), generator=torch.Generator().manual_seed(size)) for size in (4, 30)]
    segments = [Segment(State.new(4), other) for other in company]
    segments.insert(1, Segment(State.new(4), ids, Watching(7, layer), prompt))
    forward(adapter, segments)
    (observation,) = watched
    assert (observation.layer, observation.pos.tolist()) == (layer, list(range(SIZE)))
    assert observation.attention.dtype == torch.float32
    torch.testing.assert_close(observation.attention.mean(0).cpu(), expected, rtol=0, atol=fp32)
    torch.testing.assert_close(observation.attention.cpu(), attention[:, -1].cpu(), rtol=0, atol=fp32)

    free = (~prompt.protected).nonzero().flatten()
    best = free[expected[free].argsort(descending=True, stable=True)[:4]]
    margin = expected[free].sort(descending=True).values
    assert margin[3] - margin[4] > fp32  # not a tie, so the choice is certain
    assert segments[1].plans[0].keep.tolist() == sorted([0, 1, *best.tolist(), SIZE - 1])
