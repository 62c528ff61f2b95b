"""Risk against coverage: against the enumeration of all orders that the confidences leave open."""

from __future__ import annotations

from itertools import pairwise, permutations

import numpy as np
import pytest
from clustered import draw_clustered

from fewer.errors import BadInput
from fewer.study import stats
from fewer.study.stats.bootstrap import draw
from fewer.study.stats.sample import read_clusters
from fewer.study.stats.selective import Ranking
from tolerances import FP64

SURE = [0.9, 0.9, 0.9, 0.5, 0.5, 0.1]
LOST = [0.0, 1.0, 0.5, 1.0, 0.2, 0.7]


def risks_by_enumeration(sure: list[float], lost: list[float]) -> np.ndarray:
    """The mean over all orders of falling confidence of the running mean loss."""
    steps = np.arange(1, len(sure) + 1)
    orders = [order for order in permutations(range(len(sure))) if all(sure[i] >= sure[j] for i, j in pairwise(order))]
    return np.mean([np.cumsum([lost[i] for i in order]) / steps for order in orders], axis=0)


def test_the_curve_is_the_expectation_over_all_orders():
    curve = stats.risk_coverage(SURE, LOST)
    assert curve.coverage == pytest.approx(np.arange(1, 7) / 6, abs=FP64)
    assert curve.risk == pytest.approx(risks_by_enumeration(SURE, LOST), abs=FP64)


@pytest.mark.parametrize("sure", [SURE, [0.3] * 6, [6, 5, 4, 3, 2, 1], [1, 2, 3, 4, 5, 6]])
def test_the_area_is_the_mean_of_the_curve(sure):
    expected = risks_by_enumeration(sure, LOST)
    assert stats.aurc(sure, LOST, None, resamples=100).estimate == pytest.approx(expected.mean(), abs=FP64)
    best = risks_by_enumeration([-loss for loss in LOST], LOST)
    excess = stats.excess_aurc(sure, LOST, None, resamples=100).estimate
    assert excess == pytest.approx(expected.mean() - best.mean(), abs=FP64)
    for interval, risk in zip(
        stats.selective_risk(sure, LOST, None, [1 / 6, 0.5, 1.0], resamples=100), expected[[0, 2, 5]], strict=True
    ):
        assert interval.estimate == pytest.approx(risk, abs=FP64)


def test_uninformative_confidence_has_the_mean_loss_as_area():
    data = draw_clustered(0)
    flat = stats.aurc(np.zeros_like(data.x), data.label, data.clusters, resamples=100)
    assert flat.estimate == pytest.approx(data.label.mean(), abs=FP64)
    areas = [risks_by_enumeration(list(order), LOST[:5]).mean() for order in permutations(range(5))]
    assert np.mean(areas) == pytest.approx(np.mean(LOST[:5]), abs=FP64)


def test_sorting_by_the_loss_has_no_excess():
    data = draw_clustered(1)
    perfect = stats.excess_aurc(-data.y, data.y, data.clusters, resamples=100)
    assert perfect.estimate == pytest.approx(0, abs=FP64)
    assert perfect.method.startswith("no interval: all 12 clusters agree")
    assert stats.excess_aurc(data.y, data.y, data.clusters, resamples=100).estimate > 0.1


@pytest.mark.parametrize("ties", [0, 1])
def test_resamples_are_those_of_the_items_written_out(ties):
    data = draw_clustered(2, clusters=9, ties=ties)
    sample = read_clusters(data.clusters, data.x.size)
    ranking = Ranking(data.x, data.y, sample)
    counts = next(draw(sample, 50, 3))
    areas, risks = ranking.area(counts), ranking.risk_at(0.3)(counts)
    for column, area, risk in zip(counts.T.astype(int), areas, risks, strict=True):
        items = np.repeat(np.arange(data.x.size), column[sample.codes])
        curve = stats.risk_coverage(data.x[items], data.y[items])
        assert area == pytest.approx(curve.risk.mean(), abs=FP64)
        kept = 0.3 * items.size
        steps = np.arange(items.size + 1)
        lost = np.interp(kept, steps, np.append(0, curve.risk * steps[1:]))
        assert risk == pytest.approx(lost / kept, abs=FP64)


def test_an_item_at_the_border_counts_in_part():
    (interval,) = stats.selective_risk([3, 2, 1], [0.0, 1.0, 1.0], None, [0.5], resamples=100)
    assert interval.estimate == pytest.approx(0.5 / 1.5, abs=FP64)  # one item and half of the next


def test_full_coverage_is_the_mean_with_its_interval():
    data = draw_clustered(3)
    (interval,) = stats.selective_risk(data.x, data.y, data.clusters, [1.0], resamples=500)
    mean = stats.mean(data.y, data.clusters, resamples=500)
    assert (interval.lower, interval.upper) == pytest.approx((mean.lower, mean.upper), abs=FP64)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: stats.selective_risk(SURE, LOST, None, [0.0]), "coverage is 0.0; it must be above 0 and up to 1"),
        (lambda: stats.selective_risk(SURE, LOST, None, [1.1]), "coverage is 1.1"),
        (lambda: stats.aurc([], [], None), r"len\(losses\) is 0"),
        (lambda: stats.aurc([0.1], LOST, None), r"len\(confidence\) is 1; it must be 6"),
        (lambda: stats.aurc(SURE, LOST, None, method="t"), "method is 't'"),
    ],
)
def test_risks_that_are_none(call, says):
    with pytest.raises(BadInput, match=says):
        call()
