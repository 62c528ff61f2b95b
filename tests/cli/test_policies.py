"""`fewer policies`: the catalogue, and what a policy is made of."""

from __future__ import annotations

import io
import json

from rich.console import Console

from fewer.cli.policies import _collect, _tabulate
from fewer.evict import DESIGNS, METHODS, SCORES, make_policy


def test_the_tables_name_every_method_score_and_design(run):
    result = run("policies")
    assert result.exit_code == 0
    lines = [line.split("  ") for line in result.stdout.splitlines()]
    rows = {cells[0]: [cell.strip() for cell in cells if cell.strip()] for cells in lines if cells}
    assert rows["SnapKV"] == ["SnapKV", "Li et al. 2024, 2404.14469", "snapkv", "topk", "uniform", "plug-in", "no"]
    assert rows["fixed size, systematic"][1:] == ["-", "question", "systematic", "uniform", "hajek", "yes"]
    assert rows["Ada-Pyramid"][4] == "pyramid, adaptive"
    assert {method.name for method in METHODS} <= set(rows)
    assert rows["question"][1] == "count (8), before (6), behind (16), pool (max), group (mean)"
    assert rows["tova"][1] == "none"
    assert rows["systematic"][1:] == ["yes", "floor (0.2), order (position)"]
    assert rows["topk"][1:] == ["no", "none"]
    assert rows["policy"][1].startswith(
        "sinks (4), recent (32), estimator (none), core (none), size (none), moment (prompt)"
    )
    assert set(SCORES) | set(DESIGNS) <= set(rows)


def test_a_narrow_terminal_gets_lines() -> None:
    file = io.StringIO()
    Console(file=file, width=80, color_system=None).print(_tabulate(_collect()))
    text = file.getvalue()
    assert max(map(len, text.splitlines())) <= 80
    assert "PyramidKV (Cai et al. 2024, 2406.02069)\n  snapkv, topk, pyramid, plug-in; certificate: no\n" in text
    assert "Neyman allocation\n  question+spread, systematic, uniform, hajek; certificate: yes\n" in text


def test_json_is_one_object_that_can_be_asked_for(run):
    result = run("policies --json")
    assert result.exit_code == 0
    assert result.stdout.count("\n") == 1
    found = json.loads(result.stdout)
    assert list(found) == ["methods", "scores", "designs", "budget", "policy"]
    assert [each["name"] for each in found["methods"]] == [method.name for method in METHODS]
    for each in found["methods"]:
        policy = make_policy(each["policy"], "25%")
        assert (policy.score.name, policy.design.name) == (each["score"], each["design"])
        assert policy.weighs == each["estimator"]
        assert (policy.certified is not None) is each["certificate"]
        settings = found["scores"][each["score"].removesuffix("+spread")] | found["designs"][each["design"]]["settings"]
        assert make_policy(each["policy"], "25%", **settings | found["budget"] | found["policy"]) == policy
    assert found["methods"][0]["differs"] == "renumbers positions"
    assert found["methods"][-1]["paper"] is None
