"""The tables that come along: one is found for exactly its own setting, and those in the package can be used."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from odds_made import POLICY, SETTING, made_odds

from fewer.decide import SIGNALS, find_odds, load_odds
from fewer.decide.reading import ON_RECEIPTS
from fewer.decide.tables import SHIPPED
from fewer.errors import BadInput


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """One table, for SETTING."""
    made_odds(study="FIRST", signal="certificate_clipped").save(tmp_path / "b.json")
    return tmp_path


def test_a_table_is_found_for_its_setting_whatever_the_moment(folder):
    for policy in (SETTING.policy, POLICY, {**POLICY, "moment": "prompt"}):
        assert find_odds(replace(SETTING, policy=policy), folder) == load_odds(folder / "b.json")


@pytest.mark.parametrize(
    "change",
    [
        {"model": "f" * 32},
        {"condition": "aware"},
        {"policy": {**POLICY, "budget.keep": "24%"}},
        {"policy": {**POLICY, "every": 64}},
        {"policy": {name: value for name, value in POLICY.items() if name != "sinks"}},
    ],
)
def test_for_any_other_setting_there_is_none(folder, change):
    assert find_odds(replace(SETTING, **change), folder) is None


def test_of_several_the_first_by_name_over_a_signal_that_receipts_have(folder):
    made_odds(study="SECOND", signal="certificate").save(folder / "c.json")
    made_odds(study="MASS", signal="evicted_mass").save(folder / "a.json")
    assert find_odds(SETTING, folder).study == "FIRST"
    (folder / "b.json").unlink()
    assert find_odds(SETTING, folder).study == "SECOND"
    (folder / "c.json").unlink()
    assert find_odds(SETTING, folder) is None


def test_a_file_that_is_no_table_is_named(folder):
    (folder / "a.json").write_text("{}")
    with pytest.raises(BadInput, match=r"odds is '.*a\.json'; it must be a table of measured odds"):
        find_odds(replace(SETTING, model="f" * 32), folder)
    (folder / "a.json").unlink()
    (folder / "notes.txt").write_text("no table")
    assert find_odds(SETTING, folder).study == "FIRST"


def test_what_comes_along_can_be_used_and_names_its_origin():
    """With each setting there once, or the order of file names would say which study is believed."""
    found = [load_odds(path) for path in sorted(SHIPPED.glob("*.json"))]
    settings = [(odds.fingerprint, tuple(sorted(odds.policy.items())), odds.condition) for odds in found]
    assert len(set(settings)) == len(settings)
    assert all(odds.signal in ON_RECEIPTS and odds.command.startswith("fewer odds ") for odds in found)
    assert find_odds(SETTING) is None


def test_receipts_signals_are_signals_of_the_cache():
    assert all(SIGNALS[name].channel == "cache" for name in ON_RECEIPTS)
