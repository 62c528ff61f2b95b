"""The log as arrays: seeds averaged, nothing counted twice, nothing lost."""

from __future__ import annotations

import numpy as np
import pytest
from made_runs import make_items, make_rows, make_study, write_run

from fewer.errors import BadInput
from fewer.report.log import Log, name_arm, read_family, read_keep
from fewer.study.arms import Arm
from fewer.study.folder import read_run


@pytest.fixture(scope="module")
def log(run):
    return Log(read_run(run))


def test_an_item_has_the_mean_over_its_seeds(log):
    rows = log.run.rows.to_pylist()
    for arm in ("random keep=25%", "static keep=50%", "full"):
        values = log.values(arm, "score")
        for place, unit in enumerate(log.units):
            scores = [row["score"] for row in rows if row["arm"] == arm and row["unit"] == unit]
            assert values[place] == pytest.approx(np.mean(scores))


def test_what_was_not_measured_is_nan_and_not_zero(log):
    rows = log.run.rows.to_pylist()
    values = log.values("no_context", "supporting_kept")
    assert np.isnan(values).all()
    refused = {row["unit"] for row in rows if row["status"] == "refused"}
    assert refused
    for place, unit in enumerate(log.units):
        if unit in refused:
            assert np.isnan(log.values("full", "agreement")[place])
            assert log.values("full", "score")[place] == 0


def test_a_failed_answer_without_a_score_scores_zero(tmp_path):
    def change(row):
        return {"score": None} if row["status"] in ("failed", "refused") else {}

    log = Log(read_run(write_run(tmp_path / "run", num_items=60, change_row=change)))
    failed = np.isin(log.texts("status"), ("failed", "refused"))
    assert failed.any()
    assert (log.numbers("score")[failed] == 0).all()


def test_seconds_count_only_where_an_answer_ran_alone(tmp_path):
    def change(row):
        return {"shared": row["arm"] == "static keep=50%"} if row["prefill_s"] is not None else {}

    log = Log(read_run(write_run(tmp_path / "run", num_items=20, change_row=change)))
    assert np.isnan(log.values("static keep=50%", "first_token_s", alone=True)).all()
    assert np.isfinite(log.values("static keep=50%", "first_token_s")).any()
    assert np.isfinite(log.values("full", "first_token_s", alone=True)).any()


def test_an_arm_the_study_does_not_know_is_refused(tmp_path):
    rows = read_run(write_run(tmp_path / "run", num_items=5, change_row=lambda row: {"arm": "other"}))
    with pytest.raises(BadInput, match=r"rows of arm 'other', which its study does not name"):
        Log(rows)


def test_outcomes_are_those_of_the_study(log):
    rows = log.run.rows.to_pylist()
    full = {row["unit"]: row["score"] for row in rows if row["arm"] == "full"}
    for outcome in log.study.outcomes:
        holds, known = log.outcomes(outcome)
        assert known.all()
        assert holds.tolist() == [outcome.holds(row["score"], full[row["unit"]]) for row in rows]


def test_needles_have_lengths_and_depths_and_questions_their_own(log):
    needles = log.among("category", "synthetic")
    assert set(log.lengths[needles]) == {512.0, 1024.0, 2048.0}
    assert set(log.depths[needles]) == {0.0, 0.25, 0.5, 0.75, 1.0}
    assert np.isnan(log.depths[~needles]).all()
    assert (log.lengths[~needles] >= 350).all()


@pytest.mark.parametrize(
    ("keep", "read"),
    [("50%", "50%"), (0.5, "50%"), ("0.5", "50%"), (0.125, "12.5%"), (256, "256 tokens"), ("256", "256 tokens"),
     (1.0, "100%"), (1, "1 token"), ("12.50%", "12.5%")],
)  # fmt: skip
def test_budgets_have_one_spelling(keep, read):
    assert read_keep(Arm("a", "random", settings=(("keep", keep),))) == read


def test_budgets_of_one_way_of_pruning_are_one_family():
    arms = make_study().expanded
    assert [read_family(arm) for arm in arms] == [
        "full", "no context", "static", "static", "random", "random", "ends", "ends",
    ]  # fmt: skip
    layered = Arm("static layer=3 keep=50%", "static", settings=(("layer", 3), ("keep", "50%")))
    assert read_family(layered) == "static layer=3"
    assert name_arm(layered) == "50% static layer=3"
    assert name_arm(Arm("mine", "static", settings=(("keep", "50%"),))) == "mine"


def test_the_made_up_rows_are_those_of_the_schema():
    study = make_study()
    rows = make_rows(study, make_items(5)[0], 0, np.random.default_rng(0))
    assert len(rows) == 1 + 1 + 2 + 2 * 3 + 2
    assert len({row["cell"] for row in rows}) == len(rows)
