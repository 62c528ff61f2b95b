"""Algorithm 1 on one layer: every outcome in a made-up case, with its numbers."""

from __future__ import annotations

from dataclasses import replace
from math import log, sqrt
from typing import Any

import pytest
import torch
from deciding import (
    GROUPS,
    HEADS,
    LAYER,
    attention_of,
    prompt_of,
    removed_of,
    rows_at,
    situation_of,
    spread,
    verdict_of,
)
from torch import Tensor

from fewer import Prompt
from fewer.prune.entroprefill import OUTCOMES
from fewer.prune.entroprefill.procedure import Proposal, Verdict, decide, propose
from tolerances import FP64

PROMPT = prompt_of(10, 10, 10, 10)  # 51 tokens: 2 sinks, 4 chunks with a gap each, 4 of query, 1 behind
SHARES = (0.05, 0.3, 0.1, 0.2)


def judge(prompt: Prompt, rows: Tensor, **changes: Any) -> Verdict:
    return verdict_of(situation_of(prompt, **changes), rows)


def test_accepted() -> None:
    verdict = judge(PROMPT, spread(PROMPT, *SHARES, sink=0.1), mass="absolute", tolerance=0.2, keep="65%")
    # 51 - 33 = 18 tokens to leave: chunks 0 and 2, and together they are .15 of every row
    assert verdict.outcome == "accepted"
    assert verdict.proposal.removal.removed.tolist() == [True, False, True, False]
    expected = {
        "candidates": 4,
        "candidate_tokens": 40,
        "target": 18,
        "least": 5,
        "eligible_heads": 4,
        "fallback_groups": 0,
        "document_mass": 0.65,
        "saving": 20,
        "removed_chunks": 2,
        "removed_mass": 0.15,
        "largest_row_loss": 0.15,
        "open_tokens": 40,
        "largest_lift": 0.1 / 0.65 * 4,
        "lift_at_most": 1e6,
        "tolerance": 0.2,
        "envelope": 1.0,
        "dual_bound": 22.5,  # a fractional knapsack: chunks 0 and 2 whole, and a quarter of chunk 3
        "dual_gap": 2.5,
        "audit_bound": 0.15,
        "audit_mean": 0.15,
        "audit_tolerance": 0.3,
        "audit_positions": 4,
        "audit_worst_head": 0,
        "audit_worst_layer": verdict.layer,
        "audit_width": 0.0,
        "hoeffding_width": sqrt(log(4 / 0.05) / 128),
        "hoeffding_room": 0.3 - sqrt(log(4 / 0.05) / 128),
    }
    assert {name: verdict.numbers[name] for name in expected} == pytest.approx(expected, abs=1e-6)
    assert {"seconds", "dual_seconds"} <= set(verdict.numbers) - set(expected)
    assert verdict.numbers["seconds"] >= verdict.numbers["dual_seconds"] > 0


def test_shares_of_the_document_mass() -> None:
    verdict = judge(PROMPT, spread(PROMPT, *SHARES, sink=0.1), mass="document", tolerance=0.24, keep="65%")
    assert verdict.outcome == "accepted"
    assert verdict.numbers["largest_row_loss"] == pytest.approx(0.15 / 0.65)
    assert verdict.numbers["audit_mean"] == pytest.approx(0.15 / 0.65)
    blind = spread(PROMPT, *(share / 65 for share in SHARES), sink=0.9)  # looks at documents with .01
    assert judge(PROMPT, blind, mass="absolute", keep="20%").numbers["saving"] == 30
    assert judge(PROMPT, blind, mass="document", keep="20%", tolerance=0.24).numbers["saving"] == 20
    assert judge(PROMPT, blind, document_min=0.05).outcome == "no document mass"


@pytest.mark.parametrize("head", range(HEADS))
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("audit", ["exact", "off"])
@pytest.mark.parametrize("row", [0, 3])
def test_attention_not_finite(head: int, value: float, audit: str, row: int) -> None:
    rows = attention_of(PROMPT, 1)
    rows[head, row, 7] = value
    changes = {"audit": audit} if audit == "exact" else {"audit": "off", "observers": 4}
    verdict = verdict_of(situation_of(PROMPT, heads=(1,), **changes), rows)
    assert verdict.outcome == "attention not finite"
    assert (verdict.bound, verdict.audit) == (None, None)
    assert all(map(torch.isfinite, map(torch.tensor, verdict.numbers.values())))


