"""What a receipt says of EntroPrefill: every outcome with its numbers, bytes and counts that add up."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from entro_requests import ask, chunked, entro
from tinytext import NUM_LAYERS

from fewer import (
    BadInput,
    Engine,
    Prompt,
    Receipt,
)


def receipt_of(engine: Engine, planner: Any, prompt: Prompt | None = None, **sampling: Any) -> Receipt:
    return engine.generate([ask(chunked(1) if prompt is None else prompt, planner, **sampling)])[0].receipt


def test_an_acceptance_on_the_receipt(engine: Engine) -> None:
    prompt, max_tokens = chunked(2), 10
    receipt = receipt_of(engine, entro(monitor="2:all"), prompt, max_tokens=max_tokens)
    (plan,), (decision,) = receipt.plans, receipt.decisions
    numbers, size = decision.numbers, len(prompt)
    assert (decision.layer, decision.outcome, receipt.bypass) == (2, "accepted", ())
    gone = [chunk for chunk in receipt.prompt.chunks if chunk.kept_per_layer[-1] == 0]
    assert 0 < len(gone) == numbers["removed_chunks"] < 4
    removed = sum(chunk.num_tokens for chunk in gone)
    assert (plan.num_dropped, plan.num_kept) == (removed, size - removed)
    assert removed == numbers["saving"] >= numbers["least"]
    assert plan.reason == f"{len(gone)} of 4 chunks removed"
    assert (plan.bound, plan.dual_gap) == (numbers["audit_bound"], numbers["dual_gap"])
    assert numbers["audit_bound"] == numbers["audit_mean"] <= numbers["audit_tolerance"] == 0.6
    for chunk in receipt.prompt.chunks:
        inside = chunk.num_tokens
        above = 0 if chunk in gone else inside
        assert chunk.kept_per_layer == (inside, inside, above, above)
    assert receipt.computed.prefill_rows_per_layer == (size, size, size - removed, size - removed)
    steps = max_tokens - 1
    assert receipt.computed.token_layers_full == (size + steps) * NUM_LAYERS
    assert receipt.computed.token_layers_skipped == 2 * removed
    row = 2 * engine.adapter.num_kv_heads * engine.adapter.head_dim * 4
    assert plan.released_bytes == 2 * removed * row
    assert receipt.memory.kv_bytes_per_layer == ((size - removed + max_tokens) * row,) * NUM_LAYERS
    full = receipt_of(engine, None, prompt, max_tokens=max_tokens)
    assert full.memory.kv_total_bytes - receipt.memory.kv_total_bytes == NUM_LAYERS * removed * row
    assert Receipt.model_validate_json(receipt.to_json()) == receipt


LOOSE = {"mass": "absolute", "tolerance": 0.9, "keep_at_most": "95%"}


@pytest.mark.parametrize(
    ("changes", "outcome", "numbers"),
    [
        ({"residual_min": 1.0}, "no residual mass", {"eligible_heads": 0, "fallback_groups": 2}),
        ({"document_min": 0.999}, "no document mass", {"candidates": 4, "candidate_tokens": 34}),
        ({"tolerance": 0.01}, "target infeasible", {"saving": 0, "least": 7, "removed_chunks": 0}),
        (
            {"audit_tolerance": 0.01, **LOOSE},
            "audit",
            {"audit_tolerance": 0.01, "audit_positions": 6, "audit_width": 0},
        ),
        ({"streak": 2, "streak_change": 0.0, "monitor": "1-3:0", **LOOSE}, "streak", {"streak_asked": 2}),
    ],
    ids=str,
)
def test_every_refusal_is_on_the_receipt_with_its_numbers(
    engine: Engine, changes: dict[str, Any], outcome: str, numbers: dict[str, float]
) -> None:
    receipt = receipt_of(engine, entro(**changes))
    assert [decision.layer for decision in receipt.decisions] == [1, 2, 3]
    assert {decision.outcome for decision in receipt.decisions} == {outcome}
    for decision in receipt.decisions:
        assert {name: decision.numbers[name] for name in numbers} == pytest.approx(numbers)
        assert decision.says
        if outcome == "target infeasible":
            assert decision.numbers["dual_bound"] < decision.numbers["least"]
    assert receipt.bypass == tuple(f"after layer {layer}: {outcome}" for layer in (1, 2, 3))
    assert (receipt.plans, receipt.computed.token_layers_skipped) == ((), 0)
    same_ids = receipt_of(engine, None).output
    assert receipt.output.num_tokens == same_ids.num_tokens


def test_a_target_that_was_not_met_and_is_not_proven_impossible(engine: Engine) -> None:
    found = set()
    for seed in range(30):
        receipt = receipt_of(
            engine, entro(monitor="2:all", keep="80%", keep_at_most="80%"), chunked(seed), max_tokens=1
        )
        for decision in receipt.decisions:
            found.add(decision.outcome)
            if decision.outcome == "target not met":
                assert decision.numbers["saving"] < decision.numbers["least"] <= decision.numbers["dual_bound"]
    assert {"target not met", "accepted"} <= found


@pytest.mark.parametrize(
    ("prompt", "changes", "why"),
    [
        (chunked(1, ()), {}, "no chunks: nothing before the query may be left out as a whole"),
        (replace(chunked(1), query=(0, 0)), {}, "no query: the prompt does not say which positions ask"),
        (chunked(1), {"shortest": 49}, "the prompt has 48 tokens, fewer than shortest asks for (49)"),
        (chunked(1), {"min_chunks": 4}, "4 chunks must stay (min_chunks), and 4 may leave: nothing could"),
        (chunked(1), {"min_chunks": 9}, "9 chunks must stay (min_chunks), and 4 may leave: nothing could"),
        (chunked(1), {"keep": "100%", "keep_at_most": "100%"}, "the budget covers every token"),
    ],
    ids=["no chunks", "no query", "short", "as many as must stay", "fewer", "all kept"],
)
def test_what_it_declines_is_run_as_without_pruning(
    engine: Engine, prompt: Prompt, changes: dict[str, Any], why: str
) -> None:
    (declined,), (full,) = engine.generate([ask(prompt, entro(**changes))]), engine.generate([ask(prompt, None)])
    assert declined.ids == full.ids
    assert declined.receipt.bypass == (why,)
    assert (declined.receipt.plans, declined.receipt.decisions) == ((), ())
    assert declined.receipt.computed == full.receipt.computed


def test_refused_everywhere_is_the_full_run(engine: Engine) -> None:
    prompt = chunked(6)
    refused, full = receipt_of(engine, entro(tolerance=0.01), prompt), receipt_of(engine, None, prompt)
    assert {decision.outcome for decision in refused.decisions} == {"target infeasible"}
    assert refused.output == full.output
    assert refused.memory.kv_bytes_per_layer == full.memory.kv_bytes_per_layer


def test_what_was_asked_for_is_on_it(engine: Engine) -> None:
    prune = receipt_of(engine, entro(monitor="2:1, 3:all")).settings.prune
    assert prune["name"] == "entroprefill"
    assert (prune["monitor"], prune["profile"], prune["preset"]) == ("2:1, 3:0+1+2+3", "none", "default")
    assert (prune["keep"], prune["tolerance"], prune["tau"]) == ("50%", 0.6, 1.0)


def test_settings_that_do_not_fit_are_refused_before_anything_runs(engine: Engine) -> None:
    with pytest.raises(BadInput, match="keep is 49; it must be at most 48, the prompt's tokens"):
        receipt_of(engine, entro(keep=49, keep_at_most=49))
    with pytest.raises(BadInput, match="monitor is '4'; it must be layers from 1 to 3"):
        receipt_of(engine, entro(monitor="4:all"))
    with pytest.raises(BadInput, match="a head of monitor is 4; it must be from 0 to 3"):
        receipt_of(engine, entro(monitor="3:4"))


def test_documents_and_a_question(engine: Engine) -> None:
    documents = [f"the water {number} in a hello" for number in range(4)]
    planner = entro(tolerance=0.9, audit_tolerance=0.9, keep="60%", keep_at_most="95%", mass="absolute")
    answer = engine.ask("who?", documents, prune=planner, max_tokens=5, sinks=2, chat=False)
    assert [decision.outcome for decision in answer.receipt.decisions] == ["accepted"]
    gone = [chunk for chunk in answer.receipt.prompt.chunks if chunk.kept_per_layer[-1] == 0]
    assert 1 <= len(gone) <= 3
    assert all(chunk.kept_per_layer[-1] in (0, chunk.num_tokens) for chunk in answer.receipt.prompt.chunks)
