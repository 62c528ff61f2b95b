"""`fewer ask --prune lazyllm`: its options reach the receipt, and what they refuse is said before the model loads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fewer import Receipt


@pytest.fixture
def long(docs: Path) -> Path:
    """Documents of more than 256 bytes."""
    (docs / "d.txt").write_text("The keepers rowed to the island every third day. " * 3)
    return docs


def receipt_of(result) -> Receipt:
    assert result.exit_code == 0, result.stderr
    return Receipt.model_validate(json.loads(result.stdout_bytes)["receipt"])


def test_presets_and_switches_reach_the_receipt(ask, long):
    first = receipt_of(ask("Who?", str(long), "--json", "--prune", "lazyllm"))
    assert (first.settings.prune["preset"], first.settings.prune["schedule"]) == ("balanced", "2:30%, 3:10%")
    assert (first.settings.prune["aux"], first.settings.prune["selection"]) == ("keep", "per_step")
    assert first.revival.aux_bytes > 0
    assert first.bypass == ()
    options = ("--keep", "1 : 50 %, 3:40%", "--aux", "recompute", "--selection", "prefill")
    second = receipt_of(ask("Who?", str(long), "--json", "--prune", "lazyllm", *options))
    assert second.settings.prune["schedule"] == "1:50%, 3:40%"
    assert (second.revival.aux, second.revival.aux_bytes) == ("recompute", 0)
    assert second.computed.token_layers_repeated > 0
    off = receipt_of(ask("Who?", str(long), "--json", "--prune", "lazyllm", "--aux", "off"))
    assert off.revival.num_revived == 0


def test_the_table_says_what_came_back(ask, long):
    result = ask("Who?", str(long), "--prune", "lazyllm", "--selection", "prefill")
    assert result.exit_code == 0
    said = " ".join(result.stderr.split())
    assert "revived 129 tokens came back in 7 steps" in said
    assert "came back" in said.split("chunk tokens computed")[1]


def test_a_short_prompt_says_why_nothing_was_left_out(ask):
    receipt = receipt_of(ask("Who?", "--json", "--prune", "lazyllm"))
    assert "below 256 choosing costs more than it saves" in receipt.bypass[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            "--keep brisk",
            "--keep is 'brisk'; it must be one of mild, balanced, aggressive, or stops LAYER:KEEP. Write for example "
            "balanced, or stops: 10:70%, 18:50%.",
        ),
        ("--keep 2:30%,3:50%", "what stays after 3 in --keep is '50%'"),
        ("--keep 2:0%", "what stays after 2 in --keep is '0%'"),
        ("--keep x:50%", "a layer of --keep is 'x'"),
        ("--keep 0.4:30%,0.41:20%", "--keep is '0.4:30%, 0.41:20%'; it must be of different layers; 0.4 and 0.41 are"),
        ("--keep 9:50%", "a layer of --keep is 9; it must be a whole number from 1 to 3 (the model has 4 layers)"),
        ("--keep 0.99:50%", "a layer of --keep is 0.99; it must be the place of one of the layers 1 to 3; of 4 layers"),
        ("--keep 1:5000", "what stays after 1 in --keep is 5000; it must be at most"),
        (
            "--profile missing.json",
            "--profile is 'missing.json'; it must be a readable file. No such file or directory.",
        ),
        ("--set shortest=-1", "error: shortest is -1; it must be"),
        ("--aux maybe", "error: --aux is 'maybe'"),
        ("--selection once", "error: --selection is 'once'"),
        ("--layer 3", "the setting layer of lazyllm is 3"),
        ("--grain chunk", "the setting grain of lazyllm is 'chunk'"),
    ],
)
def test_bad_options_are_refused(ask, long, options, message):
    result = ask("Who?", str(long), "--prune", "lazyllm", *options.split())
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())
    assert result.stdout == ""


@pytest.mark.parametrize("options", [("--set", "profile="), ("--profile", ""), ("--profile", " ")])
def test_a_profile_that_is_empty_is_refused(ask, long, options):
    result = ask("Who?", str(long), "--prune", "lazyllm", *options)
    assert result.exit_code == 2
    assert "must be NAME=VALUE" in result.stderr or "it must be auto, none, or a profile's file" in result.stderr


def test_a_preset_in_capitals_is_the_same(ask, long):
    one, two = (
        receipt_of(ask("Who?", str(long), "--json", "--prune", "lazyllm", "--keep", k)) for k in ("mild", "MILD")
    )
    assert one.settings == two.settings
    assert one.settings.prune["preset"] == "mild"


def test_the_table_names_the_method(ask, long):
    said = " ".join(ask("Who?", str(long), "--prune", "lazyllm").stderr.split())
    assert "method lazyllm balanced, here 2:30%, 3:10%; profile none; aux keep; selection per_step" in said
    assert "one mark for 1 step; highest: 16" in said or "0 tokens came back" in said
    assert "freed" not in said
    assert "a step saw" in said
