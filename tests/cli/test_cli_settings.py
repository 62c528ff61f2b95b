"""`--set NAME=VALUE` and `--preset`: what is read, what reaches the receipt, and what is refused before loading."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fewer import Receipt
from fewer.cli.settings import name_option, read_settings
from fewer.errors import BadInput, bad


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("tolerance=0.2", "tolerance", 0.2),
        ("shortest=0", "shortest", 0),
        (" audit-tolerance = 5e-1 ", "audit_tolerance", 0.5),
        ("revive=False", "revive", False),
        ("revive_limit=none", "revive_limit", None),
        ("order=row", "order", "row"),
        ("monitor=8:7, 16:all", "monitor", "8:7, 16:all"),
        ("keep=1.0", "keep", "1.0"),
        ("keep=1", "keep", "1"),
        ("profile=none", "profile", "none"),
        ("profile=a=b.json", "profile", "a=b.json"),
    ],
)
def test_values_are_what_they_read_as(text: str, name: str, value: object) -> None:
    found = read_settings({"layer": None}, [text])
    assert found == {name: value}
    assert type(found[name]) is type(value)


def test_options_that_were_not_given_are_not_there() -> None:
    assert read_settings({"keep": None, "layer": 0}, []) == {"layer": 0}


@pytest.mark.parametrize("text", ["tolerance", "=0.2", "tolerance=", " = ", ""])
def test_a_setting_has_a_name_and_a_value(text: str) -> None:
    with pytest.raises(BadInput, match=r"--set is .* it must be NAME=VALUE"):
        read_settings({}, [text])


@pytest.mark.parametrize(
    ("named", "given"),
    [({"keep": "50%"}, ["keep=50%"]), ({}, ["tau=1", "tau=1"]), ({}, ["revive_limit=none", "revive-limit=3"])],
)
def test_nothing_is_given_twice(named: dict, given: list[str]) -> None:
    with pytest.raises(BadInput, match=r"--set \w+ is .*; it must be given once"):
        read_settings(named, given)


@pytest.fixture
def long(docs: Path) -> Path:
    (docs / "d.txt").write_text("The keepers rowed to the island every third day. " * 3)
    return docs


def receipt_of(result) -> Receipt:
    assert result.exit_code == 0, result.stderr
    return Receipt.model_validate(json.loads(result.stdout_bytes)["receipt"])


def test_settings_and_preset_reach_the_receipt(ask, long):
    options = ("--set", "tolerance=0.9", "--set", "audit=off", "--set", "monitor=2:all", "--set", "profile=none")
    receipt = receipt_of(ask("Who?", str(long), "--json", "--prune", "entroprefill", "--keep", "60%", *options))
    shown = receipt.settings.prune
    assert (shown["tolerance"], shown["audit"], shown["monitor"]) == (0.9, "off", "2:0+1+2+3")
    assert (shown["preset"], shown["profile"], shown["keep"]) == ("default", "none", "60%")
    assert [each.layer for each in receipt.decisions] == [2]
    paper = receipt_of(ask("Who?", str(long), "--json", "--prune", "entroprefill", "--preset", "paper"))
    assert (paper.settings.prune["preset"], paper.settings.prune["mass"]) == ("paper", "absolute")
    same = receipt_of(ask("Who?", str(long), "--json", "--prune", "entroprefill", "--set", "preset=paper"))
    assert same.settings.prune == paper.settings.prune


def test_none_is_no_limit(ask, long):
    """The tiny model looks everywhere alike, so without a limit and a floor most tokens come back in the first step."""
    options = ("--json", "--prune", "lazyllm", "--set", "revive_floor=0")
    few = receipt_of(ask("Who?", str(long), *options, "--set", "revive_limit=1"))
    assert max(few.revival.revived_per_step) <= 1
    many = receipt_of(ask("Who?", str(long), *options, "--set", "revive_limit=none"))
    assert many.settings.prune["revive_limit"] is None
    assert max(many.revival.revived_per_step) > 16
    off = receipt_of(ask("Who?", str(long), "--json", "--prune", "lazyllm", "--set", "revive=false"))
    assert off.settings.prune["aux"] == "off"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--set shortest=0", "--set shortest is 0, but nothing is pruned."),
        (
            "--set shortest=0",
            "It is a setting of --prune lazyllm or entroprefill: write --prune lazyllm --set shortest",
        ),
        ("--set shortest=0", "or leave --set shortest out."),
        ("--set layer=2", "write --prune random --keep 25% --set layer=2, or leave --set layer out."),
        ("--set nothing=2", "--set nothing is 2, but nothing is pruned. Add --prune (random, static, ends, "),
        ("--set revive_limit=none", "--set revive_limit is None, but nothing is pruned."),
        ("--preset paper", "--preset is 'paper', but nothing is pruned."),
        ("--keep 3", "--keep is '3', but nothing is pruned."),
        (
            "--prune lazyllm --set schedule=mild",
            "--set schedule is 'mild'; it must be given as --keep.",
        ),
        ("--prune lazyllm --set 'schedule=2:30%, 3:9%'", "Write --keep '2:30%, 3:9%'."),
        ("--prune lazyllm --keep mild --set schedule=mild", "Write --keep mild."),
        ("--prune lazyllm --preset paper", "the setting preset of lazyllm is 'paper'"),
        ("--prune static --keep 9 --set tolerance=1", "the setting tolerance of static is 1"),
        ("--prune static --set layer=1", "--keep is missing"),
        ("--prune entroprefill --set facts=1", "the setting facts of entroprefill is 1"),
        ("--prune entroprefill --set schedule=mild", "the setting schedule of entroprefill is 'mild'"),
        ("--prune entroprefill --preset best", "preset is 'best'; it must be default, paper or general."),
        ("--prune entroprefill --set tolerance=nan", "tolerance is nan"),
        ("--prune entroprefill --set tolerance=", "--set is 'tolerance='; it must be NAME=VALUE."),
        ("--prune entroprefill --keep 50% --set keep=50%", "--set keep is '50%'; it must be given once."),
    ],
)
def test_bad_settings_are_refused(run, options, message):
    result = run("ask Who? --model nowhere " + options)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())
    assert result.stdout == ""


def test_errors_are_in_the_words_of_the_command_line() -> None:
    given = {"keep": "--keep", "check": "--check", "top_k": "--top-k"}

    def said(name: str, options: dict[str, str] = given) -> str:
        error = name_option(bad(name, 3, "less", "Drop it."), options)
        assert error.exit_code == 2
        return str(error)

    rest = " is 3; it must be less. Drop it."
    for name, option in (("keep", "--keep"), ("schedule", "--keep"), ("check_items", "--check"), ("top_k", "--top-k")):
        assert said(name) == option + rest
        assert said(name, {}) == name + rest
    assert said("a layer of the schedule") == "a layer of --keep" + rest
    assert said("what stays after 8") == "what stays after 8 in --keep" + rest
    assert said("a layer of the schedule", {}) == "a layer of the schedule" + rest
    assert said("tolerance") == "tolerance" + rest
    assert str(name_option(BadInput("It is what it is."), given)) == "It is what it is."
