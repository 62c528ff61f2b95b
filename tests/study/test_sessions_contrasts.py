"""Scores of places and their differences, against means of the rows."""

from __future__ import annotations

import numpy as np
import pytest

from doubting import make_rows, make_study, places_of
from fewer.study.sessions.contrasts import difference_from_full, difference_of, find_twin, mean_score

STUDY = make_study()
ROWS = make_rows(STUDY, 40)
PLACES = places_of(STUDY, ROWS)


def _means(policy: str, budget: str | None) -> dict[str, float]:
    found: dict[str, list[float]] = {}
    for row in ROWS.to_pylist():
        if (row["evict"], row["keep"], row["condition"] == "no_context") == (policy, budget, False):
            found.setdefault(row["item"], []).append(row["score"])
    return {item: float(np.mean(scores)) for item, scores in found.items()}


@pytest.mark.parametrize("policy", ["snapkv", "poisson:snapkv"])
def test_seeds_are_averaged_within_an_item_first(policy):
    place, mine, full = PLACES[policy, "25%"], _means(policy, "25%"), _means("none", None)
    score, difference = mean_score(place, resamples=200), difference_from_full(place, resamples=200)
    assert (score.n, score.clusters) == (40, 10)
    assert score.estimate == pytest.approx(np.mean(list(mine.values())))
    assert difference.estimate == pytest.approx(np.mean([mine[item] - full[item] for item in mine]))


def test_a_policy_that_draws_is_set_beside_top_k_with_its_score():
    places = list(PLACES.values())
    drawn = PLACES["poisson:snapkv", "25%"]
    assert find_twin(drawn, places) is PLACES["snapkv", "25%"]
    assert find_twin(PLACES["pivotal:snapkv", "50%"], places) is PLACES["snapkv", "50%"]
    assert find_twin(PLACES["snapkv", "25%"], places) is None
    mine, theirs = _means("poisson:snapkv", "25%"), _means("snapkv", "25%")
    found = difference_of(drawn, PLACES["snapkv", "25%"], resamples=200)
    assert found.estimate == pytest.approx(np.mean([mine[item] - theirs[item] for item in mine]))
    assert difference_of(drawn.of("keys"), PLACES["snapkv", "25%"].of("values")) is None
