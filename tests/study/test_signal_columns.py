"""A study that asks for evidence: a column a signal, and the radii, as the engine alone says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from fewer import Engine, Request, Sampling
from fewer.decide import SIGNALS, Evidence
from fewer.study.answering import Answering
from fewer.study.cells import list_cells
from fewer.study.evidence import COLUMNS, QUESTION_ROWS, STEPS, describe_evidence
from fewer.study.item import Item, lay_out_item
from fewer.study.prepare import Unit
from fewer.study.row import LATER, SCHEMA, read_table, to_table
from fewer.study.spec import Study
from fewer.types import Document, Wording
from tolerances import FP32

ARMS: list[dict[str, Any]] = [
    {"name": "full"},
    {"name": "aware", "evict": "systematic:question", "budget": "50%"},
    {"name": "stream", "evict": "systematic:question", "budget": "50%", "moment": "context"},
    {"name": "certain", "evict": "snapkv", "budget": "50%", "moment": "context"},
    {"name": "whole", "evict": "systematic:question", "budget": "100%"},
]
CACHE = {"entropy", "evicted_mass", "boundary_margin"}
RADII = {name for name in COLUMNS if name.startswith("certificate") and "question" not in name}
QUESTION = {name for name in COLUMNS if "question" in name}
OWN = {"logprob", "logprob_min"}


def make_study(*signals: str) -> Study:
    return Study.model_validate({"name": "s", "tasks": [{"name": "a"}], "arms": ARMS, "signals": list(signals)})


@pytest.fixture(scope="module")
def engine(model_folder: Path) -> Engine:
    return Engine.load(str(model_folder), dtype="float32")


@pytest.fixture(scope="module")
def item() -> Item:
    chunks = tuple(Document(chr(97 + number) * 60) for number in range(4))
    wording = Wording("Read:\n", "\n", "\n{question}")
    return Item("i", "a", "qa", "c", chunks, "Which one of them is it?", ("red",), "qa_f1", wording, max_tokens=9)


@pytest.fixture(scope="module")
def rows(engine: Engine, item: Item) -> dict[str, dict[str, Any]]:
    study = make_study("agreement", "margins", "evidence")
    found = Answering(study, engine, list_cells(study), {}).answer(Unit(0, item, 300))
    assert [row["reason"] for row in found if row["status"] == "failed"] == []
    return {row["arm"]: row for row in found}


def test_columns_are_the_signals() -> None:
    assert set(COLUMNS) == set(SIGNALS) - {"disagreement"} == CACHE | RADII | QUESTION | OWN
    assert {*COLUMNS, "radii"} <= set(LATER) <= set(SCHEMA.names)


def test_which_arms_have_which(rows: dict[str, dict[str, Any]]) -> None:
    expected = {
        "full": OWN,
        "aware": OWN | CACHE | RADII,
        "stream": OWN | CACHE | RADII | QUESTION,
        "certain": OWN | CACHE | {"entropy_question"},
        "whole": OWN | {"entropy"},
    }
    for arm, row in rows.items():
        assert {name for name in COLUMNS if row[name] is not None} == expected[arm], arm
        assert (row["radii"] is not None) == (arm in ("aware", "stream"))


def test_values_are_those_of_the_engine_alone(engine: Engine, item: Item, rows: dict[str, dict[str, Any]]) -> None:
    study = make_study("agreement", "margins", "evidence")
    prompt = lay_out_item(engine.tokenizer, item, 512)
    for cell in list_cells(study):
        sampling = Sampling(max_tokens=9, seed=cell.draw_seed(item))
        request = Request(prompt, sampling, cell.arm.planner, evict=cell.arm.policy, evidence=True)
        evidence = engine.generate([request])[0].evidence
        row = rows[cell.arm.name]
        assert row["logprob"] == pytest.approx(-row["mean_logprob"])
        for name in COLUMNS:
            value = SIGNALS[name](evidence)
            assert row[name] == (None if value is None else pytest.approx(value, abs=FP32, rel=FP32))


def test_without_the_signal_the_columns_are_null_and_nothing_else_changes(
    engine: Engine, item: Item, rows: dict[str, dict[str, Any]]
) -> None:
    study = make_study("agreement", "margins")
    for row in Answering(study, engine, list_cells(study), {}).answer(Unit(0, item, 300)):
        mine = rows[row["arm"]]
        assert (row["ids"], row["mean_logprob"], row["certificate"]) == tuple(
            mine[name] for name in ("ids", "mean_logprob", "certificate")
        )
        older = {"certificate", "certificate_mean", "certificate_largest"}
        assert {name for name in {*COLUMNS, "radii"} - older if row[name] is not None} == set()


def make_evidence(question_rows: int, steps: int) -> Evidence:
    generator = torch.Generator().manual_seed(0)
    return Evidence(
        question=torch.rand(3, 4, question_rows, generator=generator) * 3,
        answer=torch.rand(3, 4, steps, generator=generator) * 30,
    )


def test_radii_are_over_heads_of_the_last_question_rows_and_the_first_steps() -> None:
    evidence = make_evidence(100, 40)
    found = json.loads(describe_evidence(evidence)["radii"])
    pairs = {"question": evidence.question[..., -QUESTION_ROWS:], "answer": evidence.answer[..., :STEPS]}
    for part, radii in pairs.items():
        assert set(found[part]) == {"mean", "median", "largest"}
        assert [len(row) for row in found[part]["mean"]] == [radii.shape[2]] * 3
        for layer in range(3):
            for at in range(radii.shape[2]):
                heads = sorted(radii[layer, :, at].double().tolist())
                expected = {"mean": sum(heads) / 4, "median": (heads[1] + heads[2]) / 2, "largest": heads[3]}
                for how, value in expected.items():
                    assert found[part][how][layer][at] == float(f"{value:.4g}")


@pytest.mark.parametrize(("question_rows", "steps"), [(0, 5), (5, 0)])
def test_a_part_without_rows_is_null(question_rows: int, steps: int) -> None:
    found = json.loads(describe_evidence(make_evidence(question_rows, steps))["radii"])
    assert (found["question"] is None, found["answer"] is None) == (not question_rows, not steps)


def test_no_radii_at_all_are_null() -> None:
    assert describe_evidence(Evidence(logprobs=(-1.0,)))["radii"] is None
    assert describe_evidence(make_evidence(0, 0))["radii"] is None
    assert describe_evidence(None) == {}


def test_logs_from_before_are_read_with_nulls(rows: dict[str, dict[str, Any]]) -> None:
    stamp = {"log_version": "1", "study": "s", "ended": "2026-01-01T00:00:00+00:00"}
    old = [{name: value for name, value in (row | stamp).items() if name not in LATER} for row in rows.values()]
    table = read_table(old)
    assert all(table[name].null_count == len(old) for name in (*COLUMNS, "radii"))
    written = to_table([row | stamp for row in rows.values()])
    assert written["radii"].to_pylist() == [row["radii"] for row in rows.values()]
