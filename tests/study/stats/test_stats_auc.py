"""Areas under the ROC curve: against scikit-learn, an O(mn) DeLong, and resamples written out."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats
from clustered import draw_clustered
from sklearn.metrics import roc_auc_score

from fewer.errors import BadInput
from fewer.study import stats
from fewer.study.stats.auc import Area
from fewer.study.stats.bootstrap import draw
from fewer.study.stats.sample import read_clusters
from tolerances import FP64


def delong_by_pairs(label: np.ndarray, *scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Areas and their covariance, from the (positives, negatives) table of wins of each score."""
    tables = []
    for score in scores:
        positive, negative = score[label == 1], score[label == 0]
        table = np.array([[1.0 if p > q else 0.5 if p == q else 0.0 for q in negative] for p in positive])
        tables.append(table)
    m, n = tables[0].shape
    rows = np.array([table.mean(axis=1) for table in tables])
    columns = np.array([table.mean(axis=0) for table in tables])
    return np.array([table.mean() for table in tables]), np.cov(rows) / m + np.cov(columns) / n


@pytest.mark.parametrize("ties", [0, 1, 2])
@pytest.mark.parametrize("seed", range(3))
def test_the_area_is_sklearns(seed, ties):
    data = draw_clustered(seed, ties=ties)
    for clusters in (data.clusters, None):
        found = stats.auc(data.label, data.x, clusters, resamples=100)
        assert found.estimate == pytest.approx(roc_auc_score(data.label, data.x), abs=FP64)
        assert found.n == data.x.size
    expected = roc_auc_score(data.label, data.x) - roc_auc_score(data.label, data.y)
    found = stats.auc_difference(data.label, data.x, data.y, data.clusters, resamples=100)
    assert found.estimate == pytest.approx(expected, abs=FP64)


@pytest.mark.parametrize("ties", [0, 2])
def test_delong_is_the_one_over_all_pairs(ties):
    data = draw_clustered(1, ties=ties)
    areas, covariance = delong_by_pairs(data.label, data.x, data.y)
    z = scipy.stats.norm.ppf(0.95)
    one = stats.auc(data.label, data.x, None, method="delong", level=0.9)
    assert one.estimate == pytest.approx(areas[0], abs=FP64)
    half = z * math.sqrt(covariance[0, 0])
    slope = areas[0] * (1 - areas[0])  # of the logit
    for end, sign in ((one.lower, -1), (one.upper, 1)):
        moved = math.log(areas[0] / (1 - areas[0])) + sign * half / slope
        assert end == pytest.approx(1 / (1 + math.exp(-moved)), abs=FP64)
    assert one.method == "DeLong, logit scale, independent items"
    two = stats.auc_difference(data.label, data.x, data.y, None, method="delong", level=0.9)
    spread = math.sqrt(covariance[0, 0] + covariance[1, 1] - 2 * covariance[0, 1])
    difference = areas[0] - areas[1]
    assert (two.estimate, two.lower, two.upper) == pytest.approx(
        (difference, difference - z * spread, difference + z * spread), abs=FP64
    )


def test_delong_without_anything_to_vary():
    separated = stats.auc([0, 0, 1, 1], [1.0, 2.0, 3.0, 4.0], None, method="delong")
    assert (separated.estimate, separated.lower) == (1.0, None)
    assert stats.auc([0, 1, 1], [1.0, 0.0, 3.0], None, method="delong").lower is None
    scores = [1.0, 3.0, 2.0, 4.0]
    same = stats.auc_difference([0, 0, 1, 1], scores, scores, None, method="delong")
    assert (same.estimate, same.lower) == (0.0, None)
    assert same.method.startswith("no interval: DeLong")


@pytest.mark.parametrize("ties", [0, 1])
@pytest.mark.parametrize("grouped", [False, True])
def test_resampled_areas_are_those_of_the_items_written_out(ties, grouped):
    data = draw_clustered(4, clusters=15, ties=ties)
    sample = read_clusters([f"{label:02d}" for label in data.clusters], data.x.size)
    budgets = np.arange(data.x.size) % 3 if grouped else np.zeros(data.x.size, dtype=int)
    area = Area(data.label.astype(float), data.x, sample, read_clusters(budgets, data.x.size))
    counts = next(draw(sample, 100, 7))[:, :25]
    for column, found in zip(counts.T.astype(int), area.among(counts), strict=True):
        items = np.repeat(np.arange(data.x.size), column[sample.codes])
        wins, pairs = 0.0, 0
        for budget in np.unique(budgets):
            inside = items[budgets[items] == budget]
            label = data.label[inside]
            if 0 < label.sum() < label.size:
                number = int(label.sum() * (label.size - label.sum()))
                wins, pairs = wins + number * roc_auc_score(label, data.x[inside]), pairs + number
        assert found == pytest.approx(wins / pairs, abs=FP64)


