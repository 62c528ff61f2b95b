"""The shapes of answers, what goes in, and the public names."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import math
from pathlib import Path

import numpy as np
import pytest

from fewer.errors import BadInput
from fewer.study import stats
from fewer.study.stats import Interval, PValue
from fewer.study.stats.sample import read_clusters, read_numbers


def test_the_public_names_are_those_imported():
    tree = ast.parse(Path(stats.__file__).read_text("utf-8"))
    imported = {alias.name for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert set(stats.__all__) == imported - {"annotations"}
    assert stats.__all__ == sorted(stats.__all__)


def test_keywords_are_the_same_everywhere():
    defaults = {"level": 0.95, "resamples": 10_000, "seed": 0}
    for name in stats.__all__:
        value = getattr(stats, name)
        if inspect.isfunction(value):
            for key, parameter in inspect.signature(value).parameters.items():
                if key in defaults:
                    assert parameter.default == defaults[key], name
                    assert parameter.kind is parameter.KEYWORD_ONLY, name
                if key == "clusters":
                    assert parameter.default is parameter.empty, f"{name} lets clusters be forgotten"


def test_an_interval_is_frozen_and_plain():
    interval = Interval(0.5, 0.4, 0.6, 0.95, 20, 10, "by hand")
    with pytest.raises(dataclasses.FrozenInstanceError):
        interval.lower = 0.0
    assert dataclasses.asdict(interval) == {
        "estimate": 0.5,
        "lower": 0.4,
        "upper": 0.6,
        "level": 0.95,
        "n": 20,
        "clusters": 10,
        "method": "by hand",
    }


def test_what_an_interval_excludes():
    interval = Interval(0.5, 0.4, 0.6, 0.95, 20, 10, "by hand")
    assert [interval.excludes(value) for value in (0.39, 0.4, 0.5, 0.6, 0.61)] == [True, False, False, False, True]
    nothing = Interval.unknown(0.5, 0.95, 20, 1, "one cluster")
    assert (nothing.lower, nothing.upper, nothing.known) == (None, None, False)
    assert nothing.method == "no interval: one cluster"
    assert not nothing.excludes(100.0)


def test_an_interval_through_an_increasing_function():
    interval = Interval(0.0, -1.0, 2.0, 0.9, 20, 10, "by hand").through(math.exp)
    assert (interval.estimate, interval.lower, interval.upper) == (1.0, math.exp(-1), math.exp(2))
    assert Interval.unknown(None, 0.9, 0, 0, "empty").through(math.exp).estimate is None


@pytest.mark.parametrize(
    ("numbers", "says"),
    [
        ((math.nan, 0.0, 1.0, 0.95), "Interval.estimate is nan"),
        ((0.5, -math.inf, 1.0, 0.95), "Interval.lower is -inf"),
        ((0.5, 1.0, 0.0, 0.95), "in ascending order"),
        ((0.5, 1.0, None, 0.95), "two ends or none"),
        ((0.5, 0.0, 1.0, 95), "level is 95; it must be strictly between 0 and 1"),
    ],
)
def test_intervals_that_are_none(numbers, says):
    with pytest.raises(BadInput, match=says):
        Interval(*numbers, 3, 3, "by hand")


def test_a_p_value_is_a_probability():
    with pytest.raises(BadInput, match="between 0 and 1"):
        PValue(1.2, "two-sided", 3, 3, "by hand")


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ([0.1, math.nan], r"values\[1\] is nan; it must be a number"),
        ([0.1, None], r"values\[1\] is nan"),
        ([0.1, math.inf], r"values\[1\] is inf; it must be finite"),
        ([[0.1], [0.2]], "one-dimensional"),
        (0.5, "one-dimensional"),
        (["0.1", "0.2"], "one-dimensional list of numbers"),
        ([0.1, [0.2]], "a list of numbers"),
        ([0.1, "x", None], "a list of numbers"),
    ],
)
def test_numbers_that_are_none(values, says):
    with pytest.raises(BadInput, match=says):
        stats.mean(values, None)


def test_numbers_of_other_kinds():
    assert read_numbers("values", [True, False]).tolist() == [1.0, 0.0]
    assert read_numbers("values", np.array([1, 2], dtype=np.int8)).dtype == np.float64
    assert read_numbers("values", []).shape == (0,)


def test_lengths_must_agree():
    with pytest.raises(BadInput, match=r"len\(clusters\) is 1; it must be 2"):
        stats.mean([0.1, 0.2], ["a"])
    with pytest.raises(BadInput, match=r"len\(b\) is 1; it must be 2"):
        stats.mean_difference([0.1, 0.2], [0.1], None)


@pytest.mark.parametrize("label", [None, math.nan])
def test_labels_must_be_there(label):
    with pytest.raises(BadInput, match=r"clusters\[1\]"):
        stats.mean([0.1, 0.2], ["a", label])


@pytest.mark.parametrize("labels", [list("bab"), [(2, "x"), (1, "x"), (2, "x")], np.array([10, 9, 10]), [1, "x", 1]])
def test_any_label_will_do(labels):
    sample = read_clusters(labels, 3)
    assert (sample.codes.tolist(), sample.count, sample.n, sample.alone) == ([1, 0, 1], 2, 3, False)
    assert sample.sum([1.0, 2.0, 4.0]).tolist() == [2.0, 5.0]


@pytest.mark.parametrize(
    ("option", "says"),
    [
        ({"level": 1.0}, "level is 1.0"),
        ({"resamples": 99}, "resamples is 99; it must be at least 100"),
        ({"seed": -1}, "seed is -1"),
        ({"method": "normal"}, "method is 'normal'"),
        ({"bounds": (1, 0)}, "bounds is"),
        ({"bounds": (0, 0.2)}, r"values\[2\] is 0.3; it must be in \[0, 0.2\]"),
    ],
)
@pytest.mark.parametrize("method", ["bca", "t"])
def test_options_that_are_none(option, says, method):
    with pytest.raises(BadInput, match=says):
        stats.mean([0.1, 0.2, 0.3], None, **{"method": method, **option})
