"""Means, differences and ratios: against statsmodels, SciPy, loops in plain Python, and closed forms."""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist
from time import process_time

import numpy as np
import pytest
import scipy.stats
from clustered import draw_clustered
from statsmodels.regression.linear_model import OLS, WLS

from fewer.errors import BadInput
from fewer.study import stats
from fewer.study.stats import bootstrap
from tolerances import FP64


def ends(interval: stats.Interval) -> tuple[float, float]:
    assert interval.lower is not None
    assert interval.upper is not None
    return interval.lower, interval.upper


@pytest.mark.parametrize("seed", range(3))
def test_t_is_the_cluster_robust_regression_on_a_constant(seed):
    data = draw_clustered(seed)
    codes = np.unique(data.clusters, return_inverse=True)[1]
    ones = np.ones_like(data.x)
    fit = OLS(data.x, ones).fit(cov_type="cluster", cov_kwds={"groups": codes, "df_correction": True}, use_t=True)
    interval = stats.mean(data.x, data.clusters, method="t", level=0.9)
    assert interval.estimate == pytest.approx(fit.params[0], abs=FP64)
    assert ends(interval) == pytest.approx(fit.conf_int(0.1)[0], abs=FP64)
    assert (interval.n, interval.clusters) == (data.x.size, 12)
    assert interval.method == "cluster-robust t, 11 degrees of freedom"


def test_t_of_independent_items_is_students():
    data = draw_clustered(0)
    expected = scipy.stats.ttest_rel(data.x, data.y).confidence_interval(0.95)
    assert ends(stats.mean_difference(data.x, data.y, None, method="t")) == pytest.approx(expected, abs=FP64)


def test_t_of_a_ratio_is_the_regression_through_the_origin_with_inverse_weights():
    data = draw_clustered(1)
    a, b = np.exp(data.x), np.exp(data.y)
    groups = np.unique(data.clusters, return_inverse=True)[1]
    fit = WLS(a, b, weights=1 / b).fit(cov_type="cluster", cov_kwds={"groups": groups}, use_t=True)
    interval = stats.ratio_of_totals(a, b, data.clusters, method="t")
    assert interval.estimate == pytest.approx(fit.params[0], abs=FP64)
    assert ends(interval) == pytest.approx(fit.conf_int()[0], abs=FP64)


def bootstrap_by_loops(
    statistic: Callable[[list[int]], float], labels: list[int], method: str, level: float, resamples: int, seed: int
) -> tuple[float, float]:
    """Resamples as lists of item numbers, each cluster written out as often as it was drawn."""
    members: dict[int, list[int]] = {}
    for index, label in enumerate(labels):
        members.setdefault(label, []).append(index)
    groups = [members[label] for label in sorted(members)]
    k = len(groups)
    draws = np.random.default_rng(seed).integers(k, size=(resamples, k))
    values = np.array([statistic([item for group in row for item in groups[group]]) for row in draws])
    estimate = statistic(list(range(len(labels))))
    normal = NormalDist()
    student = float(scipy.stats.t.ppf((1 + level) / 2, k - 1))
    tails = [-student * math.sqrt(k / (k - 1)), student * math.sqrt(k / (k - 1))]
    if method == "bca":
        left = [statistic([i for g in range(k) if g != out for i in groups[g]]) for out in range(k)]
        pulls = [sum(left) / k - value for value in left]
        a = sum(pull**3 for pull in pulls) / (6 * sum(pull**2 for pull in pulls) ** 1.5)
        z = normal.inv_cdf(float(np.mean(values < estimate - 1e-12) + np.mean(values < estimate + 1e-12)) / 2)
        tails = [z + (z + tail) / (1 - a * (z + tail)) for tail in tails]
    low, high = (float(np.quantile(values, normal.cdf(tail))) for tail in tails)
    return low, high


@pytest.mark.parametrize("method", ["bca", "percentile"])
@pytest.mark.parametrize("clusters", [4, 12])
def test_the_bootstrap_is_the_one_written_out_in_loops(method, clusters):
    data = draw_clustered(2, clusters)
    a, b = np.exp(data.x), np.exp(data.y)
    options = {"method": method, "level": 0.9, "resamples": 300, "seed": 5}
    cases = {
        stats.mean(a, data.clusters, **options): lambda items: a[items].mean(),
        stats.mean_difference(a, b, data.clusters, **options): lambda items: (a - b)[items].mean(),
        stats.ratio_of_totals(a, b, data.clusters, **options): lambda items: a[items].sum() / b[items].sum(),
        stats.geometric_mean_ratio(a, b, data.clusters, **options): lambda items: np.log(a / b)[items].mean(),
    }
    for number, (interval, statistic) in enumerate(cases.items()):
        low, high = bootstrap_by_loops(statistic, data.clusters.tolist(), method, 0.9, 300, 5)
        expected = (math.exp(low), math.exp(high)) if number == 3 else (low, high)
        assert ends(interval) == pytest.approx(expected, abs=FP64)
        name = "BCa" if method == "bca" else method
        assert interval.method.startswith(f"cluster bootstrap, {name}, 300 resamples, seed 5")


