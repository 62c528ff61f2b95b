"""What `fewer calibrate` says about a profile, and what it warns of."""

from __future__ import annotations

import io
from typing import Any

from rich.console import Console

from fewer.cli.calibrated_profile import describe_profile
from fewer.prune.profile import Profile


def said(num_prompts: int = 32, recalls: tuple[float, ...] = (0.9,), checked: bool = True) -> str:
    layers = [3 + 2 * number for number in range(len(recalls))]
    gates = [
        {"layer": layer, "heads": [[layer, 0]], "recall": recall, "recall_paper": 0.1}
        for layer, recall in zip(layers, recalls, strict=True)
    ]
    fitted: dict[str, Any] = {"num_prompts": num_prompts, "gates": gates, "recall_random": 0.16}
    if checked:
        fitted["checked"] = {"tasks": {"a": 8}, "arms": {"full": {"score": 1.0, "left_out": 0.0}}}
    profile = Profile(
        format="fewer-profile",
        version=1,
        model="made-up",
        fingerprint="0",
        num_layers=12,
        num_heads=2,
        before=1,
        after=2,
        scores=[{"layer": layer, "heads": [{"layer": layer, "head": 0}]} for layer in layers],
        presets={"mild": ", ".join(f"{layer}:50%" for layer in layers)},
        fitted_on=fitted,
    )
    file = io.StringIO()
    for part in describe_profile(profile):
        Console(file=file, width=200, color_system=None).print(part)
    return file.getvalue()


def test_a_good_profile_has_no_warnings() -> None:
    text = said()
    assert "Warning" not in text
    assert "3.0" in text
    assert "Window: 1 tokens before, 2 behind." in text


def test_few_prompts_are_named() -> None:
    assert "Warning: 8 prompts are few; recall is of 4. Take --num-prompts 24 or more." in said(8)
    assert "are few" not in said(24)


def test_low_recall_is_named_by_its_layer() -> None:
    text = said(recalls=(0.68, 0.44))
    assert "Warning: after layer 5 recall is 0.44, below 0.6: much of what answers need is ranked low." in text
    assert "Warning: after layer 5 recall is 0.44, less than after layer 3: a schedule with that stop" in text
    assert "Warning: after layer 3" not in text
    assert said(recalls=(0.7, 0.8)).count("Warning") == 0


def test_a_profile_that_was_not_checked_says_so() -> None:
    assert "Warning: no answer was generated with these presets (--check 0)" in said(checked=False)
