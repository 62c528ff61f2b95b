"""The example of docs/eviction.md runs as it stands there: a score and a design of one's own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch

from fewer import Engine
from fewer.evict.design import TopK

PAGE = Path(__file__).parents[2] / "docs" / "eviction.md"


def test_the_example_in_the_documents(engine: Engine) -> None:
    block = PAGE.read_text("utf-8").split("## Your own score and design\n")[1].split("```python\n")[1].split("```")[0]
    found = {"engine": engine, "question": "Who?", "documents": ["The keepers rowed."]}
    exec(block, found)
    policy, receipt = found["policy"], found["answer"].receipt
    assert receipt.settings.evict["name"] == "coin:valuenorm"
    (each,) = receipt.eviction.compressions
    heads, tail = receipt.model.num_kv_heads, each.num_seen - 36  # sinks and recent are certain
    budget = each.num_seen // 2
    expected = policy.certain_core * (budget - 36)  # half of what may be chosen is certain, by the score
    assert abs(each.num_certain / (receipt.model.num_layers * heads) - 36 - expected) <= 1
    pi = (budget - 36 - expected) / (tail - expected)
    assert [count > 0 for count in each.rows_by_pi] == [place == int(pi * 10) for place in range(10)]
    assert receipt.certificate.kind == "estimate"

    view_v = torch.randn(2, 9, 4, generator=torch.Generator().manual_seed(1))
    scores = found["ValueNorm"]()(type("View", (), {"v": view_v}))
    assert torch.allclose(scores, view_v.square().sum(-1).sqrt())
    kept = engine.ask("Who?", found["documents"], evict=replace(policy, design=TopK()), max_tokens=2).receipt
    assert kept.settings.evict["name"] == "valuenorm"
    assert kept.certificate.kind == "none"
