"""Prompts of 1 to 8 tokens at every budget, by every planner: what stays, and the answer, against the dense reference.

The reference computes every token of the prompt and of the answer at its true position, and looks only at what the
plan kept: a next position taken from the number of stored rows, or a lost sink, moves the log-probabilities.
"""

from __future__ import annotations

import pytest
import torch
from tinytext import NUM_LAYERS, SPEAKER, random_ids

from fewer import EndsPrune, Engine, Prompt, RandomPrune, Request, Sampling, StaticPrune
from fewer.engine.batch import Batch
from fewer.types import Planner
from reference import sight

MORE = 3
SETTINGS = Sampling(max_tokens=MORE, ignore_eos=True, logprobs=0)


def planners(keep: int | float) -> list[Planner]:
    return [
        kind(keep, layer, grain)
        for kind, layers in ((RandomPrune, (0, 2)), (EndsPrune, (0, 3)), (StaticPrune, (1, 3)))
        for layer in layers
        for grain in ("token", "chunk")
    ]


@pytest.mark.parametrize("sinks", [0, 1, 4])
@pytest.mark.parametrize("size", range(1, 9))
def test_every_budget(engine: Engine, fp32: float, size: int, sinks: int) -> None:
    prompt = Prompt.from_ids(random_ids(60 + size, size), sinks=sinks)
    batch = Batch(engine.adapter, engine.tokenizer, engine.end_tokens, max_running=500)
    sequences = [
        (batch.add(Request(prompt, SETTINGS, planner)), planner, budget)
        for budget in range(1, size + 1)
        for planner in planners(budget)
    ]
    while not batch.idle:
        batch.step()
    for sequence, planner, budget in sequences:
        assert sequence.error is None
        (plan,) = sequence.prefill.plans
        kept = plan.keep.tolist()
        assert kept == sorted(set(kept))
        assert set(prompt.protected.nonzero().flatten().tolist()) <= set(kept) <= set(range(size))
        assert size - 1 in kept
        if planner.grain == "token":
            assert len(kept) == max(budget, prompt.num_protected)
        else:
            assert len(kept) == (size if budget == size else prompt.num_protected)
        assert sequence.prefill.rows_per_layer == [size] * plan.layer + [len(kept)] * (NUM_LAYERS - plan.layer)
        assert sequence.state.num_seen == size + MORE - 1
        for layer in sequence.state.layers:
            assert layer.pos.tolist() == [[*kept, *range(size, size + MORE - 1)]]
        ids = torch.tensor([*prompt.ids.tolist(), *sequence.ids[:-1]])
        visible = sight(len(ids), [None] * NUM_LAYERS, size, ((plan.layer, kept),), release=True)
        expected = SPEAKER.dense.logits(ids, visible)[size - 1 :].log_softmax(-1)
        assert sequence.ids == expected.argmax(-1).tolist()
        ours = [entry.logprob for entry in sequence.sampler.logprobs]
        assert ours == pytest.approx(expected.max(-1).values.tolist(), abs=fp32)


@pytest.mark.parametrize("size", range(1, 9))
def test_keeping_all_is_bit_identical_to_not_pruning(engine: Engine, size: int) -> None:
    prompt = Prompt.from_ids(random_ids(60 + size, size), sinks=1)
    (plain,) = engine.generate([Request(prompt, SETTINGS)])
    for planner in [*planners(size), *planners(1.0)]:
        (answer,) = engine.generate([Request(prompt, SETTINGS, planner)])
        assert (answer.ids, answer.logprobs) == (plain.ids, plain.logprobs)
        assert answer.receipt.output == plain.receipt.output
        assert answer.receipt.computed == plain.receipt.computed
        assert answer.receipt.memory.kv_bytes_per_layer == plain.receipt.memory.kv_bytes_per_layer
        assert answer.receipt.plans[0].released_bytes == 0
        assert answer.receipt.bypass == ("the budget covers every token that may be left out",)


@pytest.mark.parametrize("size", range(1, 9))
def test_a_prompt_shorter_than_the_sinks(engine: Engine, size: int) -> None:
    prompt = Prompt.from_ids(random_ids(60 + size, size), sinks=20, recent=9)
    assert prompt.num_protected == size
    (answer,) = engine.generate([Request(prompt, SETTINGS, StaticPrune(1, 1))])
    assert answer.receipt.plans[0].num_dropped == 0
    assert answer.ids == engine.generate([Request(prompt, SETTINGS)])[0].ids
