"""Profiles: their scores by hand, their files and what is wrong with them, and that they fit one model only."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from planning import observe, prompt_of
from torch import Tensor

from fewer import BadInput, LazyLLM, Prompt
from fewer.prune.profile import Profile, load_profile, shipped_profile
from fewer.types import Look, Looked, ModelFacts

PRINT = "ab" * 16


def written(**changes: Any) -> dict[str, Any]:
    """A profile as a file holds it: two depths; the second looks at two layers."""
    return {
        "format": "fewer-profile",
        "version": 1,
        "model": "made-up",
        "fingerprint": PRINT,
        "num_layers": 4,
        "num_heads": 3,
        "before": 0,
        "after": 0,
        "scores": [
            {"layer": 1, "heads": [{"layer": 1, "head": 2}]},
            {"layer": 3, "heads": [{"layer": 3, "head": 0, "weight": 2.0}, {"layer": 1, "head": 1, "weight": 0.5}]},
        ],
        "presets": {"balanced": "1:60%, 3:30%"},
        "fitted_on": {"seeds": [1, 2]},
        **changes,
    }


def profile_of(**changes: Any) -> Profile:
    return Profile.model_validate(written(**changes))


def slow_spread(score: list[float], before: int, after: int) -> list[float]:
    window = before + after + 1
    return [
        sum(score[near] for near in range(here - after, here + before + 1) if 0 <= near < len(score)) / window
        for here in range(len(score))
    ]


@given(
    st.lists(st.floats(0, 1, width=32), min_size=1, max_size=30),
    st.integers(0, 40),
    st.integers(0, 40),
)
@settings(max_examples=150, deadline=None, derandomize=True)
def test_spreading_against_a_loop(score: list[float], before: int, after: int) -> None:
    found = profile_of(before=before, after=after).spread(torch.tensor(score, dtype=torch.float64))
    assert found.tolist() == pytest.approx(slow_spread(score, before, after), abs=1e-12)


def test_a_score_flows_to_the_tokens_before_and_behind() -> None:
    at_five = torch.zeros(12)
    at_five[5] = 6.0
    found = profile_of(before=2, after=3).spread(at_five)
    assert found.nonzero().flatten().tolist() == [3, 4, 5, 6, 7, 8]
    assert found[3:9].tolist() == pytest.approx([1.0] * 6)


PROMPT = prompt_of(4, sinks=1, tail=2)  # 0 and 5, 6 are protected


def rows(*values: list[float]) -> Tensor:
    """Of one head: [1, m, n]."""
    return torch.tensor([values])


def test_shares_of_the_largest_attention_by_hand() -> None:
    profile = profile_of()
    score = profile.score_at(3)
    assert score.looks((5, 6)) == (Look(3, (0,), (5, 6)), Look(1, (1,), (5, 6)))
    looked = {
        Look(3, (0,), (5, 6)): Looked(
            torch.tensor([0, 1, 3, 5, 6]),
            rows([0.5, 0.1, 0.2, 0.2, 0.0], [0.2, 0.3, 0.1, 0.2, 0.2]),  # largest of 1 and 3: 0.3 and 0.2
        ),
        Look(1, (1,), (5, 6)): Looked(
            torch.arange(7),
            rows([0.4, 0.1, 0.0, 0.0, 0.1, 0.4, 0.0], [0.1, 0.0, 0.2, 0.1, 0.0, 0.1, 0.5]),
        ),
        Look(1, (2,), (5, 6)): Looked(torch.arange(7), torch.ones(1, 2, 7)),  # another score's
    }
    found = profile.rank(score, looked, torch.tensor([0, 1, 3, 5, 6]), PROMPT)
    first = [0.5 * share / 5 for share in (1, 2, 1, 1)]  # of 1 to 4: largest 0.1, 0.2, 0.1, 0.1
    want = [0.0, 2.0 * 0.6 + first[0], 2.0 * 0.4 + first[2], 0.0, 0.0]
    assert found.tolist() == pytest.approx(want, abs=1e-6)
    whole = profile.rank(score, looked, torch.arange(7), PROMPT)
    assert float(whole.sum()) == pytest.approx(2.5, abs=1e-6)  # each head's shares sum to its weight


def test_a_later_step_adds_up_attention_and_not_shares() -> None:
    profile = profile_of()
    score = profile.score_at(3)
    looked = {
        Look(3, (0,), (5, 6)): Looked(torch.tensor([0, 1, 3, 5, 6]), rows([0.5, 0.1, 0.2, 0.2, 0.0])),
        Look(1, (1,), (5, 6)): Looked(torch.arange(7), rows([0.4, 0.1, 0.0, 0.0, 0.1, 0.4, 0.0])),
    }
    found = profile.add_up(score, looked, torch.tensor([1, 3, 4, 6]), PROMPT)
    assert found.tolist() == pytest.approx([2.0 * 0.1 + 0.5 * 0.1, 2.0 * 0.2, 0.5 * 0.1, 0.0], abs=1e-6)


def test_a_head_that_looks_away_gives_no_share() -> None:
    profile = profile_of()
    looked = {Look(1, (2,), (6,)): Looked(torch.arange(7), rows([1.0, 0, 0, 0, 0, 0, 0]))}
    assert profile.rank(profile.score_at(1), looked, torch.arange(7), PROMPT).tolist() == [0.0] * 7


def test_the_gate_ranks_by_the_profile_and_then_by_both() -> None:
    planner = LazyLLM({1: 5}, profile=profile_of(), shortest=0, revive_floor=0)
    assert planner.needs == "looks"
    look = Look(1, (2,), (5, 6))
    assert planner.looks(PROMPT, 4) == (look,)
    looked = {look: Looked(torch.arange(7), rows([0.3, 0.1, 0.2, 0.0, 0.1, 0.2, 0.1], [0.0] * 7))}
    seen = replace(observe(PROMPT), num_layers=4, looked=looked)
    plan = planner.after(seen)
    assert plan.keep.tolist() == [0, 1, 2, 5, 6]
    assert plan.score.tolist() == pytest.approx([0, 0.25, 0.5, 0, 0.25, 0, 0])
    newest = {look: Looked(torch.arange(7), rows([0.0, 0.0, 0.0, 0.1, 0.3, 0.0, 0.0]))}
    ready = torch.tensor([True, True, True, False, False, True, True])
    step = replace(seen, step=1, looked=newest, ready=ready, first_score=plan.score)
    assert planner.after(step).keep.tolist() == [0, 2, 4, 5, 6]  # 0.5 and 0.25 + 0.3
    inactive = replace(step, first_score=torch.tensor([0, 0.25, 0.5, 0, float("-inf"), 0, 0]))
    assert planner.after(inactive).keep.tolist() == [0, 2, 4, 5, 6]  # 0.5 and 0.3; minus infinity counts as 0


def test_rows_are_those_behind_the_last_token_that_may_go() -> None:
    planner = LazyLLM({1: 5, 3: 4}, profile=profile_of(), shortest=0)
    both = (Look(1, (2,), (5, 6)), Look(3, (0,), (5, 6)), Look(1, (1,), (5, 6)))
    assert planner.looks(PROMPT, 4) == both
    assert planner.looks(Prompt.from_ids(range(9), sinks=0), 4)[0].rows == (8,)
    assert LazyLLM({1: 5}, profile=profile_of()).looks(PROMPT, 4) == ()  # declined
    long_question = prompt_of(4, sinks=1, tail=300)
    assert planner.looks(long_question, 4)[0].rows == tuple(range(305 - 256, 305))


def test_a_stop_takes_the_deepest_score_there_is() -> None:
    profile = profile_of(scores=written()["scores"][1:], presets={})
    assert [profile.score_at(layer).layer for layer in (3, 4)] == [3, 3]
    with pytest.raises(BadInput) as caught:
        profile.score_at(2)
    assert str(caught.value) == (
        "a layer of the schedule is 2; it must be at least 3, where the profile of made-up has its first score. "
        "Leave tokens out deeper, or take profile none."
    )
    with pytest.raises(BadInput, match="a layer of the schedule is 2; it must be at least 3"):
        LazyLLM({2: 5}, profile=profile).fitted(facts())
    with pytest.raises(BadInput) as caught:
        LazyLLM({0.5: 5}, profile=profile).fitted(facts())
    assert str(caught.value).startswith(
        "a layer of the schedule is 0.5; it must be a place at layer 3 or deeper, where the profile of made-up has its "
        "first score; of 4 layers it is layer 2. "
    )


def facts(fingerprint: str = PRINT) -> ModelFacts:
    return ModelFacts("other-model", fingerprint, 4, 3, 1, (None,) * 4)


def test_presets_of_the_profile_come_first() -> None:
    assert LazyLLM("balanced", profile=profile_of()).fitted(facts()).layers(4) == (1, 3)
    assert LazyLLM({3: 5}, profile=profile_of()).fitted(facts()).layers(4) == (3,)


def test_another_models_profile_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "profile.json"
    path.write_text(json.dumps(written()))
    for given_as in (profile_of(), path, str(path)):
        fitted = LazyLLM({1: 5}, profile=given_as).fitted(facts())
        assert fitted.profile == profile_of()
        with pytest.raises(BadInput) as caught:
            LazyLLM({1: 5}, profile=given_as).fitted(facts("cd" * 16))
        assert str(caught.value) == (
            "profile is 'made-up'; it must be made for the model that runs, other-model; the two differ in weights "
            "(abababab in the file, cdcdcdcd in the model). Calibrate that one with fewer calibrate, or take profile "
            "none."
        )


def test_titles_tell_profiles_apart() -> None:
    title = profile_of().title
    assert re.fullmatch(r"made-up \([0-9a-f]{8}\)", title)
    assert title == profile_of().title != profile_of(before=1).title
    assert LazyLLM({1: 5}, profile=profile_of()).describe()["profile"] == title


def test_a_model_without_a_profile_has_none() -> None:
    assert shipped_profile("ef" * 16) is None
    assert LazyLLM("mild").fitted(facts("ef" * 16)).profile is None


HEAD = {"layer": 1, "head": 0}
BROKEN: list[tuple[dict[str, Any], str]] = [
    ({"format": "other"}, "format: Input should be 'fewer-profile'"),
    ({"version": 2}, "version: Input should be 1"),
    ({"num_layers": 0}, "num_layers: Input should be greater than or equal to 1; it is 0. Make"),
    ({"num_heads": 0}, "num_heads: Input should be greater than or equal to 1"),
    ({"before": -1}, "before: Input should be greater than or equal to 0"),
    ({"after": 1025}, "after: Input should be less than or equal to 1024"),
    ({"scores": []}, "scores: Tuple should have at least 1 item"),
    ({"scores": [{"layer": 1, "heads": []}]}, "scores.0.heads: Tuple should have at least 1 item"),
    ({"scores": [{"layer": 0, "heads": [HEAD]}]}, "scores.0.layer: Input should be greater than or equal to 1"),
    ({"scores": [{"layer": 1, "heads": [{"layer": 0, "head": 0}]}]}, "scores.0.heads.0.layer: Input should be"),
    ({"scores": [{"layer": 1, "heads": [{"layer": 1, "head": -1}]}]}, "scores.0.heads.0.head: Input should be"),
    ({"scores": [{"layer": 1, "heads": [{**HEAD, "weight": 0}]}]}, "scores.0.heads.0.weight: Input should be greater"),
    ({"scores": [{"layer": 1, "heads": [{**HEAD, "weight": float("inf")}]}]}, "weight: Input should be a finite"),
    ({"scores": [{"layer": 1, "heads": [{**HEAD, "extra": 0}]}]}, "scores.0.heads.0.extra: Extra inputs are not"),
    (
        {"scores": [{"layer": 1, "heads": [{"layer": 2, "head": 0}]}]},
        "scores.0: the layer of a head is 2; it must be at most 1, the score's own. Look at it deeper.",
    ),
    (
        {"scores": [{"layer": 1, "heads": [{"layer": 1, "head": 3}]}]},
        "cannot be used: a head of the profile is 3; it must be at most 2.",
    ),
    (
        {"scores": [{"layer": layer, "heads": [HEAD]} for layer in (3, 1)]},
        "the layers of the scores is [3, 1]; it must be ascending, each once, and at most 4.",
    ),
    ({"scores": [{"layer": 2, "heads": [HEAD]}] * 2}, "the layers of the scores is [2, 2]; it must be ascending"),
    ({"scores": [{"layer": 5, "heads": [HEAD]}]}, "the layers of the scores is [5]; it must be ascending"),
    ({"presets": {"mild": "3"}}, "schedule is '3'; it must be one of mild, balanced, aggressive, or stops LAYER:KEEP"),
    ({"presets": {"mild": ""}}, "the preset mild: schedule is ''; it must be at least one stop"),
    (
        {"presets": {"balanced": "Mild "}},
        "cannot be used: the preset balanced is 'Mild '; it must be a schedule and not the name of one. Write its",
    ),
    ({"presets": {"mild": "4:30%"}}, "the preset mild: a layer of the schedule is 4; it must be a whole number from 1"),
    ({"presets": {"mild": "0.9:30%"}}, "the preset mild: a layer of the schedule is 0.9; it must be the place of one"),
    (
        {"presets": {"mild": "1:30%"}, "scores": written()["scores"][1:]},
        "the preset mild: a layer of the schedule is 1; it must be at least 3, where the profile of made-up has",
    ),
    (
        {"presets": {"mild": "0.5:30%, 0.51:20%"}},
        "the preset mild is '0.5:30%, 0.51:20%'; it must be a schedule with each of the 4 layers once. Drop a stop.",
    ),
    ({"presets": {"mild": 3}}, "presets.mild: Input should be a valid string"),
    ({"more": 1}, "more: Extra inputs are not permitted"),
]


@pytest.mark.parametrize(("changes", "message"), BROKEN, ids=[str(changes) for changes, _ in BROKEN])
def test_broken_profiles_are_named(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    path = tmp_path / "profile.json"
    path.write_text(json.dumps(written(**changes)))
    with pytest.raises(BadInput, match=re.escape(message)) as caught:
        load_profile(path)
    text = str(caught.value)
    assert text.startswith(f"The profile {path} cannot be used: ")
    assert text.endswith("Make one with fewer calibrate.")
    assert text.count("Make one with fewer calibrate") == 1
    assert "Value error" not in text
    assert ".." not in text


@pytest.mark.parametrize("field", list(written()))
def test_missing_fields_are_named(tmp_path: Path, field: str) -> None:
    path = tmp_path / "profile.json"
    path.write_text(json.dumps({name: value for name, value in written().items() if name != field}))
    with pytest.raises(BadInput, match=re.escape(f"{path} cannot be used: {field}: Field required.")):
        load_profile(path)


def test_files_that_are_no_profile(tmp_path: Path) -> None:
    path = tmp_path / "profile.json"
    with pytest.raises(BadInput, match=r"profile is '.*profile.json'; it must be a readable file"):
        load_profile(path)
    with pytest.raises(BadInput, match="it must be a readable file"):
        load_profile(tmp_path)
    path.write_bytes(b"\xff\xfe{}")
    with pytest.raises(BadInput, match="it must be a readable file"):
        load_profile(path)
    for text in ("", '{"format": ', "fewer"):
        path.write_text(text)
        with pytest.raises(BadInput, match=r"it must be a JSON file. Line 1: .* Make one with fewer calibrate."):
            load_profile(path)
    for text in ("[]", "3", "null"):
        path.write_text(text)
        with pytest.raises(BadInput, match="cannot be used: the whole: Input should be a valid dictionary"):
            load_profile(path)


def test_names_and_nesting_that_no_reader_takes(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="profile is 'a"):
        load_profile("a\0b")
    deep = tmp_path / "deep.json"
    deep.write_text("[" * 100_000)
    with pytest.raises(BadInput, match=r"a few levels|a JSON file"):
        load_profile(deep)


def test_a_preset_that_the_profile_lacks_is_named() -> None:
    with pytest.raises(BadInput, match=r"schedule is 'mild'; it must be one of balanced, the presets of the profile"):
        LazyLLM("mild", profile=profile_of()).fitted(facts())
    with pytest.raises(BadInput) as caught:
        LazyLLM("mild", profile=profile_of(presets={})).fitted(facts())
    assert str(caught.value) == (
        "schedule is 'mild'; it must be a schedule of stops, since the profile of made-up has no presets. "
        "Write for example 1:50%."
    )


def test_a_fitted_preset_keeps_its_name() -> None:
    fitted = LazyLLM("Balanced", profile=profile_of()).fitted(facts())
    assert (fitted.describe()["preset"], fitted.describe()["schedule"]) == ("balanced", "1:60%, 3:30%")
    assert fitted.fitted(facts()) == fitted
    assert LazyLLM({3: 5}, profile=profile_of()).fitted(facts()).describe()["preset"] is None


def test_the_profile_that_comes_along_is_what_was_registered() -> None:
    folder = files("fewer.prune").joinpath("profiles").joinpath("lazyllm")
    (shipped,) = [load_profile(str(entry)) for entry in folder.iterdir() if entry.name.endswith(".json")]
    assert shipped_profile(shipped.fingerprint) == shipped
    assert shipped.title == "SmolLM2-135M-Instruct (487de1a5)"
    assert shipped.presets == {"mild": "8:55%", "balanced": "8:35%", "aggressive": "8:20%"}


def test_the_fingerprint_alone_is_not_enough() -> None:
    with pytest.raises(BadInput, match="profile is"):
        profile_of().check_model(ModelFacts("made-up", PRINT, 5, 3, 1, (None,) * 5))
