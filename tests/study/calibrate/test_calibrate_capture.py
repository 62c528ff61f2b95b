"""What is seen of a tiny model: held against transformers' own attention, and against what LazyLLM will see."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from studying import make_rows, write_rows
from transformers import AutoModelForCausalLM

from fewer.engine import Engine
from fewer.kv import State
from fewer.model.forward import forward
from fewer.model.segment import Segment
from fewer.prune import LazyLLM
from fewer.prune.profile import Head, Profile, Score
from fewer.study.calibrate.capture import Watcher, capture
from fewer.study.calibrate.items import Labelled, gather
from fewer.study.calibrate.recall import spread
from fewer.types import Observation, Plan


@pytest.fixture(scope="module")
def engine(model_folder: Path) -> Engine:
    return Engine.load(str(model_folder), dtype="float32")


@pytest.fixture(scope="module")
def labelled(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Labelled:
    folder = tmp_path_factory.mktemp("rows")
    write_rows(folder, make_rows(2))
    return gather(engine, ["tower_qa"], folder, length=0, num_prompts=2, seed=0)[0]


def test_shares_are_transformers_attention(engine: Engine, labelled: Labelled, model_folder: Path) -> None:
    seen, prompt = capture(engine, labelled), labelled.prompt
    model = AutoModelForCausalLM.from_pretrained(model_folder, attn_implementation="eager", dtype=torch.float32)
    with torch.inference_mode():
        attention = torch.cat(model(prompt.ids[None], output_attentions=True).attentions)  # [layers, heads, T, T]
    first = int(seen.free[-1]) + 1
    most = attention[:, :, first:].amax(2)[..., seen.free]
    assert seen.shares.shape == (4, engine.adapter.num_heads, seen.free.numel())
    torch.testing.assert_close(seen.shares, most / most.sum(-1, keepdim=True), rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(seen.newest, attention[:, :, -1].mean(1)[..., seen.free], rtol=1e-4, atol=1e-6)
    assert torch.equal(seen.free, (~prompt.protected).nonzero().flatten())
    assert torch.equal(seen.answer, labelled.answer[seen.free])
    assert (seen.size, seen.task) == (len(prompt), "tower_qa")


def test_one_layer_is_in_memory_at_a_time(engine: Engine, labelled: Labelled) -> None:
    counts: list[int] = []

    class Counter(Watcher):
        def after(self, observation: Observation) -> None:
            counts.append(len(observation.looked))
            super().after(observation)

    watcher = Counter(labelled.prompt)
    watcher.segment = Segment(State.new(4), labelled.prompt.ids, watcher, labelled.prompt)
    forward(engine.adapter, [watcher.segment])
    assert counts == [1, 1, 1, 1]


def test_lazyllm_sees_the_same_and_ranks_the_same(engine: Engine, labelled: Labelled) -> None:
    facts, prompt, seen = engine.adapter.facts, labelled.prompt, capture(engine, labelled)
    heads = [(1, 1), (2, 0)]
    profile = Profile(
        format="fewer-profile",
        version=1,
        model=facts.name,
        fingerprint=facts.fingerprint,
        num_layers=4,
        num_heads=facts.num_heads,
        before=6,
        after=12,
        scores=(Score(layer=2, heads=tuple(Head(layer=layer, head=head) for layer, head in heads)),),
        presets={},
        fitted_on={},
    )
    planner = LazyLLM("2:40%", profile=profile, aux="off", selection="prefill", shortest=0).fitted(facts)
    rows = {look.rows for look in Watcher(prompt).looks(prompt, 4)}
    assert {look.rows for look in planner.looks(prompt, 4)} == rows
    segment = Segment(State.new(4), prompt.ids, planner, prompt)
    forward(engine.adapter, [segment])
    (plan,) = segment.plans
    assert isinstance(plan, Plan)
    assert plan.score is not None
    expected = spread(sum(seen.shares[layer - 1, head] for layer, head in heads), seen, 6, 12) / 19
    torch.testing.assert_close(plan.score[seen.free], expected.float(), rtol=1e-4, atol=1e-7)
    room = plan.keep.numel() - prompt.num_protected
    best = torch.sort(expected, descending=True, stable=True).indices[:room]
    assert set(seen.free[best].tolist()) == set(plan.keep.tolist()) - set(prompt.protected.nonzero().flatten().tolist())
