"""Planning: against statsmodels' power functions, an analysis of variance, and simulated tests."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats
from clustered import draw_clustered
from statsmodels.stats.power import TTestPower

from fewer.errors import BadInput
from fewer.study import stats
from fewer.study.stats.power_mcnemar import find_edge
from tolerances import FP64


@pytest.mark.parametrize(("sides", "alternative"), [(2, "two-sided"), (1, "larger")])
@pytest.mark.parametrize("alpha", [0.01, 0.05])
def test_paired_power_is_statsmodels(sides, alternative, alpha):
    theirs = TTestPower()
    for n in (3, 10, 50, 200):
        for effect in (0.0, 0.1, 0.4):
            expected = theirs.power(effect, n, alpha, alternative=alternative)
            found = stats.paired_power(n, 0.2 * effect, 0.2, alpha=alpha, sides=sides)
            assert found == pytest.approx(expected, abs=1e-8)
    for effect in (0.1, 0.3, 1.0):
        expected = theirs.solve_power(effect, alpha=alpha, power=0.9, alternative=alternative)
        found = stats.paired_sample_size(0.2 * effect, 0.2, power=0.9, alpha=alpha, sides=sides)
        assert found == math.ceil(expected)
    expected = theirs.solve_power(nobs=80, alpha=alpha, power=0.8, alternative=alternative)
    found = stats.detectable_difference(80, 0.2, alpha=alpha, sides=sides)
    assert found == pytest.approx(0.2 * expected, abs=1e-6)


def test_large_shifts_have_power_one():
    for n in (4, 10, 11, 1000, 100_000):
        assert stats.paired_power(n, 50.0, 0.1) == pytest.approx(1.0, abs=FP64)


def test_the_least_number_is_the_least():
    options = {"cluster_size": 6.5, "icc": 0.3}
    n = stats.paired_sample_size(0.05, 0.4, **options)
    assert stats.paired_power(n, 0.05, 0.4, **options) >= 0.8 > stats.paired_power(n - 1, 0.05, 0.4, **options)
    alone = stats.paired_sample_size(0.05, 0.4)
    assert n / alone == pytest.approx(stats.design_effect(6.5, 0.3), rel=0.03)
    difference = stats.detectable_difference(n, 0.4, **options)
    assert stats.paired_power(n, difference, 0.4, **options) == pytest.approx(0.8, abs=1e-9)


def test_the_power_with_clusters_is_how_often_the_test_rejects():
    """1000 studies: the share is off by 0.014 (1 sigma); 0.07 fails less than once in 10^6."""
    rng, hits = np.random.default_rng(0), 0
    clusters = np.repeat(np.arange(20), 5)
    for _ in range(1000):
        values = math.sqrt(0.3) * rng.standard_normal(20)[clusters] + math.sqrt(0.7) * rng.standard_normal(100)
        hits += stats.mean(values + 0.4, clusters, method="t").excludes(0.0)
    assert hits / 1000 == pytest.approx(stats.paired_power(100, 0.4, 1.0, cluster_size=5, icc=0.3), abs=0.07)


@pytest.mark.parametrize("seed", range(3))
def test_the_icc_is_the_one_of_an_analysis_of_variance(seed):
    data = draw_clustered(seed, clusters=15)
    sizes = np.bincount(data.clusters)
    f = scipy.stats.f_oneway(*np.split(data.x, np.cumsum(sizes)[:-1])).statistic  # MSB / MSW
    size = (sizes.sum() - (sizes**2).sum() / sizes.sum()) / (sizes.size - 1)
    expected = (f - 1) / (f + size - 1)
    assert stats.icc(data.x, data.clusters) == pytest.approx(expected, abs=FP64)


def test_the_icc_finds_the_truth_and_its_ends():
    data = draw_clustered(5, clusters=3000)  # half of the variance is the cluster's; off by 0.01 (1 sigma)
    assert stats.icc(data.x, data.clusters) == pytest.approx(0.5, abs=0.06)
    assert stats.icc([1.0, 1.0, 2.0, 2.0], list("aabb")) == 1.0
    assert stats.icc([1.0, 2.0, 1.0, 2.0], list("aabb")) == -1.0


def test_the_design_effect_is_how_much_clusters_widen_intervals():
    """Standard errors by clusters and by items, squared: the ratio is the design effect with the right mean size."""
    data = draw_clustered(6, clusters=2000, largest=9)
    together, alone = (stats.mean(data.x, clusters, method="t") for clusters in (data.clusters, None))
    size = stats.cluster_size(data.clusters, data.x.size)
    effect = stats.design_effect(size, stats.icc(data.x, data.clusters))
    assert ((together.upper - together.lower) / (alone.upper - alone.lower)) ** 2 == pytest.approx(effect, rel=0.05)
    assert stats.cluster_size(list("aaab"), 4) == 10 / 4
    assert stats.cluster_size(None, 4) == 1.0
    assert stats.design_effect(1, 0.7) == 1.0


def mcnemar_power_by_enumeration(n: int, wins: float, losses: float, alpha: float) -> float:
    """Over every table of wins, losses and ties."""
    total = 0.0
    for b in range(n + 1):
        for c in range(n + 1 - b):
            p = scipy.stats.binomtest(b, b + c).pvalue if b + c else 1.0
            if p <= alpha:
                total += scipy.stats.multinomial.pmf([b, c, n - b - c], n, [wins, losses, 1 - wins - losses])
    return total


@pytest.mark.parametrize(("wins", "losses"), [(0.2, 0.05), (0.4, 0.6), (0.1, 0.0), (0.1, 0.1)])
@pytest.mark.parametrize(("n", "alpha"), [(4, 0.05), (25, 0.05), (25, 0.2)])
def test_the_power_of_mcnemar_is_the_sum_over_all_tables(n, alpha, wins, losses):
    expected = mcnemar_power_by_enumeration(n, wins, losses, alpha)
    assert stats.mcnemar_power(n, wins, losses, alpha=alpha) == pytest.approx(expected, abs=FP64)


@pytest.mark.parametrize("alpha", [0.01, 0.05, 0.3])
def test_the_edge_of_mcnemar_is_where_p_crosses_alpha(alpha):
    discordant = np.arange(40)
    for d, edge in zip(
        discordant.tolist(), find_edge(discordant.astype(float), alpha).astype(int).tolist(), strict=True
    ):
        rejected = [x for x in range(d // 2 + 1) if d and scipy.stats.binomtest(x, d).pvalue <= alpha]
        assert edge == max(rejected, default=-1)


def test_the_size_for_mcnemar():
    n = stats.mcnemar_sample_size(0.12, 0.05)
    assert stats.mcnemar_power(n, 0.12, 0.05) >= 0.8 > stats.mcnemar_power(n - 1, 0.12, 0.05)
    connor = (1.96 * math.sqrt(0.17) + 0.8416 * math.sqrt(0.17 - 0.07**2)) ** 2 / 0.07**2  # Connor 1987, not exact
    assert connor < n < 1.2 * connor
    clustered = stats.mcnemar_sample_size(0.12, 0.05, cluster_size=5, icc=0.25)
    assert clustered == 2 * n
    assert stats.mcnemar_power(100_000, 0.51, 0.49) > 0.8  # many items, without overflow


def test_hanley_and_mcneil_is_near_delong():
    """Exponential scores, which it assumes: the standard deviation of 2000 areas is off by 1.6% (1 sigma)."""
    rng = np.random.default_rng(0)
    areas = []
    for _ in range(2000):
        scores = np.concatenate([rng.exponential(3.0, 40), rng.exponential(1.0, 60)])
        ranks = scipy.stats.rankdata(scores)[:40]
        areas.append((ranks.sum() - 40 * 41 / 2) / 2400)
    assert np.mean(areas) == pytest.approx(0.75, abs=0.01)
    assert stats.auc_standard_error(0.75, 40, 60) == pytest.approx(np.std(areas), rel=0.08)


def test_without_a_signal_it_is_the_mann_whitney_variance():
    for m, n in ((5, 9), (40, 60)):
        assert stats.auc_standard_error(0.5, m, n) ** 2 == pytest.approx((m + n + 1) / (12 * m * n), abs=FP64)


def test_the_size_for_an_area():
    n = stats.auc_sample_size(0.65, 0.3)
    assert stats.auc_power(n, 0.65, 0.3) >= 0.8 > stats.auc_power(n - 1, 0.65, 0.3)
    assert stats.auc_sample_size(0.65, 0.3, cluster_size=4, icc=0.2) == pytest.approx(1.6 * n, rel=0.02)
    assert stats.auc_sample_size(0.75, 0.3, null=0.65) > n
    assert stats.auc_power(n, 0.65, 0.3, sides=1) > 0.8


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: stats.paired_power(1, 0.1, 0.2), "n is 1; it must be at least 2, two clusters"),
        (lambda: stats.paired_power(9, 0.1, 0.2, cluster_size=5), "n is 9; it must be at least 10"),
        (lambda: stats.paired_power(9, 0.1, 0.0), "sd is 0.0"),
        (lambda: stats.paired_power(9, 0.1, 0.1, alpha=0.7), "alpha is 0.7"),
        (lambda: stats.paired_power(9, 0.1, 0.1, sides=3), "sides is 3"),
        (lambda: stats.paired_sample_size(0.1, 0.1, power=1.0), "power is 1.0"),
        (lambda: stats.paired_sample_size(0.0, 0.1), "within reach of a billion items"),
        (lambda: stats.detectable_difference(9, 0.1, power=0.01), "power is 0.01; it must be above 0.05"),
        (lambda: stats.mcnemar_sample_size(0.1, 0.1), "wins is 0.1; it must be different from losses"),
        (lambda: stats.mcnemar_power(10, 0.7, 0.7), "two shares with a sum above 0"),
        (lambda: stats.mcnemar_power(10, -0.1, 0.7), "two shares with a sum above 0"),
        (lambda: stats.auc_standard_error(1.0, 5, 5), "area is 1.0"),
        (lambda: stats.auc_standard_error(0.7, 0.5, 5), "1 or more each"),
        (lambda: stats.auc_power(50, 0.7, 0.0), "prevalence is 0.0"),
        (lambda: stats.auc_sample_size(0.7, 1.0), "prevalence is 1.0"),
        (lambda: stats.design_effect(0.5, 0.1), "cluster_size is 0.5"),
        (lambda: stats.design_effect(5, -0.1), "icc is -0.1"),
        (lambda: stats.icc([1.0, 2.0], ["a", "b"]), "2 clusters of 2 items"),
        (lambda: stats.icc([1.0, 1.0, 1.0], ["a", "b", "b"]), "at least two different values"),
        (lambda: stats.cluster_size([], 0), "n is 0"),
    ],
)
def test_plans_that_are_none(call, says):
    with pytest.raises(BadInput, match=says):
        call()
