"""Conformal risk control: the threshold against its definition, the guarantee in simulation, the calibrated file."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from fewer import BadInput, ModelFacts
from fewer.decide import CalibratedGate, calibrate, control_risk
from fewer.decide.gate import LARGEST

FACTS = ModelFacts("tiny", "f" * 32, 4, 4, 2, (None,) * 4)
POLICY = {"name": "systematic:snapkv", "budget.keep": "25%", "delta": 0.1}


def left(threshold: float, values: list[float | None], losses: list[float], clusters: list[int]) -> Fraction:
    """n / (n + 1) x the mean loss + 1 / (n + 1), exactly."""
    names = sorted(set(clusters))
    means = []
    for name in names:
        inside = [at for at, cluster in enumerate(clusters) if cluster == name]
        lost = [Fraction(losses[at]) for at in inside if values[at] is not None and values[at] <= threshold]
        means.append(sum(lost, Fraction(0)) / len(inside))
    size = len(names)
    return Fraction(size, size + 1) * (sum(means) / size) + Fraction(1, size + 1)


def test_by_hand() -> None:
    values, losses = [5.0, 1.0, 3.0, 9.0, 2.0, 7.0, 8.0, 4.0, 6.0], [0, 0, 1, 0, 0, 1, 0, 0, 0]
    found = control_risk(values, losses, 0.2)  # nine answers: losses may add up to .2 x 10 - 1 = 1
    assert found.threshold == math.nextafter(7.0, 0.0)
    assert (found.num_answers, found.num_clusters) == (9, 9)
    assert found.risk == pytest.approx(1 / 9)
    assert found.risk_without == pytest.approx(2 / 9)
    assert found.recomputed == pytest.approx(3 / 9)
    assert control_risk(values, losses, 0.19).threshold == math.nextafter(3.0, 0.0)
    assert control_risk(values, losses, 0.3).threshold == LARGEST
    assert control_risk(values, losses, 0.3).recomputed == 0


def test_arrays_and_truth_values_are_losses_too() -> None:
    values, losses = np.linspace(0, 1, 30, dtype=np.float32), np.arange(30) > 24
    found = control_risk(values, losses, 0.1)
    assert found == control_risk(values.tolist(), losses.astype(np.int64), 0.1)
    assert found.threshold == math.nextafter(float(values[27]), 0.0)  # .1 x 31 - 1 = 2.1 losses


def test_clusters_count_once_each() -> None:
    values = [0.1, 0.9, 0.2, 0.3, 0.4, 0.5]
    losses, clusters = [0.0, 1.0, 1.0, 1.0, 0.0, 0.0], ["a", "a", "b", "b", "c", "c"]
    found = control_risk(values, losses, 0.375, clusters)  # three clusters: .375 x 4 - 1 = .5, half of b
    assert found.threshold == math.nextafter(0.3, 0.0)
    assert (found.num_clusters, found.risk) == (3, pytest.approx(1 / 6))
    assert found.risk_without == pytest.approx((0.5 + 1 + 0) / 3)


@pytest.mark.parametrize("sizes", [(3, 10, 9, 9, 9, 5, 30), (6, 10, 5, 5, 10, 5, 30)])
def test_a_sum_that_alpha_just_allows_is_accepted(sizes: tuple[int, ...]) -> None:
    # One broken answer in each of seven of 19 clusters: shares of a cluster that add up to 1, which .1 x 20 - 1 allows.
    assert sum(Fraction(1, size) for size in sizes) == 1
    clusters = [at for at, size in enumerate(sizes) for _ in range(size)] + list(range(7, 19))
    losses = [float(clusters.index(cluster) == at and cluster < 7) for at, cluster in enumerate(clusters)]
    values = [float(cluster if loss else 9) for cluster, loss in zip(clusters, losses, strict=True)]
    assert control_risk(values, losses, 0.1, clusters).threshold == LARGEST
    assert control_risk(values, losses, 0.099, clusters).threshold == math.nextafter(6.0, 0.0)


@pytest.mark.parametrize("seed", range(12))
def test_it_is_the_largest_threshold_that_fulfils_the_rule(seed: int) -> None:
    rng = np.random.default_rng(seed)
    size = 30
    values: list[float | None] = [float(value) for value in rng.integers(0, 12, size) / 4]
    values[3] = None
    losses = [float(loss) for loss in rng.integers(0, 5, size) / 4]
    clusters = [int(cluster) for cluster in (rng.integers(0, 8, size) if seed % 2 else range(size))]
    alpha = 0.35
    found = control_risk(values, losses, alpha, clusters if seed % 2 else None)
    assert left(found.threshold, values, losses, clusters) <= Fraction(str(alpha))
    if found.threshold < LARGEST:
        above = math.nextafter(found.threshold, math.inf)
        assert left(above, values, losses, clusters) > Fraction(str(alpha))
    accepted = [value for value in values if value is not None and value <= found.threshold]
    assert found.recomputed == pytest.approx(1 - len(accepted) / size)


def test_the_guarantee_for_one_more_answer() -> None:
    """Value v uniform, broken with probability v^2: under a threshold t a new answer's expected loss is t^3 / 3.

    The mean over 2,000 calibrations of 50 answers is within .017 of its expectation but for 6e-5 (Hoeffding; a risk is
    at most 1/3). That is at most alpha, and at least alpha - 2 / 51 (theorem 2 of the paper, for losses without ties).
    """
    rng, alpha = np.random.default_rng(7), 0.1
    risks = []
    for _ in range(2000):
        values = rng.random(50)
        losses = (rng.random(50) < values**2).astype(float)
        risks.append(min(1.0, control_risk(values.tolist(), losses.tolist(), alpha).threshold) ** 3 / 3)
    assert alpha - 2 / 51 - 0.017 <= np.mean(risks) <= alpha + 0.017


def test_the_guarantee_for_one_more_cluster() -> None:
    """Three answers to a cluster that break together or not at all: what counts is the 20 clusters, not 60 answers.

    The same bound as above with 1,200 calibrations of 20 clusters: .022 but for 6e-5.
    """
    rng, alpha = np.random.default_rng(8), 0.2
    risks = []
    for _ in range(1200):
        shared = rng.random(20)
        broken = (rng.random(20) < shared**2).astype(float)
        values, losses, clusters = (np.repeat(each, 3).tolist() for each in (shared, broken, np.arange(20)))
        risks.append(min(1.0, control_risk(values, losses, alpha, clusters).threshold) ** 3 / 3)
    assert alpha - 2 / 21 - 0.022 <= np.mean(risks) <= alpha + 0.022


def test_an_alpha_that_cannot_be_had() -> None:
    values, losses = [float(value) for value in range(9)], [0.0] * 9
    assert control_risk(values, losses, 0.1).threshold == LARGEST
    with pytest.raises(BadInput, match=r"at least 1 / \(n \+ 1\) = 0.1 with n = 9 answers. .* at least 19 answers"):
        control_risk(values, losses, 0.05)
    with pytest.raises(BadInput, match=r"= 0.25 with n = 3 clusters. .* at least 9 clusters"):
        control_risk(values, losses, 0.1, [0, 0, 0, 1, 1, 1, 2, 2, 2])


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"losses": [0.0] * 8}, "the number of losses is 8; it must be 9, one a value"),
        ({"clusters": [0] * 8}, "the number of clusters is 8"),
        ({"losses": [0.0] * 8 + [1.5]}, "loss is 1.5; it must be a number of at least 0 and at most 1"),
        ({"losses": ["x"] * 9}, "value is 'x'; it must be a number"),
        ({"losses": [None] * 9}, "loss is None"),
        ({"alpha": 0}, "alpha is 0"),
        ({"values": [], "losses": []}, "values is .*; it must be at least one answer"),
        ({"values": ["a"] * 9}, "value is 'a'"),
        ({"values": [-math.inf] * 9}, "value is -inf"),
    ],
)
def test_bad_data(change: dict[str, object], match: str) -> None:
    given = {"values": [float(value) for value in range(9)], "losses": [0.0] * 9, "alpha": 0.2}
    with pytest.raises(BadInput, match=match):
        control_risk(**{**given, **change})


def make_gate() -> CalibratedGate:
    values, losses = [float(value) for value in range(19)], [0.0] * 12 + [1.0] * 7
    return calibrate(
        "certificate",
        values,
        losses,
        0.1,
        data="needles, dev half",
        loss="right with the full cache, wrong with this one",
        facts=FACTS,
        policy=POLICY,
    )


def test_a_calibrated_gate_decides() -> None:
    gate = make_gate()
    assert gate.threshold == math.nextafter(13.0, 0.0)
    assert [gate.decide(value).fires for value in (12.0, 12.9999, 13.0, 99.0, None, math.nan)] == [
        False,
        False,
        True,
        True,
        True,
        True,
    ]
    assert gate.decide(14).reason == "certificate 14 is above 13; calibrated on needles, dev half to risk 0.1"
    assert gate.decide(None).reason.startswith("certificate has no value for this answer, and what has none is recomp")
    idle = replace(gate, found=replace(gate.found, threshold=LARGEST))
    assert not idle.decide(math.inf).fires
    assert "not above the largest number there is" in idle.decide(3).reason


def test_its_file_knows_model_and_policy(tmp_path: Path) -> None:
    gate = make_gate()
    gate.save(tmp_path / "gate.json")
    other = CalibratedGate.load(tmp_path / "gate.json")
    assert other == gate
    other.check(FACTS, POLICY)
    with pytest.raises(BadInput, match=r"the model is 'other .gggggggg.'; it must be tiny .ffffffff., which the gate"):
        other.check(replace(FACTS, name="other", fingerprint="g" * 32), POLICY)
    with pytest.raises(BadInput, match=r"the policy is 'budget.keep 50% .calibrated: 25%.'"):
        other.check(FACTS, {**POLICY, "budget.keep": "50%"})


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"version": 3}, "version is 3; it must be 1"),
        ({"format": "fewer gate"}, "it must be the JSON of a fewer calibrated gate"),
        ({"threshold": "x"}, "threshold is 'x'"),
        ({"alpha": 0}, "alpha is 0"),
        ({"data": ""}, "data is ''; it must be a text"),
        ({"policy": None}, "policy is None"),
        ({"num_answers": 0}, "num_answers is 0"),
        ({"beta": 1}, "unexpected keyword argument 'beta'"),
        ({"signal": "mood"}, "signal is 'mood'; it must be one of"),
    ],
)
def test_a_file_that_was_changed(changes: dict[str, object], match: str) -> None:
    with pytest.raises(BadInput, match=match):
        CalibratedGate.from_json(json.dumps({**json.loads(make_gate().to_json()), **changes}))


def test_words_are_asked_for() -> None:
    with pytest.raises(BadInput, match="data is ' '; it must be a few words"):
        calibrate("certificate", [1.0], [0.0], 0.5, data=" ", loss="x", facts=FACTS, policy=POLICY)
