"""The limit on how much a row may look at a chunk that leaves: which rows count, and its edges."""

from __future__ import annotations

from typing import Any

from deciding import prompt_of, situation_of, spread, verdict_of
from torch import Tensor

from fewer import Prompt
from fewer.prune.entroprefill.procedure import Verdict

PROMPT = prompt_of(10, 10, 10, 10)  # 51 tokens: 2 sinks, 4 chunks with a gap each, 4 of query, 1 behind
SHARES = (0.05, 0.3, 0.1, 0.2)


def judge(prompt: Prompt, rows: Tensor, **changes: Any) -> Verdict:
    return verdict_of(situation_of(prompt, **changes), rows)


def test_one_row_that_looks_at_a_chunk_keeps_it() -> None:
    rows = spread(PROMPT, *SHARES)
    rows[3, 1] = spread(PROMPT, 0.3, 0.05, 0.2, 0.1)[3, 1]
    changes = {"tolerance": 0.9, "audit_tolerance": 0.9, "lift_at_most": 1.0, "keep_at_most": "80%"}
    assert judge(PROMPT, rows, **changes).outcome == "not decisive"
    assert verdict_of(situation_of(PROMPT, rows="mean", **changes), rows).outcome == "accepted"
    assert judge(PROMPT, spread(PROMPT, *SHARES), **changes).outcome == "accepted"


def test_a_row_that_looks_at_no_document_is_not_decisive() -> None:
    rows = spread(PROMPT, *SHARES)
    rows[2] = spread(PROMPT, 0, 0, 0, 0, sink=0.5)[2]
    for mass in ("absolute", "document"):
        verdict = judge(PROMPT, rows, mass=mass, lift_at_most=3.9)
        assert (verdict.outcome, verdict.numbers["open_tokens"]) == ("not decisive", 0)


def test_an_even_spread_lets_nothing_go_below_a_lift_of_one() -> None:
    rows = spread(PROMPT, 0.1, 0.1, 0.1, 0.1)
    easy = {"tolerance": 0.9, "audit_tolerance": 0.9}
    assert judge(PROMPT, rows, lift_at_most=1 - 1e-9, **easy).outcome == "not decisive"
    assert judge(PROMPT, rows, lift_at_most=1 + 1e-9, **easy).outcome == "accepted"
    one = prompt_of(9)  # a single chunk has all there is
    changes = {"mass": "absolute", "min_chunks": 0}
    assert judge(one, spread(one, 0.1), lift_at_most=1 - 1e-9, **changes).outcome == "not decisive"
    assert judge(one, spread(one, 0.1), lift_at_most=1 + 1e-9, **changes).outcome == "accepted"


def test_what_no_prompt_of_this_length_could_lose_is_infeasible_and_not_undecided() -> None:
    rows = spread(PROMPT, *SHARES)
    verdict = judge(PROMPT, rows, keep="10%", keep_at_most="15%", lift_at_most=0.1)
    assert verdict.numbers["least"] == 43 > verdict.numbers["candidate_tokens"]
    assert verdict.outcome == "target infeasible"