def test_a_row_of_the_audit_alone_that_is_not_finite() -> None:
    rows = attention_of(PROMPT, 1)
    rows[2, 0, 7] = float("nan")  # the observer is the last row
    assert judge(PROMPT, attention_of(PROMPT, 1), observers=1, tolerance=0.9, audit_tolerance=0.9).outcome == "accepted"
    verdict = judge(PROMPT, rows, observers=1, tolerance=0.9, audit_tolerance=0.9)
    assert verdict.outcome == "attention not finite"


def test_no_residual_mass() -> None:
    rows = spread(PROMPT, 0.002, 0.002, 0.002, 0.002, sink=0.991)
    verdict = judge(PROMPT, rows, residual_min=0.01)
    assert verdict.outcome == "no residual mass"
    assert (verdict.numbers["eligible_heads"], verdict.numbers["fallback_groups"]) == (0, 2)
    assert verdict.proposal.removal is None
    assert judge(PROMPT, rows, residual_min=0.008).outcome != "no residual mass"
    rows[3] = spread(PROMPT, *SHARES)[0]  # one head of one group is enough
    verdict = judge(PROMPT, rows, residual_min=0.01)
    assert (verdict.numbers["eligible_heads"], verdict.numbers["fallback_groups"]) == (1, 1)
    assert verdict.outcome != "no residual mass"


def test_no_document_mass() -> None:
    rows = spread(PROMPT, 0.01, 0.01, 0.01, 0.01, sink=0.5)
    verdict = judge(PROMPT, rows, document_min=0.05)
    assert verdict.outcome == "no document mass"
    assert verdict.numbers["document_mass"] == pytest.approx(0.04)
    assert "saving" not in verdict.numbers
    assert judge(PROMPT, rows, document_min=0.039, tolerance=0.9, audit_tolerance=0.9).outcome == "accepted"


def test_a_head_that_looks_at_no_document_lets_nothing_go_by_shares_of_it() -> None:
    rows = spread(PROMPT, *SHARES)
    rows[2] = spread(PROMPT, 0, 0, 0, 0, sink=0.5)[2]
    assert judge(PROMPT, rows, mass="document").numbers["saving"] == 0
    assert judge(PROMPT, rows, mass="document").outcome == "target infeasible"
    assert judge(PROMPT, rows, mass="absolute", audit_tolerance=0.4).outcome == "accepted"
    assert judge(PROMPT, spread(PROMPT, 0, 0, 0, 0, sink=0.5)).outcome == "no document mass"


def test_with_tolerances_of_zero_only_what_nobody_looks_at_leaves() -> None:
    rows = spread(PROMPT, 0.2, 0.0, 0.3, 0.0)
    for order in ("entropy", "mass", "row"):
        for mass in ("absolute", "document"):
            changes = {"order": order, "mass": mass, "tolerance": 0.0, "audit_tolerance": 0.0}
            verdict = judge(PROMPT, rows, **changes)
            assert verdict.proposal.removal.removed.tolist() == [False, True, False, True]
            assert (verdict.outcome, verdict.numbers["audit_bound"]) == ("accepted", 0.0)
            assert verdict.numbers["dual_bound"] == pytest.approx(20)
    rows[1, 0, PROMPT.chunks[1].start] = 1e-12  # not an observer's row
    assert judge(PROMPT, rows, tolerance=0.0, audit_tolerance=0.0, observers=1).outcome == "audit"
    assert judge(PROMPT, rows, tolerance=0.0, audit_tolerance=0.0, keep_at_most="70%").outcome == "target infeasible"


