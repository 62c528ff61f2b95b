"""Summaries of radii, by hand; their names; and the search that finds the one that was planted."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from doubting import make_rows, make_study, places_of
from fewer.errors import BadInput
from fewer.study.sessions.areas import rank
from fewer.study.sessions.outcomes import label_by
from fewer.study.sessions.search import average_parts, search_summaries
from fewer.study.sessions.summaries import PARTS, list_summaries, parse_summary, read_radii

QUESTION = [[0.1, 0.2], [0.3, 0.4], [5.0, 6.0]]  # [layers, rows]
ANSWER = [[0.1 * step for step in range(1, 9)], [0.5] * 8, [0.2, 9.0, *[0.1] * 6]]
RADII = json.dumps(
    {
        "question": {"mean": QUESTION, "median": QUESTION, "largest": [[1.0, 1.0], [1.0, 1.0], [8.0, 7.0]]},
        "answer": {"mean": ANSWER, "median": [[0.0] * 8] * 3, "largest": ANSWER},
    }
)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("radii:question-mean:mean:all:mean", (0.1 + 0.2 + 0.3 + 0.4 + 5 + 6) / 6),
        ("radii:question-mean:mean:all:mean:clipped", (0.1 + 0.2 + 0.3 + 0.4 + 1 + 1) / 6),
        ("radii:question-last:mean:late:mean", 6.0),
        ("radii:question-largest:mean:middle:mean", 0.4),
        ("radii:question-largest:largest:all:largest", 8.0),
        ("radii:question-mean:mean:all:median", 0.35),
        ("radii:first:mean:early:mean", 0.1),
        ("radii:six-largest:mean:early:mean", 0.6),
        ("radii:six-mean:mean:early:mean", 0.35),
        ("radii:answer-largest:mean:early:mean", 0.8),
        ("radii:answer-largest:mean:late:mean", 9.0),
        ("radii:answer-mean:median:all:mean", 0.0),
        ("radii:six-largest:mean:all:mean", (0.2 + 0.5 + 9.0) / 3),
    ],
)
def test_a_summary_is_what_its_name_says(name, value):
    found = parse_summary(name).values(read_radii([RADII]), np.array([-0.4]))
    assert found.tolist() == [pytest.approx(value)]
    ratio = parse_summary(f"{name}:ratio").values(read_radii([RADII]), np.array([-0.4]))
    assert ratio.tolist() == [pytest.approx(value / 0.5)]


def test_an_answer_without_the_rows_has_no_summary():
    aware = json.dumps({"question": None, "answer": {"mean": ANSWER, "median": ANSWER, "largest": ANSWER}})
    both = read_radii([None, aware, RADII])
    for name in ("radii:question-mean:mean:all:mean", "radii:question-mean:mean:all:mean:residual"):
        values = parse_summary(name).values(both, np.array([-1.0, -1.0, -1.0]))
        assert np.isnan(values).tolist() == [True, True, False]
    assert np.isnan(parse_summary("radii:first:mean:all:mean").values(both, np.zeros(3))).tolist() == [
        True,
        False,
        False,
    ]
    assert read_radii([None, None]) == {}


def test_a_residual_has_nothing_left_of_the_log_probability():
    rng = np.random.default_rng(0)
    logprob = -rng.random(40)
    tables = [np.full((3, 2), np.exp(2 * one + 0.1 * rng.normal())).tolist() for one in logprob]
    radii = read_radii([json.dumps({"answer": dict.fromkeys(PARTS["heads"], table)}) for table in tables])
    found = parse_summary("radii:first:mean:all:mean:residual").values(radii, logprob)
    assert abs(np.corrcoef(found, logprob)[0, 1]) < 1e-10
    plain = parse_summary("radii:first:mean:all:mean").values(radii, logprob)
    assert np.corrcoef(plain, logprob)[0, 1] > 0.9
    slope, height = np.polyfit(logprob, np.log(plain), 1)
    assert found == pytest.approx(np.log(plain) - slope * logprob - height)


def test_names_and_summaries_go_both_ways():
    summaries = list_summaries()
    assert (
        len({one.name for one in summaries}) == len(summaries) == np.prod([len(choices) for choices in PARTS.values()])
    )
    assert all(parse_summary(one.name) == one for one in summaries)


@pytest.mark.parametrize(
    "name",
    [
        "radii:first",
        "radii:first:mean:all:mean:more",
        "radii:second:mean:all:mean",
        "radii:first:mean:all:mean:ratio:clipped",
        "radii:first:mean:all:mean:ratio:residual",
        "radii:first:mean:all:mean:clipped:clipped",
        "first:mean:all:mean",
    ],
)
def test_other_names_are_refused_with_what_there_is(name):
    with pytest.raises(BadInput, match="the summary is '"):
        parse_summary(name)


def test_the_search_finds_what_was_planted():
    """Late layers of the question's rows know what the cache broke; nothing else knows anything."""
    study, rng = make_study(), np.random.default_rng(0)
    place = places_of(study, make_rows(study, 60))["pivotal:snapkv", "25%"]
    answers = []
    for answer, full in zip(place.answers, place.full, strict=True):
        table = rng.random((6, 3)) * np.array([5, 5, 5, 5, 1, 1])[:, None]
        table[4:] += 0.5 * (answer.score < full)
        drawn = {"mean": table.tolist(), "median": rng.random((6, 3)).tolist(), "largest": rng.random((6, 3)).tolist()}
        noise = {heads: rng.random((6, 8)).tolist() for heads in ("mean", "median", "largest")}
        radii = json.dumps({"question": drawn, "answer": noise})
        answers.append(replace(answer, values=answer.values | {"radii": radii}))
    place = replace(place, answers=tuple(answers))
    found = search_summaries([place], 0.5)
    assert len(found) == len(list_summaries())
    best = found[0].summary
    assert (best.rows.partition("-")[0], best.heads, best.layers) == ("question", "mean", "late")
    assert found[0].area > 0.95
    again = rank([place], label_by("attribution", 0.5), best.name, resamples=200)
    assert again.interval.estimate == pytest.approx(found[0].area)
    parts = {(part, choice): mean for part, choice, mean, _ in average_parts(found)}
    assert parts["layers", "late"] > max(parts["layers", "early"], parts["layers", "middle"])
    assert parts["heads", "mean"] > parts["heads", "largest"]


def test_without_radii_there_is_nothing_to_search():
    study = make_study()
    assert search_summaries(list(places_of(study, make_rows(study, 10)).values()), 0.5) == []
