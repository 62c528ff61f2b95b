"""Withholding and recomputing by a doubt, against sorting by hand; ties against every order of the tied."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest

from doubting import make_rows, make_study, places_of
from fewer.errors import BadInput
from fewer.study.sessions.doubts import read_doubt
from fewer.study.sessions.gating import Gating, fill
from fewer.study.sessions.places import Floats, Place
from fewer.study.stats import aurc, selective_risk

HOW = {"resamples": 200}
STUDY = make_study()
PLACES = [place for place in places_of(STUDY, make_rows(STUDY, 40, missing=0.1)).values() if ":" in place.policy]


def right(scores: Floats) -> Floats:
    return (scores >= 0.5).astype(float)


def recompute(place: Place, doubt: Floats, rate: float) -> float:
    """Right answers (a number of them) with the most doubted share replaced; doubts are all different."""
    arm, full = right(place.score), right(place.full)
    quota, total = rate * len(arm), 0.0
    for number, index in enumerate(np.argsort(-doubt)):
        part = min(max(quota - number, 0.0), 1.0)
        total += part * full[index] + (1 - part) * arm[index]
    return total


@pytest.mark.parametrize("rate", [0.1, 0.25, 0.33, 0.5])
def test_the_most_doubted_share_of_each_place_is_replaced(rate):
    gating = Gating(PLACES, right, **HOW)
    total = sum(recompute(place, read_doubt("logprob", place), rate) for place in PLACES)
    n = sum(len(place.answers) for place in PLACES)
    found = gating.accuracy("logprob", rate)
    assert found.estimate == pytest.approx(total / n)
    assert found.n == n
    chance = np.concatenate([rate * right(p.full) + (1 - rate) * right(p.score) for p in PLACES]).mean()
    assert gating.accuracy("random", rate).estimate == pytest.approx(chance)
    assert gating.gain("logprob", rate).estimate == pytest.approx(total / n - chance)
    better, plain = gating.accuracy("certificate", rate), gating.accuracy("logprob", rate)
    difference = gating.gain("certificate", rate, "logprob").estimate
    assert difference == pytest.approx(better.estimate - plain.estimate)
    assert gating.accuracy("oracle", rate).estimate >= max(better.estimate, plain.estimate)


def test_all_recomputed_is_the_full_run_and_none_is_the_arm():
    gating = Gating(PLACES[:1], right, **HOW)
    assert gating.accuracy("certificate", 1.0).estimate == pytest.approx(right(PLACES[0].full).mean())
    assert gating.accuracy("certificate", 0.0).estimate == pytest.approx(right(PLACES[0].score).mean())
    assert gating.gain("certificate", 1.0).estimate == pytest.approx(0)


@pytest.mark.parametrize("rate", [0.25, 0.4, 0.7])
def test_equal_doubts_count_as_the_mean_over_their_orders(rate):
    place = _small([2, 1, 1, 1, 0], [0, 0, 1, 0, 1], [1, 1, 0, 0, 1])
    orders = [[0, *middle, 4] for middle in permutations([1, 2, 3])]
    wanted = [recompute(place, -np.argsort(order).astype(float), rate) / 5 for order in orders]
    assert Gating([place], right, **HOW).accuracy("certificate", rate).estimate == pytest.approx(np.mean(wanted))


def test_an_answer_without_a_doubt_is_doubted_least():
    assert fill(np.array([3.0, np.nan, -1.0])).tolist() == [3.0, -2.0, -1.0]
    assert fill(np.array([np.nan, np.nan])).tolist() == [-1.0, -1.0]
    place = _small([None, 1, 2], [0, 0, 0], [1, 0, 0])
    gating = Gating([place], right, **HOW)
    assert gating.accuracy("certificate", 2 / 3).estimate == pytest.approx(0)
    assert gating.error("certificate", 1 / 3).estimate == 1.0


@pytest.mark.parametrize("withheld", [0.0, 0.1, 0.25, 0.5])
def test_errors_of_one_place_are_selective_risks(withheld):
    place = PLACES[0]
    gating = Gating([place], right, **HOW)
    sure, lost = -read_doubt("logprob", place), 1 - right(place.score)
    wanted = selective_risk(sure, lost, place.clusters, [1 - withheld], **HOW)[0]
    assert gating.error("logprob", withheld) == wanted
    assert gating.area("logprob") == aurc(sure, lost, place.clusters, **HOW)
    assert gating.error("oracle", withheld).estimate <= wanted.estimate


def test_errors_of_several_places_are_withheld_in_each():
    gating = Gating(PLACES, right, **HOW)
    ones = [Gating([place], right, **HOW).error("certificate", 0.5).estimate for place in PLACES]
    sizes = [len(place.answers) for place in PLACES]
    assert gating.error("certificate", 0.5).estimate == pytest.approx(np.average(ones, weights=sizes))
    areas = [Gating([place], right, **HOW).area("certificate").estimate for place in PLACES]
    assert gating.area("certificate").estimate == pytest.approx(np.average(areas, weights=sizes))


def test_graded_scores_are_worth_themselves():
    place = _small([2, 1, 0, -1], [0, 0, 0.5, 1], [0.8, 1, 1, 1])
    assert Gating([place], lambda scores: scores, **HOW).accuracy("certificate", 0.25).estimate == pytest.approx(0.575)


def test_a_cluster_that_a_place_lacks_does_no_harm():
    first = _small([2, 1], [0, 1], [1, 1])
    second = replace(_small([2, 1], [1, 0], [0, 1]), budget="50%")
    others = tuple(replace(answer, cluster=f"other {answer.cluster}") for answer in second.answers)
    found = Gating([first, replace(second, answers=others)], right, **HOW).gain("certificate", 0.5)
    assert found.estimate == pytest.approx(0.25 * (1 - 0.5) + 0.25 * (-1 - 0) - 0.0)
    assert found.clusters == 4


@pytest.mark.parametrize("rate", [-0.1, 1.1])
def test_rates_are_shares(rate):
    gating = Gating(PLACES[:1], right, **HOW)
    with pytest.raises(BadInput, match="it must be from 0 to 1"):
        gating.accuracy("logprob", rate)
    with pytest.raises(BadInput, match="from 0 to below 1"):
        gating.error("logprob", 1.0)
    with pytest.raises(BadInput, match="A gate needs answers"):
        Gating([], right)


def _small(doubts: list[float | None], scores: list[float], fulls: list[float]) -> Place:
    """A place of one answer an item and cluster."""
    answers = tuple(
        replace(
            PLACES[0].answers[0],
            item=str(number),
            cluster=str(number),
            score=float(score),
            values=PLACES[0].answers[0].values | {"certificate": doubt},
        )
        for number, (doubt, score) in enumerate(zip(doubts, scores, strict=True))
    )
    return Place("pivotal:snapkv", "25%", "stream", ("one",), answers, np.array(fulls, dtype=float))