def test_a_budget_that_explains_everything_does_not_count_as_ranking():
    """Scores and errors rise with the budget's hardness, and within a budget the score is noise."""
    rng = np.random.default_rng(0)
    budgets = np.repeat([0, 1, 2], 200)
    wrong = rng.random(600) < np.array([0.1, 0.5, 0.9])[budgets]
    scores = budgets + 0.5 * rng.random(600)
    pooled = stats.auc(wrong, scores, None, method="delong")
    inside = stats.auc(wrong, scores, None, within=budgets, resamples=1000)
    assert pooled.lower > 0.75
    assert not inside.excludes(0.5)


def test_groups_weigh_by_their_pairs():
    labels, scores = [1, 0, 1, 1, 0, 0, 1, 1], [2.0, 1.0, 0.0, 3.0, 1.0, 2.0, 0.0, 0.0]
    budgets = ["a", "a", "b", "b", "b", "b", "c", "c"]  # 1 pair won, 2 of 4 won, none
    assert stats.auc(labels, scores, None, within=budgets, resamples=100).estimate == pytest.approx(3 / 5, abs=FP64)
    with pytest.raises(BadInput, match="of both classes in one group"):
        stats.auc([1, 0], [0.1, 0.2], None, within=["a", "b"])


@pytest.mark.parametrize("labels", [[1, 1, 1], [0, 0, 0], []])
def test_one_class_has_no_area(labels):
    for method in ("bca", "delong"):
        with pytest.raises(BadInput, match=f"labels is '{sum(labels)} ones and .* of both classes"):
            stats.auc(labels, [0.1] * len(labels), None, method=method)


def test_delong_is_for_independent_items():
    data = draw_clustered(0)
    for options in ({"clusters": data.clusters}, {"clusters": None, "within": data.clusters % 2}):
        with pytest.raises(BadInput, match="'bca' or 'percentile' with `within` or shared clusters"):
            stats.auc(data.label, data.x, **options, method="delong")
        with pytest.raises(BadInput, match="'bca' or 'percentile' with `within` or shared clusters"):
            stats.auc_difference(data.label, data.x, data.y, **options, method="delong")


def test_scores_that_rank_alike_have_the_same_interval():
    data = draw_clustered(2, ties=2)
    options = {"clusters": data.clusters, "resamples": 500}
    assert stats.auc(data.label, np.exp(data.x), **options) == stats.auc(data.label, data.x, **options)
    flipped, plain = stats.auc(data.label, -data.x, **options), stats.auc(data.label, data.x, **options)
    assert 1 - flipped.estimate == pytest.approx(plain.estimate, abs=FP64)


def test_resamples_without_both_classes_are_counted():
    labels, scores = [1, 1, 0, 0, 0, 0], [3.0, 1.0, 2.0, 0.0, 1.5, 1.0]
    interval = stats.auc(labels, scores, None, resamples=1000, method="percentile")
    assert "of them left out because the statistic is not defined on them" in interval.method
    left_out = int(interval.method.split("tails, ")[1].split()[0])
    assert left_out == pytest.approx(1000 * ((2 / 3) ** 6 + (1 / 3) ** 6), abs=60)  # 4 sigma, and seeded
    alone = stats.auc([1, 0, 0, 0], [1.0, 0.0, 2.0, 3.0], None, resamples=200)
    assert alone.method == "no interval: without one of the clusters the statistic is not defined; BCa needs it there"


def test_perfect_ranking_has_no_bootstrap_interval():
    interval = stats.auc([1, 1, 0, 0, 0, 1], [3.0, 4.0, 2.0, 0.0, 1.5, 5.0], None, resamples=300)
    assert (interval.estimate, interval.lower) == (1.0, None)
    assert interval.method.startswith("no interval: all 6 clusters agree")
