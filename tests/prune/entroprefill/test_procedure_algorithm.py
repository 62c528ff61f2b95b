"""Algorithm 1 on one layer: the plain algorithm's verdict, and what must not change it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from algorithm import Slow, slow_decide
from deciding import (
    ALL,
    GROUPS,
    HEADS,
    attention_of,
    plain_of,
    plain_rows,
    prompt_of,
    removed_of,
    situation_of,
    spread,
    verdict_of,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from fewer import Chunk, Prompt
from fewer.prune.entroprefill.procedure import Verdict
from fewer.prune.entroprefill.situation import Situation
from tolerances import FP64

PROMPT = prompt_of(10, 10, 10, 10)  # 51 tokens: 2 sinks, 4 chunks with a gap each, 4 of query, 1 behind
SHARES = (0.05, 0.3, 0.1, 0.2)


def judge(prompt: Prompt, rows: Tensor, **changes: Any) -> Verdict:
    return verdict_of(situation_of(prompt, **changes), rows)


def slow(situation: Situation, rows: Tensor, heads: tuple[int, ...] = ALL) -> Slow:
    audit = None if situation.settings.audit == "off" else situation.draw().positions
    prompt = situation.prompt
    return slow_decide(
        plain_of(prompt),
        plain_rows(prompt, rows),
        HEADS,
        GROUPS,
        heads,
        situation.observers,
        audit,
        situation.protocol.num_pairs,
        situation.settings,
    )


def agree(situation: Situation, rows: Tensor, heads: tuple[int, ...] = ALL) -> Verdict:
    """Decide, and hold everything against the plain algorithm."""
    verdict, expected = verdict_of(situation, rows), slow(situation, rows, heads)
    numbers = verdict.numbers
    assert verdict.outcome in expected.outcomes
    assert removed_of(verdict, situation) == expected.removed
    assert numbers.get("saving") == expected.saving
    assert numbers.get("document_mass") == pytest.approx(expected.document_mass, abs=FP64)
    if "dual_bound" in numbers:
        assert numbers["dual_bound"] >= expected.optimum >= expected.saving
        assert numbers["dual_gap"] == pytest.approx(numbers["dual_bound"] - expected.saving)
    assert ("audit_bound" in numbers) == (expected.lost is not None)
    if expected.lost is not None:
        assert numbers["audit_mean"] == pytest.approx(max(expected.lost), abs=FP64)
        assert numbers["audit_bound"] == pytest.approx(min(1.0, max(expected.lost) + expected.width), abs=FP64)
        assert numbers["audit_width"] == pytest.approx(expected.width, abs=FP64)
    return verdict


@st.composite
def cases(draw: st.DrawFn) -> tuple[Situation, Tensor, tuple[int, ...]]:
    count = draw(st.integers(1, 7))
    sizes = [draw(st.integers(1, 9)) for _ in range(count)]
    prompt = prompt_of(
        *sizes, gap=draw(st.integers(0, 2)), query=draw(st.integers(1, 9)), seed=draw(st.integers(0, 99))
    )
    keep, most = sorted(draw(st.integers(20, 99)) for _ in range(2))
    heads = tuple(sorted(draw(st.sets(st.integers(0, HEADS - 1), min_size=1))))
    changes: dict[str, Any] = {
        "keep": f"{keep}%",
        "keep_at_most": f"{most}%",
        "tolerance": draw(st.sampled_from([0.02, 0.1, 0.2, 0.4, 0.7, 0.999])),
        "audit_tolerance": draw(st.sampled_from([0.1, 0.3, 0.6, 0.999])),
        "order": draw(st.sampled_from(["entropy", "mass", "row"])),
        "mass": draw(st.sampled_from(["absolute", "document"])),
        "audit": draw(st.sampled_from(["exact", "hoeffding", "off", "auto"])),
        "audit_draws": draw(st.sampled_from([1, 20, 900])),
        "observers": draw(st.integers(1, 10)),
        "choose_observers": draw(st.sampled_from(["suffix", "sample"])),
        "min_chunks": draw(st.integers(0, 3)),
        "lift_at_most": draw(st.sampled_from([0.3, 0.8, 1.0, 1.5, 1e6])),
        "tau": draw(st.sampled_from([0.05, 1.0, 20.0])),
        "zeta": draw(st.sampled_from([0.01, 0.1, 1.0])),
        "document_min": draw(st.sampled_from([1e-9, 0.4, 0.8])),
        "residual_min": draw(st.sampled_from([1e-6, 0.9])),
        "sinks": draw(st.integers(0, 4)),
        "smoothing": draw(st.sampled_from([1e-3, 0.5])),
        "concentration": draw(st.sampled_from([0.0, 1.0, 5.0])),
        "seed": draw(st.integers(0, 3)),
    }
    rows = attention_of(prompt, draw(st.integers(0, 9999)), draw(st.sampled_from([0.3, 1.5, 4.0])))
    return situation_of(prompt, heads=heads, **changes), rows, heads


@given(cases())
@settings(max_examples=100, deadline=None, derandomize=True)
def test_it_is_the_plain_algorithm(case: tuple[Situation, Tensor, tuple[int, ...]]) -> None:
    agree(*case)


def test_many_layers_of_a_larger_prompt_are_the_plain_algorithms() -> None:
    seen: dict[str, int] = {}
    for seed in range(60):
        prompt = prompt_of(*(3 + (seed * 7 + 5 * i) % 11 for i in range(8)), query=6, seed=seed)
        changes = {"tolerance": (0.1, 0.4, 0.5)[seed % 3], "keep": "55%", "keep_at_most": "75%"}
        mass = ("absolute", "document")[seed % 2]
        situation = situation_of(prompt, mass=mass, observers=3, audit_tolerance=0.35, document_min=0.3, **changes)
        verdict = agree(situation, attention_of(prompt, seed, 0.5 + seed % 4))
        seen[verdict.outcome] = seen.get(verdict.outcome, 0) + 1
    assert min(seen.get(name, 0) for name in ("accepted", "audit", "target not met", "target infeasible")) >= 5


@pytest.mark.parametrize("order", ["entropy", "mass", "row"])
@pytest.mark.parametrize("mass", ["absolute", "document"])
def test_moving_the_chunks_moves_the_decision(order: str, mass: str) -> None:
    sizes, turn = [5, 9, 3, 7, 6, 4], [3, 0, 5, 1, 4, 2]
    prompt, turned = prompt_of(*sizes), prompt_of(*(sizes[i] for i in turn))
    columns = list(range(len(prompt)))
    for place, i in enumerate(turn):
        columns[turned.chunks[place].start : turned.chunks[place].stop] = range(
            prompt.chunks[i].start, prompt.chunks[i].stop
        )
    gaps = [j for j in range(len(prompt)) if turned.protected[j]]  # the gaps' rows go anywhere, in order
    for j, source in zip(gaps, [j for j in range(len(prompt)) if prompt.protected[j]], strict=True):
        columns[j] = source
    changes = {"order": order, "mass": mass, "tolerance": 0.35, "audit_tolerance": 0.35, "keep": "60%"}
    outcomes = set()
    for seed in range(20):
        rows = attention_of(prompt, seed)
        first, second = situation_of(prompt, **changes), situation_of(turned, **changes)
        one, two = verdict_of(first, rows), verdict_of(second, rows[..., columns])
        assert one.outcome == two.outcome
        assert {turn[i] for i in removed_of(two, second) or ()} == set(removed_of(one, first) or ())
        assert one.numbers["document_mass"] == pytest.approx(two.numbers["document_mass"])
        outcomes.add(one.outcome)
    assert "accepted" in outcomes


def test_ties_go_to_the_longer_and_then_the_earlier_chunk() -> None:
    prompt = prompt_of(4, 6, 4, 6, 4)
    even = spread(prompt, 0.08, 0.12, 0.08, 0.12, 0.08)  # one attention on every token
    for order, mass in (("entropy", "absolute"), ("mass", "document")):
        situation = situation_of(prompt, order=order, mass=mass, tolerance=0.99, audit_tolerance=0.99, keep=23)
        assert situation.target == 13
        assert removed_of(verdict_of(situation, even), situation) == [0, 1, 3]
    alike = spread(prompt, 0.1, 0.1, 0.1, 0.1, 0.1)  # one mass on every chunk
    for budget, removed in ((30, [1]), (25, [1, 3]), (20, [0, 1, 3]), (16, [0, 1, 2, 3])):
        situation = situation_of(
            prompt, order="row", mass="absolute", tolerance=0.99, audit_tolerance=0.99, keep=budget
        )
        assert removed_of(verdict_of(situation, alike), situation) == removed
        assert situation.target == len(prompt) - budget


def test_chunks_of_one_token() -> None:
    prompt = prompt_of(1, 1, 1, 1, gap=0)
    for order in ("entropy", "mass", "row"):
        situation = situation_of(prompt, order=order, tolerance=0.5, audit_tolerance=0.5, keep=9, keep_at_most=9)
        verdict = agree(situation, spread(prompt, 0.3, 0.1, 0.25, 0.05))
        assert (verdict.outcome, removed_of(verdict, situation)) == ("accepted", [1, 3])


def test_chunks_that_touch_what_is_protected_or_lie_behind_the_query_stay() -> None:
    protected = torch.ones(40, dtype=torch.bool)
    chunks = [Chunk("touched", 2, 9), Chunk("free", 10, 16), Chunk("free too", 16, 22), Chunk("behind", 30, 36)]
    for chunk in chunks:
        protected[chunk.start : chunk.stop] = False
    protected[5] = True
    prompt = Prompt(torch.arange(40), protected, tuple(chunks), (24, 28))
    situation = situation_of(prompt, mass="absolute", tolerance=0.9, audit_tolerance=0.9, min_chunks=0, keep=1)
    assert situation.candidates.index == (1, 2)
    verdict = agree(situation, attention_of(prompt, 3))
    assert removed_of(verdict, situation) == [1, 2]
    assert verdict.numbers["candidate_tokens"] == verdict.numbers["target"] == 12
    across = replace(prompt, query=(20, 28))  # the second one holds a row of the query
    assert situation_of(across).candidates.index == (1,)


def test_only_the_monitored_heads_constrain() -> None:
    rows = spread(PROMPT, *SHARES)
    rows[3] = spread(PROMPT, 0.45, 0.0, 0.45, 0.0)[3]  # this one looks at what the others leave
    changes = {"order": "mass", "mass": "absolute", "tolerance": 0.2, "keep": "65%", "keep_at_most": "65%"}
    held = verdict_of(situation_of(PROMPT, **changes), rows)
    free = verdict_of(situation_of(PROMPT, heads=(0, 1, 2), **changes), rows)
    assert (held.outcome, free.outcome) == ("target infeasible", "accepted")
    assert held.proposal.pooled.mu.tolist() == free.proposal.pooled.mu.tolist()
    agree(situation_of(PROMPT, heads=(0, 1, 2), **changes), rows, (0, 1, 2))


def test_float32_rows_decide_alike() -> None:
    for seed in range(20):
        situation = situation_of(PROMPT, tolerance=0.6, audit_tolerance=0.6)
        rows = attention_of(PROMPT, seed)
        wide, narrow = verdict_of(situation, rows), verdict_of(situation, rows.float())
        assert wide.outcome == narrow.outcome
        assert removed_of(wide, situation) == removed_of(narrow, situation)
        assert wide.numbers["document_mass"] == pytest.approx(narrow.numbers["document_mass"], abs=1e-6)


def test_without_time_for_the_linear_program_prices_come_from_single_rows() -> None:
    for seed in range(20):
        rows = attention_of(PROMPT, seed)
        verdict = agree(situation_of(PROMPT, tolerance=0.1, lp_seconds=1e-12), rows)
        usual = judge(PROMPT, rows, tolerance=0.1)
        assert verdict.numbers["dual_bound"] >= usual.numbers["dual_bound"] - 1e-6
