"""Proportions, McNemar and sign flips: against SciPy and statsmodels."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from clustered import draw_clustered
from statsmodels.stats import contingency_tables
from statsmodels.stats import proportion as theirs

from fewer.errors import BadInput
from fewer.study import stats
from fewer.study.stats import permutation
from tolerances import FP64


@pytest.mark.parametrize(("ones", "n"), [(0, 7), (7, 7), (3, 10), (1, 200), (199, 200), (450, 1000)])
@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.99])
@pytest.mark.parametrize(("method", "name"), [("wilson", "wilson"), ("clopper-pearson", "beta")])
def test_proportions_are_statsmodels(ones, n, level, method, name):
    outcomes = [1] * ones + [0] * (n - ones)
    interval = stats.proportion(outcomes, None, method=method, level=level)
    low, high = theirs.proportion_confint(ones, n, alpha=1 - level, method=name)
    assert (interval.lower, interval.upper) == pytest.approx((low, high), abs=1e-9)
    assert (interval.estimate, interval.n, interval.clusters) == (ones / n, n, n)


def test_clustered_proportions_are_means_with_bounds():
    data = draw_clustered(0)
    assert stats.proportion(data.label, data.clusters) == stats.mean(data.label, data.clusters, bounds=(0, 1))
    assert stats.proportion(data.label, data.clusters, method="t") == stats.mean(data.label, data.clusters, method="t")
    assert stats.proportion(data.label, None).method == "Wilson, independent items"
    for method in ("wilson", "clopper-pearson"):
        with pytest.raises(BadInput, match="bca, percentile or t where items share clusters"):
            stats.proportion(data.label, data.clusters, method=method)
    with pytest.raises(BadInput, match=r"outcomes\[1\] is 0.5; it must be 0 or 1"):
        stats.proportion([0, 0.5], None)
    with pytest.raises(BadInput, match="method is 'wald'"):
        stats.proportion([0, 1], None, method="wald")
    assert stats.proportion([], None).estimate is None


@pytest.mark.parametrize("seed", range(4))
def test_mcnemar_is_statsmodels(seed):
    rng = np.random.default_rng(seed)
    a, b = rng.integers(2, size=40), (rng.random(40) < 0.3 + 0.1 * seed).astype(int)
    table = [[np.sum((a == i) & (b == j)) for j in (1, 0)] for i in (1, 0)]
    expected = contingency_tables.mcnemar(table, exact=True).pvalue
    found = stats.mcnemar(a, b)
    assert found.p == pytest.approx(expected, abs=FP64)
    wins, losses = int(np.sum(a > b)), int(np.sum(a < b))
    assert found.method == f"McNemar, exact, {wins} against {losses} discordant items"
    assert stats.mcnemar(b, a).p == found.p


def test_mcnemar_without_a_discordant_item():
    assert stats.mcnemar([1, 0, 1], [1, 0, 1]).p == 1.0
    assert stats.mcnemar([], []).p == 1.0


@pytest.mark.parametrize("alternative", ["two-sided", "greater", "less"])
@pytest.mark.parametrize("ties", [0, 1])
def test_exact_sign_flips_are_scipys(alternative, ties):
    data = draw_clustered(3, clusters=10, ties=ties)
    sums = np.array([(data.x - data.y)[data.clusters == label].sum() for label in range(10)])
    expected = scipy.stats.permutation_test(
        (sums,),
        np.sum,
        permutation_type="samples",
        n_resamples=np.inf,
        alternative=alternative,
    )
    found = stats.sign_flip(data.x, data.y, data.clusters, alternative=alternative)
    assert found.p == pytest.approx(expected.pvalue, abs=FP64)
    moved = int(np.sum(sums != 0))
    assert (found.clusters, found.method) == (10, f"sign flips over clusters, exact, all 2^{moved}")


def test_sign_flips_of_few_clusters_by_hand():
    differences = [1.0, 2.0, 3.0]  # of 8 sums only +6 and -6 are as large
    assert stats.sign_flip(differences, [0.0] * 3, None).p == 2 / 8
    assert stats.sign_flip(differences, [0.0] * 3, None, alternative="greater").p == 1 / 8
    assert stats.sign_flip(differences, [0.0] * 3, None, alternative="less").p == 1.0
    assert stats.sign_flip([0.1, 0.2, 0.3], [0.3, 0.1, 0.2], None).p == 1.0  # sums to 0 but for rounding
    assert stats.sign_flip([0.5, 0.5], [0.5, 0.5], None).p == 1.0
    assert stats.sign_flip([1.0, 0.0, 3.0, 5.0], [0.0, 1.0, 0.0, 0.0], ["a", "a", "b", "c"]).p == 2 / 4


def test_drawn_sign_flips_estimate_the_exact_ones(monkeypatch):
    """20000 draws: p is off by 0.0035 (1 sigma at p = 0.5); 0.02 fails less than once in 10^7."""
    data = draw_clustered(4, clusters=12)
    exact = stats.sign_flip(data.x, data.y, data.clusters)
    monkeypatch.setattr(permutation, "MOST_EXACT", 5)
    drawn = stats.sign_flip(data.x, data.y, data.clusters, resamples=20_000, seed=3)
    assert drawn.p == pytest.approx(exact.p, abs=0.02)
    assert drawn.method == "sign flips over clusters, 20000 draws and the observed one, seed 3"
    assert drawn == stats.sign_flip(data.x, data.y, data.clusters, resamples=20_000, seed=3)


def test_a_drawn_p_is_never_zero():
    assert stats.sign_flip([1.0] * 60, [0.0] * 60, None, resamples=1000).p == 1 / 1001


def test_sign_flips_refuse_what_they_cannot_do():
    with pytest.raises(BadInput, match=r"len\(a\) is 0"):
        stats.sign_flip([], [], None)
    with pytest.raises(BadInput, match="alternative is 'larger'"):
        stats.sign_flip([1.0], [0.0], None, alternative="larger")