def test_not_decisive() -> None:
    rows = spread(PROMPT, *SHARES)  # 4/13, 24/13, 8/13 and 16/13 of an even share
    changes = {"mass": "absolute", "tolerance": 0.9, "audit_tolerance": 0.9, "keep": "30%", "keep_at_most": "65%"}
    refused = judge(PROMPT, rows, lift_at_most=8 / 13 - 1e-9, **changes)
    assert refused.outcome == "not decisive"
    assert refused.audit is None
    expected = {"open_tokens": 10, "candidate_tokens": 40, "least": 18, "saving": 10, "largest_lift": 4 / 13}
    assert {name: refused.numbers[name] for name in expected} == pytest.approx(expected)
    assert refused.numbers["dual_bound"] == pytest.approx(10)
    words = "10 of 40 tokens are in chunks that every row gives at most 0.615385 times an even share, asked for 18"
    assert refused.says == words
    passed = judge(PROMPT, rows, lift_at_most=8 / 13 + 1e-9, **changes)
    assert (passed.outcome, passed.numbers["saving"], passed.numbers["open_tokens"]) == ("accepted", 20, 20)
    assert passed.numbers["largest_lift"] == pytest.approx(8 / 13)
    assert judge(PROMPT, rows, lift_at_most=1e6, **changes).numbers["saving"] == 30


def test_target_infeasible() -> None:
    rows = spread(PROMPT, 0.1, 0.1, 0.1, 0.7)
    verdict = judge(PROMPT, rows, mass="absolute", tolerance=0.15, keep="50%", keep_at_most="50%")
    assert verdict.outcome == "target infeasible"
    expected = {"saving": 10, "least": 25, "target": 25, "dual_bound": 15.0, "dual_gap": 5.0}
    assert {name: verdict.numbers[name] for name in expected} == pytest.approx(expected, rel=1e-9)
    assert verdict.audit is None


def test_a_target_that_only_the_number_of_chunks_forbids_is_infeasible() -> None:
    rows = spread(PROMPT, *SHARES)
    kept = {"mass": "absolute", "tolerance": 0.99, "audit_tolerance": 0.99, "keep": "35%", "keep_at_most": "45%"}
    assert judge(PROMPT, rows, min_chunks=1, **kept).outcome == "accepted"
    for least in (2, 3, 4, 9):
        verdict = judge(PROMPT, rows, min_chunks=least, **kept)
        assert verdict.outcome == "target infeasible"
        assert verdict.numbers["dual_bound"] == pytest.approx(10 * (4 - min(4, least)))


def test_target_not_met_where_the_scan_went_wrong() -> None:
    prompt = prompt_of(10, 11, 11)  # by mass the small one goes first, and then no other fits
    rows = spread(prompt, 0.055, 0.1, 0.1)
    changes = {"order": "mass", "mass": "absolute", "tolerance": 0.2, "keep_at_most": 20, "keep": 20}
    verdict = judge(prompt, rows, **changes)
    assert (verdict.outcome, verdict.numbers["saving"]) == ("target not met", 21)
    assert verdict.numbers["least"] == 22
    assert verdict.numbers["dual_bound"] >= 22  # both large ones would do
    assert verdict.audit is None
    assert judge(prompt, rows, **changes | {"keep_at_most": 21}).outcome == "accepted"


def test_streak() -> None:
    rows, other = spread(PROMPT, *SHARES), spread(PROMPT, 0.3, 0.05, 0.2, 0.1)
    situation = situation_of(PROMPT, streak=2, tolerance=0.5, audit_tolerance=0.5, keep="65%")
    seen = {
        "same": propose(situation, LAYER, rows, GROUPS),
        "other": propose(situation, LAYER, other, GROUPS),
        "blind": Proposal("no document mass", propose(situation, LAYER, rows, GROUPS).pooled),
    }

    def after(*names: str) -> str:
        verdict = verdict_of(situation, rows, [seen[name] for name in names])
        assert (verdict.audit is None) == (verdict.outcome == "streak")
        assert verdict.numbers["dual_bound"] >= verdict.numbers["saving"] == 20
        assert verdict.numbers["dual_gap"] == verdict.numbers["dual_bound"] - 20
        return verdict.outcome

    assert after() == after("same") == "streak"
    assert after("same", "same") == after("other", "same", "same") == after("blind", "same", "same") == "accepted"
    assert after("same", "other") == after("same", "same", "blind") == after("same", "blind", "same") == "streak"
    half = situation_of(PROMPT, streak=1, streak_change=1.0, tolerance=0.5, audit_tolerance=0.5, keep="65%")
    assert verdict_of(half, rows, [seen["other"]]).outcome == "accepted"
    assert verdict_of(replace(half, least=41), rows).outcome == "target infeasible"  # asked before the streak


