"""EntroPrefill's settings: every legal range at its ends, and the presets."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from fewer import BadInput, EntroPrefill, Keep
from fewer.prune.entroprefill import PARAMETERS, Settings
from fewer.prune.entroprefill.protocol import hoeffding_width
from fewer.prune.entroprefill.settings import GENERAL, PAPER, check_setting

NUMBERS = [name for name, parameter in PARAMETERS.items() if parameter.kind in (int, float) and not parameter.choices]
CHOICES = [name for name, parameter in PARAMETERS.items() if parameter.choices]


def ends_of(name: str) -> tuple[Any, Any, Any, Any]:
    """The lowest and highest legal value, and what is just below and above; None where there is no upper end."""
    parameter = PARAMETERS[name]
    if parameter.kind is int:
        high = None if parameter.high is None else int(parameter.high)
        return int(parameter.low), high, int(parameter.low) - 1, None if high is None else high + 1
    below = parameter.low if parameter.open_low else math.nextafter(parameter.low, -1)
    lowest = math.nextafter(parameter.low, 1) if parameter.open_low else parameter.low
    return lowest, parameter.high, below, None if parameter.high is None else math.nextafter(parameter.high, math.inf)


@pytest.mark.parametrize("name", NUMBERS)
def test_ranges(name: str) -> None:
    lowest, highest, below, above = ends_of(name)
    kind = PARAMETERS[name].kind
    for value in (lowest, highest):
        if value is not None:
            found = check_setting(name, value)
            assert (found, type(found)) == (value, kind)
    refused = [below, above, math.nan, math.inf, -math.inf, True, "1", [1], 10**400 if kind is float else 1.5, None]
    for value in refused:
        if value is not None or kind is float:
            with pytest.raises(BadInput, match=f"^{name} is "):
                check_setting(name, value)


@pytest.mark.parametrize("name", NUMBERS)
def test_a_planner_refuses_what_the_settings_refuse(name: str) -> None:
    _, _, below, above = ends_of(name)
    for value in (below, above):
        if value is not None:
            with pytest.raises(BadInput, match=f"^{name} is "):
                EntroPrefill(**{name: value})


def test_whole_numbers_are_numbers() -> None:
    assert (check_setting("tau", 2), type(check_setting("tau", 2))) == (2.0, float)
    with pytest.raises(BadInput, match=r"observers is 2\.0; it must be a whole number of at least 1"):
        check_setting("observers", 2.0)


@pytest.mark.parametrize("delta", [1e-320, 5e-324, 9e-13, 0.0])
def test_a_delta_that_divides_into_infinity_is_refused(delta: float) -> None:
    with pytest.raises(BadInput, match=r"^delta is .*; it must be a number of at least 1e-12 and at most 0\.999999"):
        EntroPrefill(audit="hoeffding", delta=delta)
    assert math.isfinite(hoeffding_width(10**6, check_setting("delta", 1e-12), 1))


def test_numbers_of_numpy_are_numbers() -> None:
    for given in (np.int64(5), np.uint8(5), np.int32(5)):
        for name, expected in (("observers", 5), ("tau", 5.0), ("keep", Keep(tokens=5))):
            found = check_setting(name, given)
            assert (found, type(found)) == (expected, type(expected))
        assert EntroPrefill(shortest=given, monitor=given) == EntroPrefill(shortest=5, monitor=5)
    for given in (np.float32(0.5), np.float64(0.5), np.float16(0.5)):
        assert (check_setting("tolerance", given), type(check_setting("tolerance", given))) == (0.5, float)
        assert check_setting("keep", given) == Keep(fraction=0.5)
    for given in (np.float64(5), np.bool_(True)):
        with pytest.raises(BadInput, match=r"^observers is "):
            check_setting("observers", given)
    for given in (np.float32("nan"), np.float32("inf"), np.bool_(True), np.array([1.0])):
        with pytest.raises(BadInput, match=r"^tau is "):
            check_setting("tau", given)


@pytest.mark.parametrize("profile", ["", "  ", 3])
def test_a_profile_without_a_name(profile: Any) -> None:
    with pytest.raises(BadInput, match=r"^profile is .*; it must be auto, None, a file or a Calibrated"):
        EntroPrefill(profile=profile)


@pytest.mark.parametrize("name", CHOICES)
def test_choices(name: str) -> None:
    for choice in PARAMETERS[name].choices:
        assert check_setting(name, choice) == choice
    for value in ("", "Row", None, 1, True, ["row"]):
        with pytest.raises(BadInput, match=f"^{name} is .*; it must be one of {PARAMETERS[name].choices[0]}, "):
            check_setting(name, value)


@pytest.mark.parametrize("name", ["keep", "keep_at_most"])
def test_budgets(name: str) -> None:
    assert check_setting(name, "25%") == check_setting(name, 0.25) == Keep(fraction=0.25)
    assert check_setting(name, 9) == check_setting(name, "9") == Keep(tokens=9)
    for value in (0, -1, 1.5, "0%", "101%", math.nan, True, None, "half"):
        with pytest.raises(BadInput, match=f"^{name} is .*; it must be a whole number of at least 1, or a fraction"):
            check_setting(name, value)


def test_every_parameter_says_what_it_is() -> None:
    assert list(PARAMETERS) == [field.name for field in fields(Settings)]
    for name, parameter in PARAMETERS.items():
        assert parameter.says
        assert parameter.legal
        assert hasattr(EntroPrefill(), name)
    assert PARAMETERS["delta"].legal == "a number from 1e-12 to 0.999999"
    assert PARAMETERS["tau"].legal == "a number above 0 to 1e+06"
    assert PARAMETERS["observers"].legal == "a whole number from 1 on"
    assert PARAMETERS["order"].legal == "one of entropy, mass, row"
    symbols = {parameter.symbol for parameter in PARAMETERS.values()}
    paper = [
        "tau",
        "zeta",
        "z_min",
        "Z_min",
        "eps_s",
        "lambda",
        "eps_a",
        "m_0",
        "B_pref",
        "L",
        "delta",
        "eps_audit",
        "m_a",
        "theta",
        "v",
        "Q_p",
        "W_p",
    ]
    assert set(paper) <= symbols


def test_tolerances_may_be_zero_and_thresholds_may_not() -> None:
    for name in ("tolerance", "audit_tolerance"):
        assert check_setting(name, 0) == 0.0
        assert PARAMETERS[name].legal == "a number from 0 to 0.999"
    for name in ("document_min", "residual_min"):
        with pytest.raises(BadInput, match=f"^{name} is 0.0; it must be a number above 0"):
            check_setting(name, 0.0)
        assert check_setting(name, 1e-9) == 1e-9


def test_presets_have_every_setting() -> None:
    for preset in (PAPER, GENERAL):
        assert set(preset) == set(PARAMETERS)
        assert Settings(**preset) == Settings(**preset)
    paper = Settings(**PAPER)
    assert (paper.order, paper.mass, paper.keep, paper.streak) == ("entropy", "absolute", paper.keep_at_most, 0)
    with pytest.raises(BadInput, match=r"^zeta is 2"):
        Settings(**{**PAPER, "zeta": 2})


IDLE = [
    ({"audit": "exact"}, {"audit_draws": 8}),
    ({"audit": "exact"}, {"delta": 0.1}),
    ({"audit": "exact"}, {"exact_limit": 9}),
    ({"audit": "hoeffding"}, {"exact_limit": 9}),
    ({"audit": "off"}, {"audit_draws": 8}),
    ({"audit": "off"}, {"delta": 0.1}),
    ({"audit": "off"}, {"audit_tolerance": 0.1}),
    ({"streak": 0}, {"streak_change": 0.5}),
    ({"order": "row"}, {"concentration": 2.0}),
    ({"order": "row"}, {"smoothing": 0.5}),
    ({"order": "mass"}, {"concentration": 2.0}),
    ({"order": "mass"}, {"smoothing": 0.5}),
    ({"choose_observers": "suffix", "audit": "exact"}, {"seed": 3}),
    ({"choose_observers": "suffix", "audit": "off"}, {"seed": 3}),
]


@pytest.mark.parametrize(("where", "idle"), IDLE, ids=str)
def test_what_would_do_nothing_is_refused(where: dict[str, Any], idle: dict[str, Any]) -> None:
    (name,) = idle
    with pytest.raises(BadInput, match=f"^{name} is .*; it must be left out where .* (is|are) "):
        EntroPrefill(**where, **idle)
    EntroPrefill(**where)
    EntroPrefill(**idle)


def test_what_does_something_is_not() -> None:
    EntroPrefill(audit="hoeffding", audit_draws=8, delta=0.1, audit_tolerance=0.2, seed=3)
    EntroPrefill(audit="auto", audit_draws=8, delta=0.1, exact_limit=9, seed=3)
    EntroPrefill(audit="off", choose_observers="sample", seed=3)
    EntroPrefill(streak=1, streak_change=0.5)
    EntroPrefill(order="entropy", concentration=2.0, smoothing=0.1)
