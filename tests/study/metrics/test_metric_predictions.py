"""Recorded outputs, their scores by slow independent scorers, and the package's scores."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from slow_scorers import SLOW

from fewer.study.metrics import METRICS, score

RECORDED = [json.loads(line) for line in (Path(__file__).parent / "predictions.jsonl").read_text("utf-8").splitlines()]
OWN = {"edit_sim", "multiple_choice", "rgb_conflict", "yes_no"}  # rules of this project: tested by hand


def _by_metric() -> dict[str, list[dict[str, Any]]]:
    cases: dict[str, list[dict[str, Any]]] = {}
    for case in RECORDED:
        cases.setdefault(case["metric"], []).append(case)
    return cases


@pytest.mark.parametrize("metric", sorted(_by_metric()))
def test_recorded_predictions(metric: str) -> None:
    for case in _by_metric()[metric]:
        arguments = (case["prediction"], case["answers"], case["meta"])
        assert float(SLOW[metric](*arguments)) == pytest.approx(case["score"], abs=1e-11), case
        assert score(metric, *arguments) == pytest.approx(case["score"], abs=1e-11), case


def test_every_published_metric_is_recorded() -> None:
    same = {"infinitebench_longbook_qa_eng", "leval_f1"}  # functions that are recorded under another name
    assert set(_by_metric()) == set(METRICS) - OWN - same
    assert all(METRICS[name].function is METRICS["qa_f1"].function for name in same)
    assert set(SLOW) == set(METRICS) - OWN


def test_the_recorded_scores_tell_outputs_apart() -> None:
    assert all(len({case["score"] for case in cases}) > 1 for cases in _by_metric().values())
