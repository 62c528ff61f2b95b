"""The study of LazyLLM that comes along: its parts can be read, and what was registered is what is there."""

from __future__ import annotations

import pytest

from fewer.study.lazyllm import PARTS, find_part
from fewer.study.registration import load_registration, registration_path
from fewer.study.spec import load_study


@pytest.mark.parametrize("name", PARTS)
def test_every_part_is_a_study_with_a_full_run(name: str) -> None:
    study = load_study(find_part(name))
    assert [arm.name for arm in study.expanded if arm.is_full] == ["full"]
    assert sum(arm.prune == "lazyllm" for arm in study.expanded) >= 3
    names = {arm.name for arm in study.expanded}
    assert {claim.arm for claim in study.claims} <= names


@pytest.mark.parametrize("name", ["needles", "switches"])
def test_claims_are_those_that_were_registered(name: str) -> None:
    path = find_part(name)
    assert load_registration(registration_path(path)).study_sha256 == load_study(path).sha256


def test_seconds_are_taken_alone() -> None:
    assert not load_study(find_part("speed")).share
