"""Calibration and certificates: against scikit-learn, sums in plain Python, and simulated outcomes."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from clustered import draw_clustered
from sklearn.calibration import calibration_curve
from sklearn.metrics import brier_score_loss

from fewer.errors import BadInput
from fewer.study import stats
from fewer.study.stats.bins import find_bins
from tolerances import FP64


def draw_forecasts(seed: int, n: int = 300, steps: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities and outcomes that come true a little too often; `steps` rounds them."""
    rng = np.random.default_rng(seed)
    forecast = rng.random(n)
    label = (rng.random(n) < forecast**0.8).astype(int)
    return label, np.round(forecast * steps) / steps if steps else forecast


@pytest.mark.parametrize("steps", [0, 20])
def test_bins_of_equal_width_are_sklearns(steps):
    label, forecast = draw_forecasts(0, steps=steps)
    true, predicted = calibration_curve(label, forecast, n_bins=10, strategy="uniform")
    rows = stats.reliability(label, forecast, None, scheme="width")
    assert [row.mean.estimate for row in rows] == pytest.approx(true.tolist(), abs=FP64)
    assert [row.centre for row in rows] == pytest.approx(predicted.tolist(), abs=FP64)
    assert sum(row.mean.n for row in rows) == 300


def test_bins_of_equal_mass_hold_equally_many():
    label, forecast = draw_forecasts(1)
    assert np.bincount(find_bins(forecast, 10, "mass")).tolist() == [30] * 10
    sizes = np.bincount(find_bins(forecast[:103], 10, "mass"))
    assert sizes.sum() == 103
    assert set(sizes) == {10, 11}
    true, predicted = calibration_curve(label, forecast, n_bins=10, strategy="quantile")
    rows = stats.reliability(label, forecast, None)
    assert [row.mean.estimate for row in rows] == pytest.approx(true.tolist(), abs=FP64)
    assert [row.centre for row in rows] == pytest.approx(predicted.tolist(), abs=FP64)
    assert all(row.low <= row.centre <= row.high for row in rows)
    assert all(left.high < right.low for left, right in pairwise(rows))


def test_equal_values_share_a_bin():
    values = np.array([0.0, 0.0, 0.0, 0.0, 1.0, 2.0])
    assert find_bins(values, 3, "mass").tolist() == [0, 0, 0, 0, 2, 2]  # the first two edges are both 0
    assert find_bins(np.array([0.1, np.inf, 0.2, np.inf]), 2, "mass").tolist() == [0, 1, 0, 1]
    assert find_bins(np.array([]), 3, "mass").shape == (0,)


def test_the_intervals_of_bins():
    label, forecast = draw_forecasts(2)
    clusters = np.arange(300) // 4
    for row, alone in zip(
        stats.reliability(label, forecast, clusters, resamples=500),
        stats.reliability(label, forecast, None),
        strict=True,
    ):
        inside = (row.low <= forecast) & (forecast <= row.high)
        assert alone.mean == stats.proportion(label[inside], None)
        assert row.mean == stats.proportion(label[inside], clusters[inside], resamples=500)
    graded = stats.binned_means(forecast, forecast, clusters, bins=2, resamples=500)
    assert graded[0].mean.estimate == pytest.approx(graded[0].centre, abs=FP64)
    assert graded[0].mean.method.startswith("cluster bootstrap")


@pytest.mark.parametrize("scheme", ["mass", "width"])
def test_the_calibration_error_is_the_sum_written_out(scheme):
    label, forecast = draw_forecasts(3)
    codes = find_bins(forecast, 10, scheme, (0, 1))
    expected = 0.0
    for code in set(codes.tolist()):
        inside = [i for i in range(300) if codes[i] == code]
        expected += abs(sum(label[i] for i in inside) - math.fsum(forecast[i] for i in inside)) / 300
    found = stats.calibration_error(label, forecast, scheme=scheme)
    assert found.value == pytest.approx(expected, abs=FP64)
    assert (found.bins, found.n) == (10, 300)


def test_the_calibration_error_of_perfect_forecasts_is_foreseen():
    """Mean of 2000 simulated errors: off by 0.0002 (1 sigma) around 0.05; a bound of 3% fails once in 10^9."""
    rng = np.random.default_rng(4)
    forecast = rng.random(300)
    found = [stats.calibration_error(outcome, forecast) for outcome in (rng.random((2000, 300)) < forecast).astype(int)]
    foreseen = found[0].if_calibrated
    assert np.mean([error.value for error in found]) == pytest.approx(foreseen, rel=0.03)
    assert foreseen > 0.04


