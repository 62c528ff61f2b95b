"""Verdicts against a margin: one interval, one p-value, never at odds; against statsmodels' two one-sided tests."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from clustered import draw_clustered
from statsmodels.stats.weightstats import ttost_paired

from fewer.errors import BadInput
from fewer.study import stats
from tolerances import FP64


def shift(mean: float, n: int = 30) -> tuple[np.ndarray, np.ndarray]:
    """Pairs whose differences have exactly this mean."""
    b = np.random.default_rng(0).random(n)
    noise = np.random.default_rng(1).standard_normal(n) * 0.1
    return b + noise - noise.mean() + mean, b


def test_equivalence_is_two_one_sided_tests():
    a, b = shift(0.01)
    test = stats.equivalence(a, b, None, margin=0.05, alpha=0.05)
    expected, *_ = ttost_paired(a, b, -0.05, 0.05)
    assert test.p == pytest.approx(expected, abs=FP64)
    assert test.verdict == "equivalent"
    assert test.claim == "|mean(a - b)| < 0.05"


def test_noninferiority_is_a_one_sided_t_test():
    a, b = shift(-0.01)
    test = stats.noninferiority(a, b, None, margin=0.05)
    expected = scipy.stats.ttest_1samp(a - b, -0.05, alternative="greater").pvalue
    assert test.p == pytest.approx(expected, abs=FP64)
    assert test.claim == "mean(a - b) > -0.05"
    assert stats.superiority(a, b, None).p == pytest.approx(
        scipy.stats.ttest_1samp(a - b, 0, alternative="greater").pvalue, abs=FP64
    )


def test_the_interval_is_the_two_sided_one_at_one_minus_two_alpha():
    data = draw_clustered(0)
    for alpha in (0.025, 0.05):
        expected = stats.mean_difference(data.x, data.y, data.clusters, method="t", level=1 - 2 * alpha)
        assert stats.noninferiority(data.x, data.y, data.clusters, margin=0.1, alpha=alpha).interval == expected
        assert stats.superiority(data.x, data.y, data.clusters, alpha=alpha).interval == expected
        assert stats.equivalence(data.x, data.y, data.clusters, margin=0.1, alpha=alpha).interval == expected


@pytest.mark.parametrize(
    ("mean", "noninferior", "superior", "equivalent"),
    [
        (0.30, "non-inferior", "superior", "different"),
        (0.09, "non-inferior", "superior", "inconclusive"),
        (0.00, "non-inferior", "inconclusive", "equivalent"),
        (-0.05, "non-inferior", "inferior", "equivalent"),  # significantly worse, and by less than the margin
        (-0.09, "inconclusive", "inferior", "inconclusive"),
        (-0.30, "inferior", "inferior", "different"),
    ],
)
def test_the_verdicts(mean, noninferior, superior, equivalent):
    a, b = shift(mean, 30)
    assert stats.noninferiority(a, b, None, margin=0.1).verdict == noninferior
    assert stats.superiority(a, b, None).verdict == superior
    assert stats.equivalence(a, b, None, margin=0.1).verdict == equivalent


@pytest.mark.parametrize("alpha", [0.01, 0.025, 0.2])
def test_p_and_verdict_never_disagree(alpha):
    for seed in range(60):
        data = draw_clustered(seed, clusters=6)
        margin = 0.02 + seed / 60
        options = {"alpha": alpha, "bounds": (-10, 10)}
        for test, passed in (
            (stats.noninferiority(data.x, data.y, data.clusters, margin=margin, **options), "non-inferior"),
            (stats.superiority(data.x, data.y, data.clusters, **options), "superior"),
            (stats.equivalence(data.x, data.y, data.clusters, margin=margin, **options), "equivalent"),
        ):
            assert (test.p < alpha) == (test.verdict == passed)


@pytest.mark.parametrize("n", [5, 36, 37, 200])
def test_arms_that_never_differ(n):
    same = [0.5] * n
    unknown = stats.noninferiority(same, same, None, margin=0.1)
    assert (unknown.verdict, unknown.p) == ("inconclusive", None)
    assert unknown.interval.method.startswith("no interval")
    test = stats.noninferiority(same, same, None, margin=0.1, bounds=(0, 1))
    assert test.p == pytest.approx(0.9**n, abs=FP64)  # no change in n, if a tenth changed by the worst there is
    assert (test.verdict == "non-inferior") == (n >= 36)  # 0.9^35 = 0.02503
    both = stats.equivalence(same, same, None, margin=0.1, bounds=(0, 1))
    assert (both.p, both.verdict == "equivalent") == (test.p, n >= 36)
    assert stats.superiority(same, same, None, bounds=(0, 1)).p == 1.0


def test_arms_at_the_opposite_ends_of_the_scale():
    worst, best = [0.0] * 40, [1.0] * 40
    test = stats.noninferiority(worst, best, None, margin=0.1, bounds=(0, 1))
    assert (test.verdict, test.p) == ("inferior", 1.0)
    assert stats.noninferiority(best, worst, None, margin=0.1, bounds=(0, 1)).p == pytest.approx(0.45**40, abs=FP64)


def test_too_little_for_a_verdict():
    for a, clusters in (([], []), ([0.1, 0.3], ["a", "a"])):
        for test in (
            stats.noninferiority(a, a, clusters, margin=0.1),
            stats.superiority(a, a, clusters),
            stats.equivalence(a, a, clusters, margin=0.1),
        ):
            assert (test.verdict, test.p, test.interval.known) == ("inconclusive", None, False)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"margin": 0.0}, "margin is 0.0; it must be above 0"),
        ({"margin": -0.1}, "margin is -0.1"),
        ({"margin": float("nan")}, "margin is nan"),
        ({"margin": 0.1, "alpha": 0.5}, "alpha is 0.5"),
    ],
)
def test_margins_that_are_none(options, says):
    for test in (stats.noninferiority, stats.equivalence):
        with pytest.raises(BadInput, match=says):
            test([0.1, 0.2], [0.2, 0.1], None, **options)
