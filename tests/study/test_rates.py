"""Rates: the fit on made-up timings, and the structure of what is measured and read from a run."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from studying import write_study

from fewer.engine import Engine
from fewer.errors import BadInput
from fewer.study.fit import fit_seconds
from fewer.study.folder import Run, read_run
from fewer.study.rates import Rates, measure_rates, rates_from_run
from fewer.study.row import to_table
from fewer.study.run import run_study

LENGTHS = (128, 256, 512, 1024, 2048)


def test_a_law_is_found_again() -> None:
    fit = fit_seconds(("tokens", "tokens squared"), [((n, n**2), 3e-4 * n + 2e-8 * n**2) for n in LENGTHS])
    assert fit.coefficients == pytest.approx((3e-4, 2e-8), rel=1e-9)
    assert fit.residuals == pytest.approx([0] * 5, abs=1e-9)
    assert (fit.low, fit.high) == pytest.approx((1, 1))
    assert fit.at(4096, 4096**2) == pytest.approx(3e-4 * 4096 + 2e-8 * 4096**2)
    assert fit.longest == 2048


def test_three_terms_are_told_apart() -> None:
    law = (2e-2, 3e-3, 1e-6)
    points = [((1, k, k * n), law[0] + law[1] * k + law[2] * k * n) for k, n in product((1, 4), LENGTHS)]
    assert fit_seconds(("steps", "tokens", "keys"), points).coefficients == pytest.approx(law, rel=1e-8)


def test_errors_count_relative_to_what_was_measured() -> None:
    """One length is a tenth slower than the law, the shortest or the longest: its residual is about as large."""
    for odd in (0, 4):
        points = [((n, n**2), (3e-4 * n + 2e-8 * n**2) * (1.1 if i == odd else 1)) for i, n in enumerate(LENGTHS)]
        residuals = fit_seconds(("tokens", "tokens squared"), points).residuals
        assert 0 < residuals[odd] <= 0.1
        assert max(map(abs, residuals)) < 0.1


def test_no_coefficient_is_below_zero() -> None:
    points = [((n, n**2), 1e-3 * n - 1e-7 * n**2) for n in LENGTHS]
    fit = fit_seconds(("tokens", "tokens squared"), points)
    assert fit.coefficients[1] == 0
    assert fit.low < 1 < fit.high


def test_the_range_is_where_nine_of_ten_points_lie() -> None:
    noise = np.random.default_rng(0).uniform(0.8, 1.2, 400)
    fit = fit_seconds(("tokens",), [((n,), 1e-3 * n * r) for n, r in zip(np.arange(400) + 100, noise, strict=True)])
    inside = sum(fit.low <= 1 + residual <= fit.high for residual in fit.residuals)
    assert inside == pytest.approx(360, abs=1)
    assert fit.low < 0.9 < 1.1 < fit.high < 1.3


@pytest.mark.parametrize("points", [[], [((1,), 0.0)], [((1,), -1.0)], [((1,), float("nan"))]])
def test_measurements_without_seconds_are_refused(points: list) -> None:
    with pytest.raises(BadInput, match="seconds above 0"):
        fit_seconds(("tokens",), points)


@pytest.fixture(scope="module")
def engine(model_folder: Path) -> Engine:
    return Engine.load(str(model_folder), dtype="float32")


@pytest.fixture(scope="module")
def measured(engine: Engine) -> Rates:
    return measure_rates(engine, together=3, steps=4, repeats=2)


def test_a_machine_is_measured_at_lengths_the_model_has_room_for(measured: Rates, engine: Engine) -> None:
    lengths = [63, 126, 253, 507]  # an eighth to the whole of 512 positions less five tokens
    assert [point[0][0] for point in measured.prefill.points] == [n for n in lengths for _ in range(4)]
    assert all(values[1] == values[0] ** 2 for values, _ in measured.prefill.points)
    assert [point[0] for point in measured.step.points] == [
        (1, k, k * (n + 2)) for n in lengths for k in (1, 3) for _ in range(2)
    ]
    assert min(seconds for _, seconds in (*measured.prefill.points, *measured.step.points)) > 0
    assert measured.prefill.at(507, 507**2) > 0
    assert measured.prefill.low <= 1 <= measured.prefill.high


def test_memory_and_rows_are_those_of_the_model(measured: Rates, engine: Engine) -> None:
    adapter = engine.adapter
    assert measured.kv_bytes_per_token == 2 * adapter.num_layers * adapter.num_kv_heads * adapter.head_dim * 4
    assert measured.weights_bytes == adapter.weights_bytes
    assert measured.overhead_bytes > 0
    assert (measured.num_layers, measured.max_positions) == (4, 512)
    assert (measured.dtype, measured.weights, measured.device) == ("float32", "float32", "cpu")
    assert measured.row_bytes > 2_000  # more than a receipt
    assert 50 < measured.chunk_bytes < 500
    assert Rates.model_validate_json(measured.model_dump_json()) == measured


@pytest.mark.parametrize(
    "settings", [{"repeats": 0}, {"together": 0}, {"steps": 0}, {"lengths": [508], "steps": 4}, {"lengths": [0]}]
)
def test_measuring_what_cannot_be_is_refused(engine: Engine, settings: dict) -> None:
    with pytest.raises(BadInput):
        measure_rates(engine, **settings)


@pytest.fixture(scope="module", params=[True, False])
def run(request: pytest.FixtureRequest, model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("rated")
    run_study(write_study(folder, model_folder, num_items=4, share=request.param), folder / "run")
    return read_run(folder / "run")


def test_rates_come_from_the_rows_of_a_run(run: Run, measured: Rates) -> None:
    rates = rates_from_run(run)
    rows = run.rows.to_pylist()
    full = [row for row in rows if row["arm"] == "full"]
    assert [(values[0], seconds) for values, seconds in rates.prefill.points] == [
        (row["num_tokens"], row["prefill_s"]) for row in full
    ]
    for name in ("kv_bytes_per_token", "weights_bytes", "num_layers", "max_positions", "dtype", "device"):
        assert getattr(rates, name) == getattr(measured, name), name
    assert rates.new_tokens == {"tower_qa": pytest.approx(np.mean([row["num_new_tokens"] for row in rows]))}
    assert rates.row_bytes == pytest.approx(np.mean([len(json.dumps(row)) for row in rows]))
    together = {values[1] for values, _ in rates.step.points}
    aware = sum(row["item"] == rows[0]["item"] and row["condition"] == "aware" for row in rows)
    assert together == ({aware, 1} if run.study.share else {1})
    assert len(rates.step.points) == (8 if run.study.share else len(rows))


def test_a_run_without_full_answers_gives_no_rates(run: Run) -> None:
    with pytest.raises(BadInput, match="the run's full answers is 0"):
        rates_from_run(Run(run.folder, run.header, run.study, run.rows.slice(0, 0)))


def test_a_long_run_is_looked_at_here_and_there(run: Run) -> None:
    rows = run.rows.to_pylist()
    many = [row | {"unit": row["unit"] + 4 * copy} for copy in range(151) for row in rows if row["arm"] == "full"]
    rates = rates_from_run(Run(run.folder, run.header, run.study, to_table(many)))
    assert len(rates.prefill.points) == 151  # every fourth of 604
