"""EntroPrefill on the embedded model in float32: it sees transformers' attention, and the document asked for stays."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from transformers import PreTrainedModel

from fewer import Engine, EntroPrefill, Look, Looked, Prompt, Request, Sampling
from fewer.prune.entroprefill.situation import Situation
from tolerances import GPU

pytestmark = pytest.mark.real

CITIES = ("Lyon", "Oslo", "Turin", "Porto", "Ghent", "Malmo")
WORDS = "is an old town at a river. Its market opens at eight in the morning, and people come from the villages around"
CODE = "7391"
PLANNER = EntroPrefill(preset="general", keep="60%", keep_at_most="90%", tolerance=0.4, audit_tolerance=0.4)


def lay_out(engine: Engine, gold: int) -> Prompt:
    """Six documents of which one has the code."""
    texts = [f"{city} {WORDS} to buy bread, cheese and flowers." for city in CITIES]
    texts[gold] += f" The secret code of the tower is {CODE}."
    documents = [{"title": city, "text": text} for city, text in zip(CITIES, texts, strict=True)]
    return engine.prompt("What is the secret code of the tower?", documents)


def test_the_document_asked_for_stays_and_the_answer_too(real: Engine) -> None:
    golds = (0, 4)
    prompts = [lay_out(real, gold) for gold in golds]
    planners = {"full": None, "pruned": PLANNER, "strict": replace(PLANNER, tolerance=1e-4)}
    requests = [
        Request(prompt, Sampling(max_tokens=14), planner) for planner in planners.values() for prompt in prompts
    ]
    answers = real.generate(requests)
    full, pruned, strict = answers[:2], answers[2:4], answers[4:]
    for gold, whole, answer, refused in zip(golds, full, pruned, strict, strict=True):
        receipt, size = answer.receipt, answer.receipt.prompt.num_tokens
        assert CODE in whole.text
        assert CODE in answer.text
        assert (refused.ids, refused.receipt.plans) == (whole.ids, ())
        assert {decision.outcome for decision in refused.receipt.decisions} == {"target infeasible"}
        (plan,), decision = receipt.plans, receipt.decisions[-1]
        assert decision.outcome == "accepted"
        assert 16 <= plan.layer == decision.layer <= 24
        gone = {chunk.title for chunk in receipt.prompt.chunks if chunk.kept_per_layer[-1] == 0}
        assert gone
        assert CITIES[gold] not in gone
        rows = receipt.computed.prefill_rows_per_layer
        assert rows == (size,) * plan.layer + (plan.num_kept,) * (30 - plan.layer)
        assert plan.num_kept <= 0.9 * size
        row = 2 * real.adapter.num_kv_heads * real.adapter.head_dim * 4
        assert plan.released_bytes == plan.layer * plan.num_dropped * row
        held = receipt.memory.kv_bytes_per_layer
        assert held == ((plan.num_kept + 14) * row,) * 30


def test_it_decides_by_transformers_attention(real: Engine, real_reference: PreTrainedModel) -> None:
    prompt = lay_out(real, 1)
    planner = replace(PLANNER, monitor="16:all").fitted(real.adapter.facts)
    (answer,) = real.generate([Request(prompt, Sampling(max_tokens=1), planner)])
    real_reference.set_attn_implementation("eager")
    try:
        with torch.inference_mode():
            out = real_reference.model(prompt.ids[None].to(real.adapter.device), output_attentions=True)
    finally:
        real_reference.set_attn_implementation("sdpa")
    positions = Situation.of(planner.settings, planner.heads, prompt).positions
    (look,) = planner.looks(prompt, 30)
    rows = out.attentions[15][0][:, list(positions)]
    seen = {look: Looked(torch.arange(len(prompt)), rows)}
    assert isinstance(look, Look)
    verdict = planner.judge(prompt, 16, seen)
    (decision,), (plan,) = answer.receipt.decisions, answer.receipt.plans
    assert verdict.outcome == decision.outcome == "accepted"
    assert plan.num_dropped == verdict.proposal.removal.saving
    titles = {chunk.title for chunk in answer.receipt.prompt.chunks if chunk.kept_per_layer[-1] == 0}
    removed = verdict.proposal.removal.removed
    assert titles == {chunk.title for chunk, gone in zip(prompt.chunks, removed, strict=True) if gone}
    for name in ("document_mass", "audit_mean", "removed_mass", "largest_row_loss"):
        assert decision.numbers[name] == pytest.approx(verdict.numbers[name], abs=GPU)
