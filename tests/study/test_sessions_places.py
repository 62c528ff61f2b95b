"""Places: which answers are compared with each other, and what stands beside them."""

from __future__ import annotations

import numpy as np
import pyarrow.compute as pc

from doubting import POISSON, answers_of, make_rows, make_study, places_of
from fewer.study.sessions.places import find_places, name_policy


def test_seeds_share_a_place_and_budgets_do_not():
    study = make_study()
    places = places_of(study, make_rows(study, 10))
    wanted = [(policy, budget) for policy in ("snapkv", "pivotal:snapkv") for budget in ("50%", "25%")]
    assert list(places) == [*wanted, ("poisson:snapkv", "25%")]
    drawn = places["poisson:snapkv", "25%"]
    assert drawn.arms == tuple(POISSON)
    assert (len(drawn.answers), drawn.num_items) == (20, 10)
    assert {place.condition for place in places.values()} == {"stream"}


def test_conditions_and_other_settings_are_places_of_their_own():
    arms = [{"name": "full"}, {"evict": "snapkv", "budget": "25%"}, {"evict": "snapkv", "budget": "25%", "window": 8}]
    arms.append({"evict": "snapkv", "budget": "25%", "moment": "context"})
    study = make_study(arms=arms)
    assert [name_policy(arm) for arm in study.expanded[1:]] == ["snapkv", "snapkv window=8", "snapkv"]
    assert [arm.condition for arm in study.expanded[1:]] == ["aware", "aware", "stream"]


def test_every_answer_stands_beside_the_full_run_of_its_item():
    study = make_study()
    rows = make_rows(study, 24)
    full = {row["item"]: row["score"] for row in rows.to_pylist() if row["arm"] == "full"}
    for place in places_of(study, rows).values():
        assert place.full.tolist() == [full[answer.item] for answer in place.answers]
        assert place.score.tolist() == [answer.score for answer in place.answers]
        part = place.of("keys")
        assert {answer.task for answer in part.answers} == {"keys"}
        assert part.full.tolist() == [full[answer.item] for answer in part.answers]


def test_items_without_a_full_answer_are_in_no_place():
    study = make_study()
    rows = make_rows(study, 10)
    gone = pc.and_(pc.equal(rows["arm"], "full"), pc.equal(rows["item"], "keys/0"))
    answers = answers_of(rows.filter(pc.invert(gone)))
    assert all("keys/0" not in {one.item for one in place.answers} for place in find_places(study.expanded, answers))
    chosen = find_places(study.expanded, answers_of(rows), ["keys/2", "values/3"])
    assert all({one.item for one in place.answers} == {"keys/2", "values/3"} for place in chosen)


def test_a_null_column_is_not_a_number():
    study = make_study()
    places = places_of(study, make_rows(study, 6))
    assert np.isnan(places["snapkv", "25%"].column("certificate")).all()
    assert np.isfinite(places["pivotal:snapkv", "25%"].column("certificate")).all()
