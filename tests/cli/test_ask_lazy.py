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
    assert first.settings.prune["schedule"] == "2:30%, 3:10%"
    assert (first.settings.prune["aux"], first.settings.prune["selection"]) == ("keep", "per_step")
    assert first.revival.aux_bytes > 0
    assert first.bypass == ()
    options = ("--keep", "1:50%, 3:40%", "--aux", "recompute", "--selection", "prefill")
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
        ("--keep brisk", "schedule is 'brisk'"),
        ("--keep 2:30%,3:50%", "what stays after 3 is '50%'"),
        ("--aux maybe", "aux is 'maybe'"),
        ("--selection once", "selection is 'once'"),
        ("--layer 3", "the setting layer of lazyllm is 3"),
        ("--grain chunk", "the setting grain of lazyllm is 'chunk'"),
    ],
)
def test_bad_options_are_refused(ask, long, options, message):
    result = ask("Who?", str(long), "--prune", "lazyllm", *options.split())
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())
    assert result.stdout == ""
