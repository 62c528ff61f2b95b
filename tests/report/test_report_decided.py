"""What was decided, from receipts: who was pruned and why not, by hand; and which arms account for it at all."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from made_runs import make_items, make_study, read_sheet, write_run

from fewer.report import write_report
from fewer.report.decided import list_decided
from fewer.report.estimates import Estimates
from fewer.report.log import Log, name_arm, read_family
from fewer.study.arms import expand_arms
from fewer.study.folder import read_run

ARMS = [
    {"name": "full"},
    {"name": "entro", "prune": "entroprefill"},
    {"name": "never", "prune": "entroprefill", "shortest": 9_999},
    {"name": "lazy", "prune": "lazyllm"},
    {"name": "text", "condition": "removed_text", "like": "entro"},
]


def decision(layer: int, outcome: str, **numbers: float) -> dict[str, Any]:
    return {"layer": layer, "outcome": outcome, "says": "", "numbers": {"candidate_tokens": 200.0, **numbers}}


def receipt(decisions: list[dict], bypass: list[str], rows: list[int], plans: list[dict]) -> str:
    return json.dumps(
        {
            "prompt": {"num_tokens": 250, "chunks": []},
            "computed": {"prefill_rows_per_layer": rows},
            "plans": plans,
            "decisions": decisions,
            "bypass": bypass,
            "revival": None,
        }
    )


REFUSED = decision(1, "audit", seconds=0.002)
ACCEPTED = decision(
    2, "accepted", seconds=0.004, saving=100.0, dual_gap=20.0, audit_bound=1.25, document_mass=0.5, dual_bound=120.0
)
WHOLE = [250] * 4


def entro(unit: int) -> dict[str, Any]:
    """Of four items in a row: one pruned that keeps its support, one that does not, one refused, one declined."""
    kind = unit % 4
    if kind < 2:
        text = receipt([REFUSED, ACCEPTED], [], [250, 250, 150, 150], [{"layer": 2}])
        return {"status": "ok", "receipt": text, "supporting_kept": 1.0 if kind == 0 else 0.5}
    if kind == 2:
        text = receipt([REFUSED], ["after layer 1: audit"], WHOLE, [])
        return {"status": "bypassed", "receipt": text, "supporting_kept": 1.0}
    return {"status": "bypassed", "receipt": declined(unit), "supporting_kept": None}


def declined(unit: int) -> str:
    why = f"the prompt has {100 + unit} tokens; below 256 choosing costs more than it saves"
    return receipt([], [why], WHOLE, [])


def change(row: dict[str, Any]) -> dict[str, Any]:
    if row["arm"] == "entro":
        if row["unit"] == 39:
            return {"status": "failed", "receipt": None, "score": 0.0}
        return entro(row["unit"])
    if row["arm"] in ("never", "lazy"):
        return {"status": "bypassed", "receipt": declined(row["unit"])}
    return {"status": "ok"}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("decided") / "run"
    study = make_study(arms=ARMS, claims=[])
    items = make_items(40, ["hotpotqa_distractor", "needle_words"])
    return write_run(folder, study=study, items=items, change_row=change)


@pytest.fixture(scope="module")
def sheets(run: Path) -> dict[str, list[dict[str, str]]]:
    out = run.parent / "report"
    write_report([run], out, ("md", "csv"))
    return {name: read_sheet(next(out.rglob(f"{name}.csv"))) for name in ("decided", "decided-tasks", "outcomes")}


def test_shares_count_every_request_that_was_asked(sheets: dict) -> None:
    row = next(row for row in sheets["decided"] if row["arm"] == "entro")
    assert row["n"] == "39"  # one failed
    assert float(row["pruned"]) == pytest.approx(20 / 39)
    saved = 1 - (250 + 250 + 150 + 150) / 1000
    assert float(row["saved"]) == pytest.approx(20 / 39 * saved)
    assert (float(row["intact_pruned"]), row["intact_pruned_n"]) == (0.5, "20")
    assert (float(row["intact"]), row["intact_n"]) == (pytest.approx(20 / 30), "30")  # those without labels are out


def test_numbers_are_those_of_the_accepted_layer(sheets: dict) -> None:
    row = next(row for row in sheets["decided"] if row["arm"] == "entro")
    assert float(row["layer"]) == 2
    assert float(row["removed"]) == 0.5
    assert float(row["dual_gap"]) == pytest.approx(0.1)
    assert float(row["audit_bound"]) == 1.0  # 1.25 says no more than that all of it may be gone
    assert float(row["document_mass"]) == 0.5
    assert float(row["decision_ms"]) == pytest.approx((20 * 6 + 10 * 2) / 30)  # all layers, refusals too


def test_an_arm_that_never_pruned_is_there_with_nothing_of_the_pruned(sheets: dict) -> None:
    row = next(row for row in sheets["decided"] if row["arm"] == "never")
    assert (row["n"], float(row["pruned"]), float(row["saved"])) == ("40", 0, 0)
    assert {row[name] for name in ("intact_pruned", "layer", "removed", "audit_bound", "decision_ms")} == {""}


def test_arms_that_do_not_account_for_decisions_are_not_there(sheets: dict) -> None:
    assert [row["arm"] for row in sheets["decided"]] == ["entro", "never"]


def test_outcomes_are_counted_layer_by_layer(sheets: dict) -> None:
    found = {(row["arm"], row["outcome"]): int(row["times"]) for row in sheets["outcomes"]}
    why = "declined: the prompt has N tokens; below N choosing costs more than it saves"
    assert found == {
        ("entro", "audit"): 30,
        ("entro", "accepted"): 20,
        ("entro", why): 9,
        ("never", why): 40,
    }
    shares = [float(row["share"]) for row in sheets["outcomes"] if row["arm"] == "entro"]
    assert sum(shares) == pytest.approx(1)


def test_tasks_add_up(sheets: dict) -> None:
    rows = [row for row in sheets["decided-tasks"] if row["arm"] == "entro"]
    assert [row["task"] for row in rows] == ["hotpotqa_distractor", "needle_words"]
    assert sum(int(row["n"]) for row in rows) == 39
    assert sum(int(row["pruned"]) for row in rows) == 20


def test_without_such_an_arm_there_is_no_section(run: Path) -> None:
    log = Log(read_run(run))
    log.arms = tuple(arm for arm in log.arms if arm.name in ("full", "lazy", "text"))
    assert list_decided(Estimates(log)) is None
    log.arms = ()
    assert list_decided(Estimates(log)) is None


def test_the_text_of_an_arm_is_a_way_of_its_own() -> None:
    entro, text = (arm for arm in expand_arms(ARMS) if arm.name in ("entro", "text"))
    assert (name_arm(text), read_family(text)) == ("text", "text of entro")
    unnamed = replace(text, name="removed_text like entro")
    assert name_arm(unnamed) == "removed_text like entro"
    assert read_family(entro) == "entroprefill"
