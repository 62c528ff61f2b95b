"""Measures of made-up cells, where every number can be worked out by hand, and what becomes of claims."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from replaying import make_study

from fewer.study.replay.claims import judge_replay
from fewer.study.replay.estimates import Estimates, Place
from fewer.study.replay.moved import find_moved
from fewer.study.replay.spec import Claim, ReplayStudy
from fewer.study.replay.table import CELLS, WORLDS, join
from fewer.study.stats import Interval

PLACE: Place = ("aware", 0.25, "pivotal")
SHAPE = (5, 2, 2)


def make_cells(prompts: int = 6) -> pa.Table:
    """Errors 1..20 times (1 + prompt/10); radii twice that, but half for the largest: two, in odd prompts three."""
    error = np.arange(1.0, 21.0).reshape(SHAPE)
    parts = []
    for prompt in range(prompts):
        place = {"prompt": prompt, "condition": "aware", "budget": 0.25, "draw": 0, "kept": 30, "asked": 30}
        size = 1 + prompt / 10
        radius = np.where(error > 18 - prompt % 2, error / 2, 2 * error)
        ours = {"arm": "pivotal", "error": size * error, "plug_in": 3 * size * error, "radius": size * radius}
        ours |= {
            "variance": 0.5 * (size * error) ** 2,
            "kappa": 1.0,
            "paper_radius": size * error,
            "paper_variance": 1.0,
        }
        parts += [place | ours, place | {"arm": "topk", "error": 4 * size * error, "plug_in": 4 * size * error}]
    return join(CELLS, parts)


@pytest.fixture(scope="module")
def estimates() -> Estimates:
    return Estimates(make_study(), make_cells(), resamples=200, ranked=100)


def test_cells_come_back_as_they_were_written() -> None:
    table = make_cells(1)
    assert table.schema == CELLS
    assert table.num_rows == 40
    last = table.to_pylist()[19]
    assert (last["layer"], last["head"], last["step"]) == (5, 1, 1)
    assert (last["arm"], last["error"], last["radius"], last["kappa"]) == ("pivotal", 20.0, 10.0, 1.0)
    assert table["radius"].null_count == 20


def value(interval: Interval | None) -> float:
    assert interval is not None
    assert interval.estimate is not None
    return interval.estimate


def test_measures(estimates: Estimates) -> None:
    assert value(estimates.measure("coverage", PLACE)) == pytest.approx(0.875)
    assert value(estimates.coverage(PLACE, radius="paper_radius")) == 1.0
    assert value(estimates.coverage(PLACE, factor=0.4)) == 0.0
    assert value(estimates.measure("variance_over_truth", PLACE)) == pytest.approx(0.5)
    assert value(estimates.measure("error_over_reference", PLACE)) == pytest.approx(0.25)
    assert value(estimates.over("plug_in", PLACE, "error", PLACE)) == pytest.approx(3.0)
    assert estimates.count(PLACE) == (120, 6, 0)
    assert estimates.measure("coverage", ("aware", 0.25, "topk")) is None
    assert estimates.measure("spearman", ("stream", 0.25, "pivotal")) is None


def test_the_tenth_with_the_largest_error_is_of_all_prompts_together(estimates: Estimates) -> None:
    part = estimates.part(PLACE)
    border = np.quantile(part["error"], 0.9)
    inside = part["error"] >= border
    wanted = (part["error"] <= part["radius"])[inside].mean()
    assert value(estimates.measure("coverage_largest", PLACE)) == pytest.approx(wanted)


def test_layers_are_a_part(estimates: Estimates) -> None:
    assert value(estimates.coverage(PLACE, layers=range(1, 5))) == 1.0
    assert value(estimates.coverage(PLACE, layers=range(5, 6))) == pytest.approx(0.375)
    first = estimates.median("error", PLACE, range(1, 2))
    assert value(first) == np.sort(estimates.part(PLACE)["error"][estimates.part(PLACE)["layer"] == 1])[11]


def test_the_interval_of_a_median_is_over_prompts(estimates: Estimates) -> None:
    found = estimates.median("error", PLACE)
    assert found is not None
    assert found.clusters == 6
    assert found.lower is not None
    assert found.upper is not None
    assert found.lower < value(found) < found.upper


@pytest.mark.parametrize(
    ("bounds", "word"),
    [
        ({"at_least": 0.5}, "holds"),
        ({"at_least": 0.95}, "killed"),
        ({"at_most": 0.2}, "killed"),
        ({"at_least": 0.2, "at_most": 0.95}, "holds"),
    ],
)
def test_verdicts(bounds: dict[str, float], word: str) -> None:
    study = with_claim(
        Claim(id="c", statement="s", measure="coverage", conditions=("aware",), budgets=(0.25,), **bounds)
    )
    estimates = Estimates(study, make_cells(), resamples=200, ranked=100)
    assert [verdict.word for verdict in judge_replay(study, estimates, complete=True)] == [word]
    assert [verdict.word for verdict in judge_replay(study, estimates, complete=False)] == ["undecided"]


def test_too_few_prompts_decide_nothing() -> None:
    claim = Claim(id="c", statement="s", measure="coverage", conditions=("aware",), budgets=(0.25,), at_least=0.5)
    study = make_study(claims=[claim.model_dump()], fewest=7)
    (verdict,) = judge_replay(study, Estimates(study, make_cells(), resamples=200), complete=True)
    assert verdict.word == "undecided"


def test_a_claim_holds_only_where_it_holds_everywhere() -> None:
    study = with_claim(Claim(id="c", statement="s", measure="coverage", conditions=("aware",), at_least=0.5))
    (verdict,) = judge_replay(study, Estimates(study, make_cells(), resamples=200), complete=True)
    assert [word for _, word, _ in verdict.parts] == ["holds", "undecided"]  # there are no cells at 50%
    assert verdict.word == "undecided"


def with_claim(claim: Claim) -> ReplayStudy:
    return make_study(claims=[claim.model_dump()])


def test_worlds_are_summed_up_by_cell() -> None:
    error = np.ones(SHAPE)
    parts = []
    for prompt in range(3):
        for world, factor in enumerate((1.0, 0.5, 4.0)):
            moved = error.copy()
            moved[0, 0, 0] = factor * (1 + prompt)
            place = {"prompt": prompt, "condition": "stream", "budget": 0.25, "world": world, "same": prompt != 2}
            sampled = {"sampled_error": error, "sampled_radius": 2 * error if world else 0 * error}
            parts.append(place | {"error": moved} | sampled)
    (found,) = find_moved(join(WORLDS, parts), resamples=200)
    assert (found.condition, found.budget, found.worlds, found.cells) == ("stream", 0.25, 2, 60)
    assert found.same == 40
    assert (found.median_factor, found.largest_factor) == (1.0, 8.0)
    assert found.to_error / found.from_error == 8.0
    assert found.coverage.estimate == 1.0
    assert find_moved(WORLDS.empty_table()) == ()
