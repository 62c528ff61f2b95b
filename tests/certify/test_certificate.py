"""What is said of a whole answer."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import pytest
import torch

from fewer.certify import Certificate, StepCertificate
from fewer.errors import BadInput
from tolerances import FP32


def make_step(value: float, rows: int = 1, layers: int = 2, heads: int = 4) -> StepCertificate:
    """Radii `value` on average: heads of the first layer have a half of it, of the second one and a half."""
    radius = torch.full((layers, heads, rows), value)
    radius[0] *= 0.5
    radius[1] *= 1.5
    return StepCertificate(radius, radius, radius, radius)


def test_the_numbers_of_an_answer() -> None:
    values = [0.1, 0.2, 0.6, 0.1, 0.1, 0.1, 0.9, 0.3]
    found = Certificate.of([make_step(value) for value in values], 0.1, "poisson")
    assert (found.kind, found.delta) == ("estimate", 0.1)
    assert found.steps == pytest.approx(values, abs=FP32)
    assert found.first == pytest.approx(0.6, abs=FP32)  # the seventh step is not among the first six
    assert found.largest == pytest.approx(0.9, abs=FP32)
    assert found.mean == pytest.approx(0.3, abs=FP32)
    assert found.per_layer == pytest.approx((0.3, 0.9), abs=FP32)
    assert found.clipped_steps == pytest.approx([*values[:6], 0.725, 0.3], abs=FP32)  # 1.35 counts as 1
    assert found.clipped == pytest.approx(0.6, abs=FP32)
    assert found.clipped_per_layer == pytest.approx((0.3, 0.9), abs=FP32)


def test_a_heavy_cell_is_most_of_the_mean_and_little_of_the_clipped_one() -> None:
    """One of eight cells has a radius of 80: the mean is then 10.4, the clipped one what a radius of 1 would give."""
    heavy, usual = make_step(0.5), make_step(0.5)
    heavy.radius[1, 2, 0] = 80.0
    found = Certificate.of([usual, heavy], 0.1, "poisson")
    assert found.first == pytest.approx(0.5 + (80 - 0.75) / 8, abs=FP32)
    assert found.clipped == pytest.approx(0.5 + (1 - 0.75) / 8, abs=FP32)
    assert found.per_layer[1] == pytest.approx(0.75 + (80 - 0.75) / 4, abs=FP32)
    assert found.clipped_per_layer == pytest.approx((0.25, 0.75 + 0.25 / 4), abs=FP32)
    assert found.clipped_steps[0] == found.steps[0]


def test_query_rows_are_steps_in_order() -> None:
    found = Certificate.of([make_step(0.5, rows=4), make_step(0.7), make_step(0.1, rows=2)], 0.1, "poisson")
    assert found.steps == pytest.approx([0.5] * 4 + [0.7] + [0.1] * 2, abs=FP32)
    assert found.first == pytest.approx(0.7, abs=FP32)
    assert Certificate.of([make_step(0.5, rows=7), make_step(0.7)], 0.1, "poisson").first == pytest.approx(
        0.5, abs=FP32
    )


def test_assumptions_name_the_design() -> None:
    poisson, fixed = (Certificate.of([make_step(0.5)], 0.1, kind) for kind in ("poisson", "fixed_size"))
    assert all(": " in text for text in (*poisson.assumptions, *fixed.assumptions))  # a short name before it
    assert "independently" in poisson.assumptions[0]
    assert "no upper bound where terms differ in sign" in fixed.assumptions[0]
    assert poisson.assumptions[1:-1] == fixed.assumptions[1:-1]
    assert fixed.assumptions[-1] == f"{poisson.assumptions[-1]}, Vhat times m/(m - 1) for m sampled rows"
    assert any("linearisation" in text for text in poisson.assumptions)


def test_assumptions_name_the_form_and_the_audit() -> None:
    def last(*steps: StepCertificate) -> str:
        return Certificate.of(steps, 0.1, "poisson").assumptions[-1]

    plain = make_step(0.5)
    audited, unaudited = replace(plain, form="audited", audited=True), replace(plain, form="audited")
    assert "published equation (4)" in last(plain)
    assert last(audited).startswith("audited: times the largest error")
    assert last(unaudited).startswith("not audited")
    assert last(audited, unaudited).startswith("not audited")
    assert "1.5 and 0.5 times" in Certificate.of([audited], 0.1, "poisson").assumptions[-2]
    assert "published equation (4)" in last(audited, plain)


def test_it_is_json() -> None:
    found = Certificate.of([make_step(0.5)], 0.1, "poisson")
    assert json.loads(json.dumps(asdict(found)))["steps"] == list(found.steps)


def test_none_claims_nothing() -> None:
    none = Certificate.none()
    assert asdict(none) == asdict(Certificate.of([], 0.1, "poisson"))
    assert (none.kind, none.delta, none.first, none.steps, none.assumptions) == ("none", None, None, (), ())
    assert (none.clipped, none.clipped_steps, none.clipped_per_layer) == (None, (), ())


def test_calibrating_scales_every_number_and_names_the_data() -> None:
    plain = Certificate.of([make_step(0.8), make_step(0.4)], 0.1, "poisson")
    scaled = plain.calibrate(0.5, "20 held-out prompts, covering 91%")
    assert scaled.kind == "calibrated"
    assert scaled.steps == tuple(0.5 * value for value in plain.steps)
    assert (scaled.first, scaled.mean, scaled.largest) == (0.5 * plain.first, 0.5 * plain.mean, 0.5 * plain.largest)
    assert scaled.per_layer == tuple(0.5 * value for value in plain.per_layer)
    assert scaled.clipped_steps == pytest.approx([0.35, 0.2], abs=FP32)  # half of (0.4 + 1)/2: 1.2 had counted as 1
    assert scaled.clipped == max(scaled.clipped_steps)
    assert scaled.clipped_per_layer == tuple(0.5 * value for value in plain.clipped_per_layer)
    assert scaled.assumptions[:-1] == plain.assumptions
    assert "20 held-out prompts, covering 91%" in scaled.assumptions[-1]


def test_bad_input() -> None:
    plain = Certificate.of([make_step(0.4)], 0.1, "poisson")
    with pytest.raises(BadInput, match="delta is 1"):
        Certificate.of([make_step(0.4)], 1.0, "poisson")
    with pytest.raises(BadInput, match="factor is 0"):
        plain.calibrate(0.0, "a split")
    with pytest.raises(BadInput, match="split is ' '"):
        plain.calibrate(0.5, " ")
    with pytest.raises(BadInput, match=r"kind is 'none'.*nothing to calibrate"):
        Certificate.none().calibrate(0.5, "a split")