def test_brier_is_sklearns_with_the_interval_of_a_mean():
    label, forecast = draw_forecasts(5)
    clusters = np.arange(300) // 4
    found = stats.brier(label, forecast, clusters)
    assert found.estimate == pytest.approx(brier_score_loss(label, forecast), abs=FP64)
    assert found == stats.mean((forecast - label) ** 2, clusters)
    coin = stats.brier([0, 1] * 10, [0.5] * 20, None)
    assert coin.estimate == 0.25


@pytest.mark.parametrize("scheme", ["mass", "width"])
@pytest.mark.parametrize(("bins", "steps"), [(1, 0), (10, 0), (10, 10), (7, 20), (1000, 0)])
def test_the_parts_of_brier_add_up(scheme, bins, steps):
    label, forecast = draw_forecasts(6, steps=steps)
    parts = stats.brier_parts(label, forecast, bins=bins, scheme=scheme)
    assert parts.score == pytest.approx(brier_score_loss(label, forecast), abs=FP64)
    total = parts.reliability - parts.resolution + parts.uncertainty + parts.within_bins
    assert total == pytest.approx(parts.score, abs=FP64)
    assert min(parts.reliability, parts.resolution, parts.uncertainty) >= 0


def test_the_parts_are_murphys_where_a_bin_is_one_probability():
    label, forecast = draw_forecasts(7, steps=5)
    parts = stats.brier_parts(label, forecast, bins=1000, scheme="width")
    assert parts.within_bins == pytest.approx(0, abs=FP64)
    groups = [(value, label[forecast == value]) for value in np.unique(forecast)]
    expected = sum(len(group) * (value - group.mean()) ** 2 for value, group in groups) / 300
    assert parts.reliability == pytest.approx(expected, abs=FP64)
    expected = sum(len(group) * (group.mean() - label.mean()) ** 2 for _, group in groups) / 300
    assert parts.resolution == pytest.approx(expected, abs=FP64)


def test_certificate_coverage():
    errors, radii = [0.1, 0.2, 0.3, 0.0], [0.1, 0.1, math.inf, 0.0]
    found = stats.certificate_coverage(errors, radii, None)
    assert (found.estimate, found.method) == (0.75, "Wilson, independent items")
    clustered = stats.certificate_coverage(errors, radii, ["a", "a", "b", "c"], resamples=200)
    assert (clustered.estimate, clustered.clusters) == (0.75, 3)
    held = stats.certificate_coverage([0.1] * 20, [0.2] * 20, list("ab") * 10)
    assert held.method.startswith("all 2 clusters agree: Clopper-Pearson")


def test_coverage_that_is_right_overall_and_wrong_where_it_matters():
    """Radii that do not know the error: 90% overall, none of the largest tenth of errors."""
    rng = np.random.default_rng(8)
    errors = rng.exponential(size=1000)
    radii = np.full(1000, np.quantile(errors, 0.9)) + 1e-6 * rng.random(1000)
    assert stats.certificate_coverage(errors, radii, None).estimate == 0.9
    by_error = stats.conditional_coverage(errors, radii, None, by="error", bins=10)
    assert [row.mean.estimate for row in by_error] == [1.0] * 9 + [0.0]
    by_radius = stats.conditional_coverage(errors, radii, None, bins=10)
    assert all(0.8 < row.mean.estimate < 0.98 for row in by_radius)
    assert all(row.mean.n == 100 for row in by_radius)


def test_infinite_radii_have_a_bin_of_their_own():
    data = draw_clustered(0)
    radii = np.where(data.label == 1, np.inf, np.abs(data.x))
    rows = stats.conditional_coverage(np.abs(data.y), radii, data.clusters, bins=40, resamples=200)
    assert (rows[-1].low, rows[-1].high, rows[-1].mean.estimate) == (np.inf, np.inf, 1.0)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: stats.brier([0, 1], [0.5, 1.1], None), r"probabilities\[1\] is 1.1; it must be in \[0, 1\]"),
        (lambda: stats.brier([0, 2], [0.5, 1.0], None), r"labels\[1\] is 2.0; it must be 0 or 1"),
        (lambda: stats.brier([], [], None), r"len\(labels\) is 0"),
        (lambda: stats.calibration_error([0, 1], [0.5, 1.0], bins=0), "bins is 0; it must be at least 1"),
        (lambda: stats.calibration_error([0, 1], [0.5, 1.0], scheme="log"), "scheme is 'log'"),
        (lambda: stats.certificate_coverage([-0.1], [1.0], None), r"errors\[0\] is -0.1"),
        (lambda: stats.certificate_coverage([0.1], [math.nan], None), r"radii\[0\] is nan"),
        (lambda: stats.conditional_coverage([0.1], [0.1], None, by="item"), "by is 'item'"),
        (lambda: stats.binned_means([0.1], [math.inf], None, scheme="width"), "finite for bins of equal width"),
    ],
)
def test_calibrations_that_are_none(call, says):
    with pytest.raises(BadInput, match=says):
        call()