def test_audit() -> None:
    rows = attention_of(PROMPT, 5, sharp=0.1)
    rows[:, -1] = spread(PROMPT, *SHARES)[:, -1]  # the observer; the other rows look at all chunks alike
    changes = {"observers": 1, "mass": "absolute", "tolerance": 0.16, "keep": "65%"}
    lost = torch.stack([rows[..., 2:12].sum(-1), rows[..., 24:34].sum(-1)]).sum(0).mean(1)
    refused = judge(PROMPT, rows, audit_tolerance=float(lost.max()) - 1e-6, **changes)
    assert refused.outcome == "audit"
    assert refused.audit.worst_head == refused.numbers["audit_worst_head"] == int(lost.argmax())
    assert refused.numbers["audit_bound"] == pytest.approx(float(lost.max()), abs=FP64)
    assert refused.numbers["dual_bound"] == refused.bound.value >= refused.numbers["saving"]
    assert judge(PROMPT, rows, audit_tolerance=float(lost.max()) + 1e-6, **changes).outcome == "accepted"
    unaudited = judge(PROMPT, rows, audit="off", audit_tolerance=1e-6, **changes)
    assert (unaudited.outcome, unaudited.audit) == ("accepted", None)
    assert "audit_bound" not in unaudited.numbers


def test_hoeffding_pays_for_drawing() -> None:
    rows, changes = spread(PROMPT, *SHARES), {"mass": "absolute", "tolerance": 0.16, "keep": "65%"}
    width = sqrt(log(4 / 0.05) / (2 * 500))
    drawn = judge(PROMPT, rows, audit="hoeffding", audit_draws=500, audit_tolerance=0.15 + width + 1e-6, **changes)
    assert drawn.outcome == "accepted"
    assert (drawn.numbers["audit_positions"], drawn.audit.num_distinct) == (500, 4)
    assert drawn.numbers["audit_bound"] == pytest.approx(0.15 + width)
    under = judge(PROMPT, rows, audit="hoeffding", audit_draws=500, audit_tolerance=0.15 + width - 1e-6, **changes)
    assert under.outcome == "audit"
    few = judge(PROMPT, rows, audit="hoeffding", audit_draws=8, audit_tolerance=0.3, **changes)
    assert few.outcome == "audit"
    assert few.numbers["hoeffding_room"] < 0  # so few draws pass nothing


def test_every_outcome_is_in_a_test_above() -> None:
    words = {name.removeprefix("test_").replace("_", " ") for name in globals() if name.startswith("test_")}
    assert all(any(outcome in word for word in words) for outcome in OUTCOMES)


def test_one_chunk_goes_only_where_none_has_to_stay() -> None:
    prompt = prompt_of(9)
    rows = spread(prompt, 0.1)
    assert judge(prompt, rows, mass="absolute").outcome == "target infeasible"
    verdict = judge(prompt, rows, mass="absolute", min_chunks=0)
    assert (verdict.outcome, verdict.numbers["saving"]) == ("accepted", 9)
    assert judge(prompt, rows, mass="document", min_chunks=0, keep_at_most="50%").outcome == "target infeasible"


def test_the_rows_may_come_from_the_whole_query_or_only_what_is_asked_for() -> None:
    situation = situation_of(PROMPT, audit="off", observers=2)
    assert situation.positions == situation.observers == (48, 49)
    rows = attention_of(PROMPT, 4)
    verdict = decide(situation, LAYER, rows_at(PROMPT, rows, situation.positions), GROUPS)
    rows[:, :2] = float("nan")  # nobody asked for these
    assert removed_of(verdict_of(situation, rows), situation) == removed_of(verdict, situation)
