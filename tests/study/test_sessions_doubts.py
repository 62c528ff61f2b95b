"""Signals as doubts: which way they point, and two-draw disagreement by hand."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from doubting import POISSON, make_rows, make_study, places_of
from fewer.errors import BadInput
from fewer.study.row import to_table
from fewer.study.sessions.doubts import DOUBTS, list_present, read_doubt


def _with_ids(first: list[int] | None, second: list[int] | None) -> pa.Table:
    rows = make_rows(make_study(), 2).to_pylist()
    for row in rows:
        if row["arm"] in POISSON and row["unit"] == 0:
            row["ids"] = first if row["arm"] == POISSON[0] else second
    return to_table(rows)


@pytest.mark.parametrize(
    ("first", "second", "doubt"),
    [
        ([1, 2, 3], [1, 2, 3], 0.0),
        ([1, 2, 3, 4], [1, 2, 9, 4], 0.5),
        ([1, 2], [1, 2, 3, 4], 0.5),
        ([5], [6], 1.0),
        ([], [], 0.0),
        ([], [1], 1.0),
    ],
)
def test_disagreement_is_one_minus_what_is_shared_at_the_start_over_the_longer(first, second, doubt):
    place = places_of(make_study(), _with_ids(first, second))["poisson:snapkv", "25%"]
    found = dict(zip([answer.item for answer in place.answers], read_doubt("disagreement", place), strict=True))
    assert found["keys/0"] == doubt
    both = read_doubt("disagreement", place)
    assert both[0] == both[2] == doubt  # of both draws of the item


def test_without_a_second_draw_there_is_no_disagreement():
    places = places_of(make_study(), _with_ids([1], None))
    assert np.isnan(read_doubt("disagreement", places["pivotal:snapkv", "25%"])).all()
    drawn = places["poisson:snapkv", "25%"]
    missing = [np.isnan(value) for value in read_doubt("disagreement", drawn)]
    assert missing == [answer.item == "keys/0" for answer in drawn.answers]


def test_unsure_answers_are_doubted_more():
    place = places_of(make_study(), make_rows(make_study(), 8))["pivotal:snapkv", "25%"]
    assert read_doubt("logprob", place).tolist() == [-answer.values["mean_logprob"] for answer in place.answers]
    assert read_doubt("min_margin", place).tolist() == [-answer.values["min_margin"] for answer in place.answers]
    assert read_doubt("certificate", place).tolist() == [answer.values["certificate"] for answer in place.answers]


def test_only_doubts_that_some_answer_has_are_listed():
    places = places_of(make_study(), make_rows(make_study(), 8))
    plain = {"logprob", "first_margin", "min_margin"}
    assert set(list_present(places["snapkv", "25%"])) == plain
    assert set(list_present(places["pivotal:snapkv", "25%"])) == plain | {"certificate"}
    assert set(list_present(places["poisson:snapkv", "25%"])) == plain | {"certificate", "disagreement"}
    assert {"agreement", "mean_logprob"}.isdisjoint(DOUBTS)


def test_another_name_is_refused():
    place = places_of(make_study(), make_rows(make_study(), 2))["snapkv", "25%"]
    with pytest.raises(BadInput, match="signal is 'hunch'; it must be one of certificate"):
        read_doubt("hunch", place)
