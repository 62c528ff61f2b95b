"""Counts of right, induced and inherent answers, against counting them one by one."""

from __future__ import annotations

import pytest

from doubting import make_rows, make_study, places_of
from fewer.errors import BadInput
from fewer.study.sessions.outcomes import Counts, count_outcomes, find_threshold, label_by


def test_the_counts_are_those_of_the_rows():
    study = make_study()
    rows = make_rows(study, 30)
    full = {row["item"]: row["score"] for row in rows.to_pylist() if row["arm"] == "full"}
    for (policy, budget), place in places_of(study, rows).items():
        mine = [row for row in rows.to_pylist() if (row["evict"], row["keep"]) == (policy, budget)]
        found = count_outcomes(place, 0.5)
        assert found.answers == len(mine)
        assert found.items == 30
        assert found.clusters == len({row["cluster"] for row in mine})
        assert found.induced == sum(row["score"] < 0.5 <= full[row["item"]] for row in mine)
        assert found.inherent == sum(row["score"] < 0.5 and full[row["item"]] < 0.5 for row in mine)
        assert found.right + found.induced + found.inherent == found.answers
        assert found.full_fails == pytest.approx(1 - found.full_right / found.answers)
        assert found.broken == pytest.approx(found.induced / found.full_right)


@pytest.mark.parametrize(
    ("full_right", "induced", "common"),
    [(80, 16, True), (80, 15, False), (40, 24, True), (40, 25, False), (39, 15, False), (81, 40, False), (0, 0, False)],
)
def test_both_kinds_are_common_from_a_fifth_to_three_fifths(full_right, induced, common):
    counts = Counts(100, 100, 100, full_right, full_right - induced, induced, 100 - full_right, 0)
    assert counts.both_common is common


def test_right_is_from_the_first_plain_threshold_on():
    assert find_threshold(make_study()) == 0.5
    odd = [{"name": "lost", "below": 0.3, "full_at_least": 0.3}, {"name": "half", "at_least": 0.5, "below": 0.9}]
    assert find_threshold(make_study(outcomes=odd)) is None
    assert find_threshold(make_study(outcomes=[*odd, {"name": "all", "at_least": 1.0}])) == 1.0


def test_labels_say_among_whom_and_who():
    study = make_study()
    place = places_of(study, make_rows(study, 30))["pivotal:snapkv", "25%"]
    wrong, full = place.score < 0.5, place.full >= 0.5
    for kind, among, positive in (("any", wrong | True, wrong), ("induced", full, wrong), ("attribution", wrong, full)):
        inside, labels = label_by(kind, 0.5)(place)
        assert inside.tolist() == among.tolist()
        assert labels.tolist() == positive[among].astype(float).tolist()
    with pytest.raises(BadInput, match="kind is 'all'"):
        label_by("all", 0.5)(place)