def test_bca_agrees_with_scipy_at_the_level_that_our_wider_tails_stand_for():
    """Two bootstraps of 50000: ends differ by 0.02 standard errors (1 sigma); 0.15 fails less than once in 10^9."""
    values = np.random.default_rng(3).lognormal(size=60)
    wide = float(scipy.stats.t.ppf(0.975, 59)) * math.sqrt(60 / 59)
    level = 2 * NormalDist().cdf(wide) - 1
    theirs = scipy.stats.bootstrap(
        (values,), np.mean, n_resamples=50_000, confidence_level=level, method="BCa", rng=np.random.default_rng(9)
    )
    tolerance = 0.15 * values.std() / math.sqrt(60)
    expected = tuple(theirs.confidence_interval)
    assert ends(stats.mean(values, None, resamples=50_000)) == pytest.approx(expected, abs=tolerance)
    plain = ends(stats.mean(values, None, resamples=50_000, method="percentile"))
    assert expected[1] > plain[1] + 2 * tolerance  # the skewness is seen


def test_tails_are_students_with_few_clusters_and_normal_with_many():
    """For a mean, widening by sqrt(k / (k - 1)) turns the bootstrap's normal interval into Student's exactly."""
    values = np.random.default_rng(4).standard_normal(8)
    spread = values.std(ddof=0) / math.sqrt(8)  # what a bootstrap of the mean has
    expected = values.mean() + spread * bootstrap.widen(0.95, 8)
    assert ends(stats.mean(values, None, method="t")) == pytest.approx(expected, abs=FP64)
    assert bootstrap.widen(0.95, 100_000) == pytest.approx([-1.96, 1.96], abs=1e-3)


def test_the_order_of_items_does_not_matter_and_the_seed_does():
    data = draw_clustered(5)
    shuffled = np.random.default_rng(0).permutation(data.x.size)
    names = np.array([f"document {label:02d}" for label in data.clusters])
    first = stats.mean(data.x, names)
    again = stats.mean(data.x[shuffled], names[shuffled])
    assert (first.n, first.clusters, first.method) == (again.n, again.clusters, again.method)
    assert (*ends(first), first.estimate) == pytest.approx((*ends(again), again.estimate), abs=FP64)
    assert stats.mean(data.x, names) == first
    assert ends(stats.mean(data.x, names, seed=1)) != ends(first)


def test_resamples_do_not_depend_on_how_many_are_held_at_a_time(monkeypatch):
    data = draw_clustered(6)
    whole = stats.mean(data.x, data.clusters, resamples=500)
    monkeypatch.setattr(bootstrap, "CELLS", 7 * data.x.size)
    assert ends(stats.mean(data.x, data.clusters, resamples=500)) == pytest.approx(ends(whole), abs=FP64)


def test_resampled_counts_are_those_of_drawing_with_replacement():
    """Each count is binomial(10, 1/10): over 20000 its mean is off by 0.04 (6 sigma) once in 10^9."""
    sample = stats.bootstrap.Clusters(np.repeat(np.arange(10), 3), 10)
    counts = np.concatenate(list(bootstrap.draw(sample, 20_000, 0)), axis=1)
    assert counts.shape == (10, 20_000)
    assert (counts.sum(axis=0) == 10).all()
    assert counts.mean(axis=1) == pytest.approx(np.ones(10), abs=0.04)
    assert counts.var(axis=1) == pytest.approx(np.full(10, 0.9), abs=0.06)


def test_ignoring_clusters_makes_intervals_too_narrow():
    data = draw_clustered(7, clusters=40, largest=9)
    together, alone = (ends(stats.mean(data.x, clusters)) for clusters in (data.clusters, None))
    assert together[1] - together[0] > 1.5 * (alone[1] - alone[0])


def test_no_items_one_cluster_and_nothing_that_varies():
    for method in ("bca", "percentile", "t"):
        empty = stats.mean([], [], method=method)
        assert (empty.estimate, empty.lower, empty.upper, empty.n, empty.clusters) == (None, None, None, 0, 0)
        assert empty.method == "no interval: there are no items"
        one = stats.mean([0.0, 1.0], ["a", "a"], method=method)
        assert (one.estimate, one.lower, one.clusters) == (0.5, None, 1)
        assert one.method == "no interval: one cluster says nothing about others"
        same = stats.mean([0.3, 0.1, 0.2, 0.2], ["a", "a", "b", "b"], method=method)
        assert (same.estimate, same.lower) == (0.2, None)
        assert same.method.startswith("no interval: all 2 clusters agree")


