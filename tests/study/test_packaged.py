"""The studies that come along: their parts can be read, and what was registered is what is there."""

from __future__ import annotations

import pytest

from fewer.study.packaged import STUDIES, find_part
from fewer.study.registration import load_registration, registration_path
from fewer.study.spec import load_study

PARTS = [(study, part) for study, parts in STUDIES.items() for part in parts]


@pytest.mark.parametrize(("method", "part"), PARTS)
def test_every_part_is_a_study_of_the_method_with_a_full_run(method: str, part: str) -> None:
    study = load_study(find_part(method, part))
    assert study.name == f"{method}-{part}"
    assert [arm.name for arm in study.expanded if arm.is_full] == ["full"]
    assert sum(arm.evict != "none" if method == "sessions" else arm.prune == method for arm in study.expanded) >= 2
    names = {arm.name for arm in study.expanded}
    assert {claim.arm for claim in study.claims} <= names


@pytest.mark.parametrize(("method", "part"), PARTS)
def test_claims_are_those_that_were_registered(method: str, part: str) -> None:
    path = find_part(method, part)
    study = load_study(path)
    assert bool(study.claims) == registration_path(path).exists()
    if study.claims:
        assert load_registration(registration_path(path)).study_sha256 == study.sha256


@pytest.mark.parametrize("method", [method for method, parts in STUDIES.items() if "speed" in parts])
def test_seconds_are_taken_alone(method: str) -> None:
    assert not load_study(find_part(method, "speed")).share
