"""Claims about doubts: what becomes of them, what they say, and what is refused before anything runs."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from doubting import PIVOTAL, POISSON, TOPK, answers_of, make_rows, make_study
from fewer.study.claim import Claim
from fewer.study.sessions.areas import rank, rank_against
from fewer.study.sessions.gating import Gating
from fewer.study.sessions.outcomes import label_by
from fewer.study.sessions.places import find_places
from fewer.study.verdict import judge

AREA = {"id": "a", "statement": "It tells.", "kind": "auc", "arm": PIVOTAL[0], "also": PIVOTAL[1:]}
AREA |= {
    "signal": "certificate",
    "outcome": "induced",
    "among": "wrong",
    "within": "budget",
    "at_least": 0.8,
    "kill_below": 0.8,
}
GATE = {"id": "g", "statement": "It gains.", "kind": "recompute", "arm": PIVOTAL[0], "also": PIVOTAL[1:]}
GATE |= {"signal": "certificate", "outcome": "right", "rate": 0.25, "over": "random"}
GATE |= {"at_least": 0.04, "kill_below": 0.04}
LEVEL = {"id": "l", "statement": "s", "kind": "level", "arm": "full", "also": POISSON, "at_least": 0, "kill_below": 0}
HOW: dict[str, Any] = {"level": 0.95, "resamples": 500, "seed": 0}


def _judge(*claims: dict[str, Any], missing: float = 0.0):
    study = make_study(*claims)
    rows = make_rows(study, 120, missing=missing)
    places = [one for one in find_places(study.expanded, answers_of(rows)) if one.policy == "pivotal:snapkv"]
    return judge(study, rows, resamples=500, seed=0), places


@pytest.mark.parametrize(("bound", "word"), [(0.5, "holds"), (0.99, "killed")])
def test_an_area_among_failures_is_judged_by_its_interval(bound, word):
    (verdict,), places = _judge(AREA | {"at_least": bound, "kill_below": bound})
    wanted = rank(places, label_by("attribution", 0.5), "certificate", **HOW)
    assert verdict.interval == wanted.interval
    assert verdict.verdict == word
    assert verdict.sentence.startswith(
        f"{word}: the AUC of certificate for induced among wrong under {PIVOTAL[0]} and {PIVOTAL[1]}, over pairs of "
        "the same policy, budget, is "
    )
    assert f"{wanted.positives} of {wanted.positives + wanted.negatives} ranked answers are induced." in verdict.notes


def test_an_interval_that_holds_the_bound_decides_nothing():
    (first,), _ = _judge(AREA)
    assert first.interval is not None
    middle = (first.interval.lower + first.interval.upper) / 2
    (verdict,), _ = _judge(AREA | {"at_least": middle, "kill_below": middle})
    assert verdict.verdict == "undecided"


def test_a_difference_of_areas_is_within_the_same_resamples():
    (verdict,), places = _judge(AREA | {"over": "logprob", "at_least": -0.3, "kill_below": -0.3}, missing=0.2)
    wanted = rank_against(places, label_by("attribution", 0.5), "certificate", "logprob", **HOW)
    assert verdict.interval == wanted.interval
    assert verdict.verdict == "holds"
    missing = f"{wanted.missing} further answers have no certificate, or none of logprob, and are not ranked."
    assert missing in verdict.notes
    (task,), _ = _judge(AREA | {"within": "task", "over": "logprob", "at_least": 0.0, "kill_below": 0.0}, missing=0.2)
    within = rank_against(places, label_by("attribution", 0.5), "certificate", "logprob", within="task", **HOW)
    assert task.interval == within.interval


@pytest.mark.parametrize(("over", "bound", "word"), [("random", 0.01, "holds"), ("logprob", 0.3, "killed")])
def test_a_gate_is_judged_against_chance_and_other_signals(over, bound, word):
    (verdict,), places = _judge(GATE | {"over": over, "at_least": bound, "kill_below": bound}, missing=0.2)
    wanted = Gating(places, lambda scores: (scores >= 0.5).astype(float), **HOW).gain("certificate", 0.25, over)
    assert verdict.interval == wanted
    assert verdict.verdict == word
    assert any(note.endswith("answers have no certificate, and are doubted least.") for note in verdict.notes)
    assert "the mean right of" in verdict.sentence
    assert "with recomputing 25% by certificate, minus that with a " in verdict.sentence


def test_nothing_is_judged_before_all_arms_are_in():
    study = make_study(AREA)
    rows = make_rows(study, 40)
    late = [row["arm"] == PIVOTAL[1] and row["unit"] == 7 for row in rows.to_pylist()]
    (verdict,) = judge(study, rows.filter([not one for one in late]), resamples=500)
    assert verdict.sentence == "undecided: 119 of 120 answers are in."


def test_without_both_kinds_of_failure_there_is_no_claim():
    study = make_study(AREA | {"outcome": "wrong"})
    (verdict,) = judge(study, make_rows(study, 120), resamples=500)
    assert verdict.verdict == "no claim"
    assert "nothing can be ranked: no place has both kinds" in verdict.sentence


def test_fields_that_a_claim_does_not_use_are_not_in_its_hash():
    old = {"id": "c", "statement": "s", "kind": "auc", "arm": "x", "signal": "min_margin", "outcome": "right"}
    old |= {"at_least": 0.5, "kill_below": 0.4}
    written = Claim.model_validate(old).model_dump(mode="json")
    assert set(written) == {*old, "reference", "tasks", "level", "min_clusters"}
    whole = Claim.model_validate(AREA).model_dump(mode="json")
    assert (whole["also"], whole["among"], whole["within"]) == (PIVOTAL[1:], "wrong", "budget")
    assert Claim.model_validate(whole) == Claim.model_validate(AREA)
    assert make_study(AREA).sha256 != make_study(AREA | {"within": "task"}).sha256


@pytest.mark.parametrize(
    ("claim", "message"),
    [
        (GATE | {"rate": None}, "rate is None; it must be given for the kind recompute"),
        (GATE | {"over": None}, "over is None"),
        (GATE | {"rate": 1.0}, "rate"),
        (GATE | {"among": "wrong"}, "among is 'wrong'; it must be left out but for auc"),
        (GATE | {"within": "budget"}, "within is 'budget'"),
        (GATE | {"over": "hunch"}, "signal is 'hunch'"),
        (GATE | {"outcome": "wrong"}, "the outcome of claim g is 'wrong'"),
        (GATE | {"also": [TOPK[0]]}, "for certificate is .*Others have no certificate"),
        (GATE | {"arm": "full"}, "an arm of claim g is 'full'"),
        (GATE | {"also": ["nobody"]}, "the arm of claim g is 'nobody'"),
        (AREA | {"rate": 0.25}, "rate is 0.25; it must be left out but for recompute"),
        (AREA | {"outcome": "right"}, "doubts rank bad answers"),
        (AREA | {"among": "all"}, "the outcome of claim a is 'all'"),
        (AREA | {"signal": "radii:first"}, "the summary is 'radii:first'"),
        (AREA | {"signal": "hunch"}, "signal is 'hunch'; it must be one of first_margin"),
        (LEVEL, "also is .*left out but for auc and recompute"),
    ],
)
def test_what_cannot_be_asked_is_refused_when_the_file_is_read(claim, message):
    with pytest.raises(ValidationError, match=message):
        make_study(claim)


@pytest.mark.parametrize(("signal", "wants"), [("entropy", "evidence"), ("logprob", "margins")])
def test_a_signal_has_to_be_measured(signal, wants):
    signals = [name for name in ("margins", "evidence") if name != wants]
    with pytest.raises(ValidationError, match=f"with {wants}, which measures the {signal} of claim g"):
        make_study(GATE | {"signal": signal}, signals=signals)