@pytest.mark.parametrize("method", ["bca", "percentile", "t"])
def test_with_bounds_clusters_that_agree_leave_what_clopper_and_pearson_do(method):
    failures = scipy.stats.binomtest(0, 30).proportion_ci(0.95)
    none = stats.mean([0.0] * 30, None, bounds=(0, 1), method=method)
    assert ends(none) == pytest.approx((0.0, failures.high), abs=FP64)
    assert none.method == "all 30 clusters agree: Clopper-Pearson for 0 of 30, scores in [0, 1]"
    every = stats.mean([1.0] * 30, None, bounds=(0, 1), method=method)
    assert ends(every) == pytest.approx((1 - failures.high, 1.0), abs=FP64)
    equal = stats.mean_difference([0.7] * 30, [0.7] * 30, None, bounds=(0, 1), method=method)
    assert ends(equal) == pytest.approx((-failures.high, failures.high), abs=FP64)


def test_bounds_change_nothing_where_clusters_differ():
    data = draw_clustered(8)
    scores = scipy.stats.norm.cdf(data.x)
    assert stats.mean(scores, data.clusters, bounds=(0, 1)) == stats.mean(scores, data.clusters)


@pytest.mark.parametrize("unit", [1e-100, 1e-15, 1e9, 1e100])
def test_the_unit_does_not_matter(unit):
    data = draw_clustered(9)
    values, options = np.abs(data.x) + 0.1, {"resamples": 300}
    for method in ("bca", "percentile", "t"):
        plain = stats.mean(values, data.clusters, method=method, **options)
        scaled = stats.mean(values * unit, data.clusters, method=method, **options)
        assert np.divide(ends(scaled), unit) == pytest.approx(ends(plain), rel=1e-9)
    plain = stats.aurc(data.x, values, data.clusters, **options)
    assert np.divide(ends(stats.aurc(data.x, values * unit, data.clusters, **options)), unit) == pytest.approx(
        ends(plain), rel=1e-9
    )
    assert stats.mean([0.1 * unit, 0.3 * unit, 0.2 * unit], ["a", "a", "b"]).lower is None


def test_averages_of_ratios_and_their_inverses():
    a, b = [1.0, 10.0, 4.0], [2.0, 2.0, 1.0]
    assert stats.ratio_of_totals(a, b, None, method="t").estimate == 3.0
    there, back = (stats.geometric_mean_ratio(*pair, None, method="t") for pair in ((a, b), (b, a)))
    assert there.estimate == pytest.approx(scipy.stats.gmean([0.5, 5.0, 4.0]), abs=FP64)
    assert (1 / back.estimate, 1 / back.upper, 1 / back.lower) == pytest.approx(
        (there.estimate, there.lower, there.upper), abs=1e-9
    )


def test_ratios_need_positive_numbers():
    with pytest.raises(BadInput, match=r"b\[1\] is 0.0; it must be above 0"):
        stats.ratio_of_totals([1.0, 2.0], [1.0, 0.0], None)
    with pytest.raises(BadInput, match=r"a\[0\] is -1.0; it must be above 0"):
        stats.geometric_mean_ratio([-1.0, 2.0], [1.0, 1.0], None)
    assert stats.ratio_of_totals([0.0, 2.0], [1.0, 1.0], None).estimate == 1.0


def test_every_resample_on_one_side_is_said():
    def largest(counts):
        return np.where(counts.min(axis=0) > 0, 1.0, 0.5 - counts[0] / 100)

    sample = bootstrap.Clusters(np.arange(12), 12)
    interval = bootstrap.bootstrap(largest, sample, method="bca", level=0.95, resamples=200, seed=0)
    assert (interval.estimate, interval.lower) == (1.0, None)
    assert interval.method == "no interval: every resample lies below the estimate; BCa has no correction"


def test_ten_thousand_resamples_of_two_thousand_items_are_quick():
    """A ceiling ten times what it takes, so that only another algorithm fails it."""
    rng = np.random.default_rng(0)
    clusters, values = rng.integers(300, size=2000), rng.random(2000)
    start = process_time()
    stats.mean(values, clusters)
    assert process_time() - start < 1.5


def test_t_is_cut_at_the_bounds_and_only_there() -> None:
    scores, clusters = [0.0, 1.0, 1.0], ["a", "b", "c"]
    free = stats.mean(scores, clusters, method="t")
    cut = stats.mean(scores, clusters, method="t", bounds=(0, 1))
    assert free.lower < 0
    assert free.upper > 1
    assert (cut.lower, cut.upper, cut.estimate) == (0, 1, free.estimate)
    assert cut.method == f"{free.method}, cut at [0, 1]"
    wide = stats.mean(scores, clusters, method="t", bounds=(-5, 5))
    assert (wide.lower, wide.upper, wide.method) == (free.lower, free.upper, free.method)
