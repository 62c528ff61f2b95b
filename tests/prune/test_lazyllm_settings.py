"""LazyLLM's settings: every one it refuses and with what words, presets on models with windows, what receipts say."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
import torch

from fewer import BadInput, Keep, LazyLLM, Prompt
from fewer.prune import make_planner
from fewer.types import ModelFacts

L = 6


def lazy(schedule: object, **settings: object) -> LazyLLM:
    return LazyLLM(schedule, **{"shortest": 0, "profile": None, **settings})


def facts(*windows: int | None) -> ModelFacts:
    return ModelFacts("made up", "0" * 32, len(windows), 2, 1, windows)


def test_stops_in_layers_with_windows_are_refused() -> None:
    planner = replace(lazy({2: 5}), facts=facts(None, 8, None, 8))
    planner.check(Prompt.from_ids(range(8)))
    with pytest.raises(BadInput) as caught:
        planner.check(Prompt.from_ids(range(9)))
    legal = "a layer of the schedule is 2; it must be a layer without a sliding window (1, 3). "
    assert str(caught.value) == legal + "Layer 2 sees 8 positions and the prompt has 9."
    with pytest.raises(BadInput, match=r"a layer without a sliding window \(there is none\)"):
        replace(lazy({2: 5}), facts=facts(8, 8, 8)).check(Prompt.from_ids(range(9)))
    replace(lazy({3: 5}), facts=facts(None, 8, None, 8)).check(Prompt.from_ids(range(9)))


def test_presets_move_to_the_nearest_layer_that_sees_everything() -> None:
    every_sixth = tuple(None if layer % 6 == 0 else 512 for layer in range(1, 27))
    fitted = lazy("balanced").fitted(facts(*every_sixth))  # 0.6 and 0.73 of 26: 16 and 19
    assert fitted.layers(26) == (18,)  # both: the later one holds
    assert fitted.keeps(26) == {18: Keep(fraction=0.1)}
    assert lazy("balanced").fitted(facts(*(None,) * 30)).layers(30) == (18, 22)
    assert lazy("aggressive").fitted(facts(None, None)).layers(2) == (1,)
    assert lazy({2: 5}).fitted(facts(None, 8, None, 8)).layers(4) == (2,)  # others are not moved


def test_budgets_that_a_prompt_cannot_meet() -> None:
    prompt = Prompt.from_ids(range(10))
    lazy({1: 10, 2: "100%"}).check(prompt)
    with pytest.raises(BadInput, match="what stays after 1 is 11; it must be at most 10, the prompt's tokens"):
        lazy({1: 11}).check(prompt)
    mixed = lazy({1: "20%", 2: 3})
    with pytest.raises(BadInput) as caught:
        mixed.check(prompt)
    assert str(caught.value) == (
        "what stays after 2 is '3 tokens (3 tokens)'; it must be at most the 2 tokens of the stop before. "
        "Keep fewer the deeper."
    )
    mixed.check(Prompt.from_ids(range(15)))


@pytest.mark.parametrize(("schedule", "layer"), [({0: 5}, 0), ({-1: 5}, -1), ({6: 5}, 6), ("3:9,99:5", 99)])
def test_layers_that_a_model_lacks(schedule: object, layer: int) -> None:
    with pytest.raises(BadInput, match=f"a layer of the schedule is {layer}; it must be a whole number from 1 to 5 "):
        lazy(schedule).layers(L)


def test_layers_scale_with_the_depth() -> None:
    assert lazy("aggressive").layers(30) == (10, 18, 25)
    assert lazy("aggressive").layers(4) == (1, 2, 3)
    assert lazy({3: 5, 1: 9}).layers(4) == (1, 3)


def test_descriptions() -> None:
    assert LazyLLM(shortest=9).describe() == {
        "preset": "balanced",
        "schedule": "balanced",
        "aux": "keep",
        "selection": "per_step",
        "revive_limit": 16,
        "revive_floor": 1.0,
        "shortest": 9,
        "profile": "auto",
    }
    off = lazy({3: 5, 1: "50%"}, revive=False).describe()
    assert (off["schedule"], off["aux"], off["profile"]) == ("1:50%, 3:5 tokens", "off", "none")
    assert (off["revive_limit"], off["revive_floor"]) == (None, None)
    once = lazy("0.25:50%", selection="prefill", revive_limit=None).describe()
    assert (once["schedule"], once["revive_limit"], once["revive_floor"]) == ("0.25:50%", None, None)
    assert off["preset"] is None
    for name in ("mild", " MILD"):
        mild = lazy(name).fitted(facts(*(None,) * 10)).describe()
        assert (mild["preset"], mild["schedule"]) == ("mild", "7:30%, 8:10%")
    shallow = lazy("balanced").fitted(facts(None, None, None)).describe()
    assert (shallow["preset"], shallow["schedule"]) == ("balanced", "2:10%")  # what holds: its stops are one layer here


def test_what_it_needs_to_see() -> None:
    assert LazyLLM().needs == "last_query"
    assert lazy("mild").fitted(facts(*(None,) * 10)).needs == "last_query"


NAN, INF = float("nan"), float("inf")
BAD = [
    ({"aux": "maybe"}, "aux is 'maybe'; it must be one of keep, recompute, off. Leave it out to keep the states."),
    ({"aux": True}, "aux is True; it must be one of keep, recompute, off."),
    ({"aux": ["keep"]}, "aux is ['keep']; it must be one of"),
    ({"selection": "once"}, "selection is 'once'; it must be per_step or prefill. Leave it out to choose at every"),
    ({"selection": None}, "selection is None; it must be per_step or prefill."),
    ({"revive": 1}, "revive is 1; it must be True or False. Leave it out to bring tokens back."),
    ({"revive": "no"}, "revive is 'no'; it must be True or False."),
    ({"revive_limit": 0}, "revive_limit is 0; it must be a whole number of at least 1. Use None for no limit."),
    ({"revive_limit": 1.5}, "revive_limit is 1.5; it must be a whole number"),
    ({"revive_limit": True}, "revive_limit is True; it must be a whole number"),
    ({"revive_floor": -0.1}, "revive_floor is -0.1; it must be a number of at least 0. Use 0 to bring back all that"),
    ({"revive_floor": NAN}, "revive_floor is nan; it must be a number"),
    ({"revive_floor": None}, "revive_floor is None; it must be a number"),
    ({"revive_floor": "1"}, "revive_floor is '1'; it must be a number"),
    (
        {"shortest": -1},
        "shortest is -1; it must be a whole number of at least 0. Use 0 to prune prompts",
    ),
    ({"shortest": 2.0}, "shortest is 2.0; it must be a whole number"),
    ({"profile": 5}, "profile is 5; it must be auto, none, or a profile's file. Leave it out for auto."),
    ({"profile": ""}, "profile is ''; it must be auto, none, or a profile's file. Leave it out for auto."),
    ({"profile": " "}, "profile is ' '; it must be auto, none"),
    ({"schedule_name": "mild"}, "schedule_name is 'mild'; it must be left out before fitted. Give the preset as"),
    ({"profile": {}}, "profile is {}; it must be auto, none, or a profile's file."),
]


@pytest.mark.parametrize(("wrong", "message"), BAD, ids=[str(wrong) for wrong, _ in BAD])
def test_settings_that_are_refused(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(BadInput, match=re.escape(message)):
        LazyLLM(**wrong)


def test_by_its_name() -> None:
    planner = make_planner("lazyllm", keep="2:50%", aux="off", profile="none")
    assert (planner.name, planner.layers(4), planner.aux, planner.profile) == ("lazyllm", (2,), "off", None)
    assert make_planner("lazyllm") == LazyLLM()
    with pytest.raises(BadInput, match="the setting layer of lazyllm is 3; it must be one of keep, aux, selection"):
        make_planner("lazyllm", layer=3)


def test_an_endless_floor_is_refused() -> None:
    for value in (float("inf"), float("nan")):
        with pytest.raises(BadInput, match="revive_floor is"):
            LazyLLM("balanced", revive_floor=value)


def test_a_prompt_that_is_run_whole_may_be_shorter_than_the_budget() -> None:
    prompt = Prompt.from_ids(torch.arange(40))
    LazyLLM({1: 100}).check(prompt)
    with pytest.raises(BadInput, match="what stays after 1 is 100; it must be at most 40"):
        LazyLLM({1: 100}, shortest=0).check(prompt)


def test_absurd_layers_are_refused_at_once() -> None:
    for layer in (10**400, -(10**400)):
        with pytest.raises(BadInput, match="a layer of the schedule"):
            LazyLLM({layer: 5})


def test_limits_of_what_never_comes_back_are_refused() -> None:
    for settings in ({"revive_limit": 3}, {"revive_limit": None}, {"revive_floor": 0.5}):
        with pytest.raises(BadInput, match="left out where nothing comes back"):
            LazyLLM("balanced", aux="off", **settings)
    with pytest.raises(BadInput, match=r"revive_floor is 0\.5; it must be left out"):
        LazyLLM("balanced", selection="prefill", revive_floor=0.5)
    assert LazyLLM("balanced", selection="prefill", revive_limit=3).revive_limit == 3


def test_a_profile_may_be_none_in_words() -> None:
    for word in ("none", " None "):
        assert LazyLLM(profile=word) == LazyLLM(profile=None)
        assert make_planner("lazyllm", profile=word) == LazyLLM(profile=None)
    assert LazyLLM(profile="AUTO") == LazyLLM()


def test_stops_that_are_one_layer_are_refused_before_anything_runs() -> None:
    together = lazy({0.3: 0.5, 0.301: 0.3})
    for ask in (lambda: together.layers(30), lambda: together.fitted(facts(*(None,) * 30))):
        with pytest.raises(
            BadInput, match=r"schedule is '0\.3:50%, 0\.301:30%'; it must be of different layers; 0\.3 and"
        ):
            ask()
    with pytest.raises(BadInput, match=r"0\.5 and 0\.52 are both layer 2 of 4"):
        lazy("0.5:50%, 0.52:20%").keeps(4)


@pytest.mark.parametrize(("schedule", "shown"), [({0.99: 0.5}, "0.99"), ({30: 0.5}, "30"), ("0.984:9", "0.984")])
def test_a_layer_is_refused_as_it_was_written(schedule: object, shown: str) -> None:
    with pytest.raises(BadInput, match=re.escape(f"a layer of the schedule is {shown}; it must be ")):
        lazy(schedule).fitted(facts(*(None,) * 30))


def test_a_fraction_in_a_window_is_named_as_it_was_written() -> None:
    planner = lazy("0.5:5").fitted(facts(None, 8, None, 8))
    with pytest.raises(BadInput, match=re.escape("a layer of the schedule is 0.5; it must be a layer without")):
        planner.check(Prompt.from_ids(range(9)))


def test_unknown_settings_point_at_the_nearest_one() -> None:
    for wrong, near in (("kep", "keep"), ("schedule", "keep"), ("revive_limt", "revive_limit")):
        with pytest.raises(BadInput, match=rf"the setting {wrong} of lazyllm is 3; .* Did you mean {near}\?"):
            make_planner("lazyllm", **{wrong: 3})
    for internal in ("facts", "schedule_name"):
        with pytest.raises(BadInput, match=f"the setting {internal} of lazyllm"):
            make_planner("lazyllm", **{internal: None})
    with pytest.raises(TypeError, match="scheduel"):
        LazyLLM(scheduel="mild")


def test_by_its_name_the_schedule_is_called_keep() -> None:
    with pytest.raises(BadInput, match=r"^keep is 'brisk'; it must be one of mild, balanced, aggressive"):
        make_planner("lazyllm", keep="brisk")
    with pytest.raises(BadInput, match=r"^schedule is 'brisk'; it must be one of mild, balanced, aggressive"):
        LazyLLM("brisk")
    with pytest.raises(BadInput, match=r"^aux is 'x'"):
        make_planner("lazyllm", keep="mild", aux="x")
