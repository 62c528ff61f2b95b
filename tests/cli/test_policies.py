"""`fewer policies`: the catalogue, and what a policy is made of."""

from __future__ import annotations

import io
import json

from rich.console import Console

from fewer.cli.policies import _collect, _tabulate
from fewer.evict import DESIGNS, METHODS, SCORES, make_policy
from fewer.evict.catalogue import BUDGETS


def test_the_tables_name_every_method_score_and_design(run):
    result = run("policies")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    rows = {cells[0]: [cell.strip() for cell in cells if cell.strip()] for cells in (one.split("  ") for one in lines)}
    assert rows["SnapKV"] == ["SnapKV", "snapkv", "no", "a set per query head; averages in pooling"]
    assert rows["fixed size, systematic"][1:] == ["systematic:question", "yes", "-"]
    at = lines.index(next(line for line in lines if line.startswith("Ada-Pyramid ")))
    assert [line.split() for line in lines[at + 1 : at + 3]] == [
        ["Feng", "et", "al.", "2024,", "2407.11550", "--set", "layers=pyramid"],
        ["--set", "heads=adaptive"],
    ]
    assert {method.name for method in METHODS} <= set(rows)
    assert rows["question"][1] == "count (8), before (6), behind (16), pool (max), group (mean)"
    assert rows["tova"][1] == "-"
    assert rows["systematic"][1:] == ["yes", "floor (0.2), order (position)"]
    assert rows["topk"][1:] == ["no", "-"]
    assert rows["policy"][1].startswith("sinks (4), recent (32), estimator, core, size, moment (prompt), every")
    assert "none)" not in result.stdout.lower()
    assert set(SCORES) | set(DESIGNS) <= set(rows)


def test_a_narrow_terminal_gets_lines() -> None:
    file = io.StringIO()
    Console(file=file, width=80, color_system=None).print(_tabulate(_collect()))
    text = file.getvalue()
    assert max(map(len, text.splitlines())) <= 80
    assert (
        "PyramidKV (Cai et al. 2024, 2406.02069)\n  --evict snapkv --set layers=pyramid; certificate: no\n"
        "  the publication: a set per query head\n" in text
    )
    assert "fixed size, pivotal\n  --evict pivotal:question; certificate: yes\nfixed size, maximum" in text


def test_a_hundred_columns_hold_the_table() -> None:
    file = io.StringIO()
    Console(file=file, width=100, color_system=None).print(_tabulate(_collect()))
    lines = file.getvalue().splitlines()
    assert max(map(len, lines)) <= 100
    (poisson,) = [line for line in lines if line.startswith("Poisson on H2O ")]
    assert poisson.split("  ")[0] == "Poisson on H2O"
    assert " poisson:h2o " in poisson
    assert "conditional-poisson:question" in file.getvalue()  # names are not broken
    assert "systematic:question+spread" in file.getvalue()


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
        written = make_policy(each["policy"], "25%", **each["set"]).budget
        assert (written.layers, written.heads) == BUDGETS[each["budget"]]
        assert (policy.certified is not None) is each["certificate"]
        settings = found["scores"][each["score"].removesuffix("+spread")] | found["designs"][each["design"]]["settings"]
        own = {"layers": "adaptive"} if each["score"] == "kvzip" else {}  # by its name it has another budget
        assert make_policy(each["policy"], "25%", **settings | found["budget"] | own | found["policy"]) == policy
    assert found["methods"][0]["differs"] == "renumbers positions"
    assert found["methods"][-1]["paper"] is None
