"""EntroPrefill's settings in a study's arms and in lm-evaluation-harness's arguments."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from fewer import BadInput, EntroPrefill, ModelFacts
from fewer.prune import settings_of
from fewer.prune.entroprefill.settings import GENERAL
from fewer.study.arms import check_arms, expand_arms
from fewer.study.lm_eval.arguments import read_arguments

FULL = {"name": "full"}
FACTS = ModelFacts("made up", "0" * 32, 30, 9, 3, (None,) * 30)


def test_an_arm_takes_every_setting() -> None:
    _, arm = expand_arms([FULL, {"prune": "entroprefill", "keep": "50%"}])
    assert arm.name == "entroprefill keep=50%"
    assert arm.planner == EntroPrefill(keep="50%")
    assert (arm.draws, arm.is_full) == (False, False)
    whole = {**GENERAL, "order": "entropy", "audit": "hoeffding", "streak": 1, "choose_observers": "sample"}
    del whole["exact_limit"]
    settings = {**whole, "preset": "general", "shortest": 0}
    assert {*settings, "profile", "exact_limit"} == set(settings_of("entroprefill"))
    _, arm = expand_arms([FULL, {"name": "all", "prune": "entroprefill", **settings}])
    assert arm.planner.fitted(FACTS).describe() == {**EntroPrefill(**settings).fitted(FACTS).describe()}


def test_lists_of_its_settings_are_arms() -> None:
    written = {"prune": "entroprefill", "keep": ["50%", "25%"], "tolerance": [0.1, 0.3], "monitor": "16:all, 18:2"}
    names = [arm.name for arm in expand_arms([FULL, written])]
    assert names[1:] == [
        f"entroprefill keep={keep} tolerance={tolerance} monitor=16:all, 18:2"
        for keep in ("50%", "25%")
        for tolerance in (0.1, 0.3)
    ]
    layers = [arm.planner.layers(30) for arm in expand_arms([FULL, {"prune": "entroprefill", "monitor": [8, 16]}])[1:]]
    assert layers == [(8,), (16,)]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"keep": "0%"}, "keep is '0%'"),
        ({"tolerance": 1.0}, r"tolerance is 1\.0; it must be a number of at least 0 and at most 0\.999"),
        ({"audit": "off", "delta": 0.1}, r"delta is 0\.1; it must be left out where audit is off"),
        ({"grain": "chunk"}, "the setting grain of entroprefill"),
        ({"facts": None}, "the setting facts of entroprefill"),
        ({"preset": "paper", "profile": "a.json"}, "left out with preset paper"),
    ],
    ids=str,
)
def test_an_arm_that_cannot_be_is_named(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=f"The arm 'it' cannot be: .*{message}"):
        expand_arms([FULL, {"name": "it", "prune": "entroprefill", **settings}])


def test_an_arm_is_held_against_the_models_depth() -> None:
    arms = expand_arms([FULL, {"name": "deep", "prune": "entroprefill", "monitor": "30:all"}])
    check_arms(arms, replace(FACTS, num_layers=31, windows=(None,) * 31))
    with pytest.raises(BadInput, match="The arm 'deep' does not fit the model: monitor is '30'; it must be layers"):
        check_arms(arms, FACTS)


@pytest.mark.parametrize("prune", [{"prune": "entroprefill"}, {"prune": "lazyllm", "keep": "3:50%"}], ids=str)
def test_profiles_of_arms_are_read_before_anything_is_frozen(tmp_path: Path, prune: dict[str, Any]) -> None:
    (tmp_path / "broken.json").write_text("{")
    for name, reason in (("gone.json", "No such file"), ("broken.json", "it must be a JSON file"), ("", "directory")):
        arms = expand_arms([FULL, {"name": "it", **prune, "profile": str(tmp_path / name)}])
        with pytest.raises(BadInput, match=f"The arm 'it' does not fit the model: profile is .*{reason}"):
            check_arms(arms, FACTS)


def test_a_streak_out_of_reach_is_refused_before_anything_is_frozen() -> None:
    arms = expand_arms([FULL, {"name": "it", "prune": "entroprefill", "monitor": "8, 9", "streak": 2}])
    with pytest.raises(BadInput, match=r"The arm 'it' does not fit the model: streak is 2; it must be at most 1"):
        check_arms(arms, FACTS)


def test_a_monitor_that_yaml_took_for_a_time_says_so() -> None:
    (read,) = yaml.safe_load("[{name: it, prune: entroprefill, monitor: 9:8.7}]")
    with pytest.raises(BadInput, match=r"The arm 'it' cannot be: .* In YAML put it in quotes: 9:8\.7 without them"):
        expand_arms([FULL, read])


def test_the_harness_takes_its_settings() -> None:
    arguments = read_arguments(
        {"prune": "entroprefill", "keep": "50%", "monitor": "8:7 16:all", "tau": 2, "shortest": 0}
    )
    assert arguments.planner == EntroPrefill(keep="50%", monitor={8: [7], 16: "all"}, tau=2, shortest=0)
    assert arguments.most_kept is None
    assert read_arguments({"prune": "entroprefill", "keep": 200}).most_kept == 200
    assert read_arguments({"prune": "entroprefill", "profile": "none"}).planner == EntroPrefill(profile=None)
    assert read_arguments({"prune": "entroprefill"}).planner == EntroPrefill()
    with pytest.raises(BadInput, match=r"tau is 0; it must be a number above 0"):
        read_arguments({"prune": "entroprefill", "tau": 0})


def test_the_harness_has_its_own_seed_and_sinks_for_every_planner() -> None:
    for given in ({}, {"prune": "static", "keep": "50%"}, {"prune": "entroprefill"}):
        arguments = read_arguments({**given, "seed": 3})
        assert (arguments.seed, dict(arguments.settings).get("seed")) == (3, None)
    arguments = read_arguments({"prune": "entroprefill", "sinks": 2})
    assert (arguments.sinks, arguments.settings) == (2, ())
    with pytest.raises(BadInput, match="without sinks, since nothing is pruned"):
        read_arguments({"sinks": 2})
    with pytest.raises(BadInput, match="without tolerance, since nothing is pruned"):
        read_arguments({"tolerance": 0.2})
