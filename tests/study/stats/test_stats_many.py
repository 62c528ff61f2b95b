"""Rank correlations and many comparisons."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from clustered import draw_clustered
from statsmodels.stats.multitest import multipletests

from fewer.errors import BadInput
from fewer.study import stats
from fewer.study.stats.bootstrap import bootstrap, draw
from fewer.study.stats.correlation import Ranks
from fewer.study.stats.sample import read_clusters, read_levels
from tolerances import FP64


@pytest.mark.parametrize("ties", [0, 1])
@pytest.mark.parametrize("seed", range(3))
def test_spearman_is_scipys(seed, ties):
    data = draw_clustered(seed, ties=ties)
    found = stats.spearman(data.x, data.y, data.clusters, resamples=200)
    assert found.estimate == pytest.approx(scipy.stats.spearmanr(data.x, data.y).statistic, abs=FP64)
    assert found.lower < found.estimate < found.upper


def test_resampled_ranks_are_those_of_the_items_written_out():
    data = draw_clustered(4, ties=2)
    sample = read_clusters(data.clusters, data.x.size)
    counts = next(draw(sample, 50, 1))
    ranks = Ranks(sample, read_levels(data.x)).among(counts)
    for column, found in zip(counts.T.astype(int), ranks.T, strict=True):
        items = np.repeat(np.arange(data.x.size), column[sample.codes])
        assert found[items] == pytest.approx(scipy.stats.rankdata(data.x[items]), abs=FP64)


def test_the_interval_of_spearman_is_the_bootstrap_of_scipys():
    data = draw_clustered(5, clusters=15)
    sample = read_clusters(data.clusters, data.x.size)

    def rho(counts: np.ndarray) -> np.ndarray:
        rows = [np.repeat(np.arange(data.x.size), column.astype(int)[sample.codes]) for column in counts.T]
        return np.array([scipy.stats.spearmanr(data.x[row], data.y[row]).statistic for row in rows])

    options = {"method": "bca", "level": 0.9, "resamples": 200, "seed": 2}
    expected, found = bootstrap(rho, sample, **options), stats.spearman(data.x, data.y, data.clusters, **options)
    assert (found.lower, found.upper) == pytest.approx((expected.lower, expected.upper), abs=FP64)
    assert found.method == expected.method


def test_a_constant_has_no_rank_correlation():
    for x, y, name in (([1.0, 1.0], [1.0, 2.0], "x"), ([1.0, 2.0], [3.0, 3.0], "y"), ([], [], "x")):
        with pytest.raises(BadInput, match=f"{name} is .*at least two different values"):
            stats.spearman(x, y, None)


P_VALUES = [0.01, 0.04, 0.03, 0.005, 0.8]


def test_holm_by_hand():
    """Sorted 0.005, 0.01, 0.03, 0.04, 0.8, times 5, 4, 3, 2, 1, never falling, at most 1."""
    assert stats.adjust(P_VALUES).tolist() == pytest.approx([0.04, 0.09, 0.09, 0.025, 0.8], abs=FP64)
    assert stats.adjust([0.6, 0.7]).tolist() == [1.0, 1.0]
    assert stats.adjust([0.03]).tolist() == [0.03]
    assert stats.adjust([]).shape == (0,)


@pytest.mark.parametrize(("method", "name"), [("holm", "holm"), ("benjamini-hochberg", "fdr_bh")])
def test_adjusted_p_values_are_statsmodels(method, name):
    rng = np.random.default_rng(0)
    for p_values in (P_VALUES, rng.random(40) ** 3, np.round(rng.random(40), 1), [0.0, 0.0, 1.0]):
        expected = multipletests(p_values, method=name)[1]
        assert stats.adjust(p_values, method=method) == pytest.approx(expected, abs=FP64)
    assert stats.adjust([], method=method).shape == (0,)


def test_adjustments_that_are_none():
    with pytest.raises(BadInput, match=r"p_values\[1\] is 1.5; it must be in \[0, 1\]"):
        stats.adjust([0.1, 1.5])
    with pytest.raises(BadInput, match="method is 'none'"):
        stats.adjust([0.1], method="none")


def test_the_note_of_a_table():
    note = stats.multiplicity_note(12, p_values={"quarter": 0.012, "half": 0.3, "tenth": 1e-6})
    assert note == (
        "12 intervals at 95%: about 0.6 would miss the truth by chance (at least one with probability 0.46 if they "
        "were independent); Holm-adjusted p: quarter 0.024, half 0.30, tenth <0.0001."
    )
    assert stats.multiplicity_note(1) == "1 interval at 95%: about 0.05 would miss the truth by chance."
    assert stats.multiplicity_note(200, level=0.999).startswith("200 intervals at 99.9%: about 0.2 would miss")
    with pytest.raises(BadInput, match="intervals is -1"):
        stats.multiplicity_note(-1)
