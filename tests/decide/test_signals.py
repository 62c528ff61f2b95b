"""Every signal's value by hand, and what it says where it has nothing to read."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from fewer.certify import Certificate, StepCertificate
from fewer.decide import SIGNALS, Evidence
from tolerances import FP64

# [layers 2, heads 4, steps 7]: each step's radii are the first's times its factor, but for one wild cell
RADII = torch.tensor([[0.1, 0.2, 0.3, 0.4], [0.5, 0.6, 0.7, 40.0]])[..., None] * torch.tensor(
    [1.0, 0.5, 0.25, 1.0, 1.0, 0.5, 2.0]
)
QUESTION = torch.tensor([[0.2, 0.4, 0.0, 2.0], [0.4, 0.4, 0.8, 0.6]])[..., None] * torch.tensor([1.0, 3.0])
WHOLE = Evidence(
    question=QUESTION,
    answer=RADII,
    question_entropy=torch.tensor([[[0.2, 0.4]], [[0.6, 0.8]]]),
    answer_entropy=torch.tensor([[[0.1, 0.5, 0.1, 0.1, 0.1, 0.1, 1.0]], [[0.3, 0.3, 0.1, 0.1, 0.1, 0.1, 1.0]]]),
    evicted_mass=torch.tensor([[0.1, 0.3], [0.0, 0.6]]),
    boundary_margin=torch.tensor([[0.5, math.nan], [-2.0, 0.0]]),
    logprobs=(-0.5, -2.0, -0.25),
    ids=(4, 5, 6),
    second_ids=(4, 5, 7, 8),
)


def value(name: str, evidence: Evidence = WHOLE) -> float | None:
    return SIGNALS[name](evidence)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("certificate", (1.0 + 41.8) / 8),
        ("certificate_mean", (1.0 + 41.8) / 8 * 6.25 / 7),
        ("certificate_largest", (1.0 + 41.8) / 8 * 2),
        ("certificate_median", (0.25 + 0.65) / 2),
        ("certificate_clipped", (1.0 + 1.8 + 1.0) / 8),
        ("certificate_question", 4.8 / 8 * 2),
        ("certificate_question_median", (0.3 + 0.5) / 2 * 2),
        (
            "certificate_question_clipped",
            ((0.6 + 1.0 + 2.2) / 8 + (0.6 + 1.0 + 0.0 + 1.0 + 1.0 + 1.0 + 1.0 + 1.0) / 8) / 2,
        ),
        ("entropy", (0.5 + 0.3) / 2),
        ("entropy_question", 0.5),
        ("evicted_mass", 0.25),
        ("boundary_margin", 0.5),
        ("logprob", 2.75 / 3),
        ("logprob_min", 2.0),
        ("disagreement", 0.5),
    ],
)
def test_values_by_hand(name: str, expected: float) -> None:
    assert value(name) == pytest.approx(expected, rel=1e-6)


def test_every_signal_is_tested_and_goes_by_its_name() -> None:
    assert [signal.name for signal in SIGNALS.values()] == list(SIGNALS)
    assert len(SIGNALS) == 15
    channels = {name for name, signal in SIGNALS.items() if signal.channel == "question"}
    assert channels == {"logprob", "logprob_min"}
    assert {signal.channel for signal in SIGNALS.values()} == {"question", "cache"}


@pytest.mark.parametrize("name", list(SIGNALS))
def test_nothing_collected_is_no_value(name: str) -> None:
    assert value(name, Evidence()) is None


@pytest.mark.parametrize("name", [name for name in SIGNALS if name.startswith(("certificate", "entropy"))])
def test_no_rows_are_no_value(name: str) -> None:
    none = torch.zeros(2, 4, 0)
    assert value(name, Evidence(none, none, none, none)) is None


def test_a_margin_defined_nowhere_is_no_value() -> None:
    assert value("boundary_margin", replace(WHOLE, boundary_margin=torch.full((2, 2), math.nan))) is None


def test_the_published_certificate_is_the_receipts() -> None:
    steps = [StepCertificate(RADII[..., [at]], *[torch.ones(2, 4, 1)] * 3) for at in range(7)]
    theirs = Certificate.of(steps, 0.1, "fixed_size")
    pairs = {"certificate": theirs.first, "certificate_mean": theirs.mean, "certificate_largest": theirs.largest}
    for name, expected in (pairs | {"certificate_clipped": theirs.clipped}).items():
        assert value(name) == pytest.approx(expected, abs=FP64)


def test_a_wild_cell_moves_the_mean_and_not_the_robust_ones() -> None:
    tame = RADII.clone()
    tame[1, 3] = 0.8
    calm = replace(WHOLE, answer=tame)
    assert value("certificate") / value("certificate", calm) > 10
    assert value("certificate_median") == value("certificate_median", calm)
    assert value("certificate_clipped") < 1.1 * value("certificate_clipped", calm)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ((1, 2), (1, 2), 0.0),
        ((), (), 0.0),
        ((), (1,), 1.0),
        ((1, 2, 3), (9, 2, 3), 1.0),
        ((1, 2), (1, 2, 3, 4), 0.5),
        ((1, 2, 3, 4), (1, 9, 3, 4), 0.75),
    ],
)
def test_disagreement_is_from_the_first_difference_on(one: tuple, other: tuple, expected: float) -> None:
    assert value("disagreement", Evidence(ids=one, second_ids=other)) == expected
    assert value("disagreement", Evidence(ids=other, second_ids=one)) == expected


@pytest.mark.parametrize("name", ["logprob", "logprob_min"])
def test_the_less_likely_the_more_doubt(name: str) -> None:
    assert value(name, Evidence(logprobs=(0.0,))) == 0
    assert value(name, Evidence(logprobs=(-3.0,))) > value(name, Evidence(logprobs=(-1.0,)))
