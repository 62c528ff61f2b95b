"""Schedules in all their forms, and every one that is refused, with its words."""

from __future__ import annotations

import re
from types import MappingProxyType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fewer import BadInput, Keep
from fewer.prune.schedule import (
    PRESETS,
    as_preset,
    find_layer,
    fit_preset,
    list_stops,
    parse_schedule,
    write_schedule,
)
from fewer.types import ModelFacts

WAY_OUT = "Write for example balanced, or stops: 10:70%, 18:50%."
AS_MAPPING = "Write for example {10: 0.7, 18: 0.5}; 1.0 is all of the prompt and 1 is one token."
PAPER = ((10, Keep(fraction=0.7)), (18, Keep(fraction=0.5)), (25, Keep(fraction=0.3)))


@pytest.mark.parametrize(
    "value",
    [
        "10:70%, 18:50%, 25:30%",
        "10:70%,18:50%,25:30%",
        " 10:0.7  18:0.5\n25:0.3 ",
        "25:30%, 10:70%, 18:50%",
        {10: 0.7, 18: "50%", 25: Keep(fraction=0.3)},
        {25: 0.3, 18: 0.5, 10: 0.7},
        {"10": "70%", "18": "0.5", "25": 0.3},
        MappingProxyType({10: 0.7, 18: 0.5, 25: 0.3}),
        PAPER,
        PAPER[::-1],
        ((25, "30%"), (10, 0.7), ("18", 0.5)),
        "10 : 70 %, 18 :50%,25: 30\t%",
        "10:70%,, 18:50%, 25:30%,",
    ],
    ids=str,
)
def test_every_form_is_the_papers_schedule(value: object) -> None:
    assert parse_schedule(value) == PAPER
    assert parse_schedule(parse_schedule(value)) == PAPER


def test_tokens_and_fractions_of_the_depth() -> None:
    assert parse_schedule("2:256, 3:1") == ((2, Keep(tokens=256)), (3, Keep(tokens=1)))
    assert parse_schedule({0.25: 9, 0.5: 0.5}) == ((0.25, Keep(tokens=9)), (0.5, Keep(fraction=0.5)))
    assert parse_schedule("0.9:1.0") == ((0.9, Keep(fraction=1.0)),)
    assert parse_schedule({1: 1}) != parse_schedule({1: 1.0})


@pytest.mark.parametrize("name", PRESETS)
def test_presets_shrink_with_the_depth(name: str) -> None:
    stops = parse_schedule(name)
    assert parse_schedule(f" {name} ") == stops == parse_schedule(PRESETS[name])
    assert parse_schedule(name.upper()) == parse_schedule(name.title()) == stops
    places = [place for place, _ in stops]
    keeps = [keep.fraction for _, keep in stops]
    assert places == sorted(places)
    assert all(isinstance(place, float) and 0 < place < 1 for place in places)
    assert keeps == sorted(keeps, reverse=True)


ANY = "a preset, a text of stops, or a mapping of layers"
PLACE = "a layer, or a fraction of the depth"
BETWEEN = "a whole number, or a fraction between 0 and 1"
BAD = [
    ("brisk", f"schedule is 'brisk'; it must be one of mild, balanced, aggressive, or stops LAYER:KEEP. {WAY_OUT}"),
    ("10:70%, 18", "schedule is '10:70%, 18'; it must be one of mild, balanced, aggressive, or stops LAYER:KEEP"),
    ("", f"schedule is ''; it must be at least one stop. {WAY_OUT}"),
    (" , ", "schedule is ' , '; it must be at least one stop"),
    ({}, "schedule is {}; it must be at least one stop"),
    ((), "schedule is (); it must be at least one stop"),
    (None, f"schedule is None; it must be {ANY}. {WAY_OUT}"),
    (10, f"schedule is 10; it must be {ANY}"),
    ([(10, 0.5)], f"schedule is [(10, 0.5)]; it must be {ANY}"),
    ((10, 0.5), f"schedule is (10, 0.5); it must be {ANY}"),
    (((10, 0.5, 1),), f"schedule is ((10, 0.5, 1),); it must be {ANY}"),
    ("x:50%", f"a layer of the schedule is 'x'; it must be {PLACE}. {WAY_OUT}"),
    (":50%", f"a layer of the schedule is ''; it must be {PLACE}"),
    ("²:50%", f"a layer of the schedule is '²'; it must be {PLACE}"),
    ({None: 0.5}, f"a layer of the schedule is None; it must be {PLACE}. {AS_MAPPING}"),
    ({True: 0.5}, f"a layer of the schedule is True; it must be {PLACE}"),
    ({(1, 2): 0.5}, f"a layer of the schedule is (1, 2); it must be {PLACE}"),
    ({1.0: 0.5}, f"a layer of the schedule is 1.0; it must be {BETWEEN}"),
    ({0.0: 0.5}, f"a layer of the schedule is 0.0; it must be {BETWEEN}"),
    ("-0.5:50%", f"a layer of the schedule is '-0.5'; it must be {BETWEEN}"),
    ("nan:50%", f"a layer of the schedule is 'nan'; it must be {BETWEEN}"),
    ("1e999:50%", f"a layer of the schedule is '1e999'; it must be {BETWEEN}"),
    ({1: 0.5, 0.5: 0.3}, "it must be layers throughout, or fractions of the depth throughout"),
    ("3:50%, 3:50%", f"schedule is '3:50%, 3:50%'; it must be each layer once. {WAY_OUT}"),
    ({3: 0.5, "3": 0.4}, "it must be each layer once"),
    ("2:30%, 3:50%", "what stays after 3 is '50%'; it must be at most 30%, as before. Keep fewer the deeper."),
    ("3:50%, 2:30%", "what stays after 3 is '50%'; it must be at most 30%, as before"),
    ("2:3, 3:4", "what stays after 3 is '4 tokens'; it must be at most 3 tokens, as before"),
    ("2:0", "what stays after 2 is '0'; it must be a whole number of at least 1, or a fraction above 0 and at most 1"),
    ("2:-3", "what stays after 2 is '-3'; it must be a whole number"),
    ("2:0%", "what stays after 2 is '0%'; it must be a whole number"),
    ("2:101%", "what stays after 2 is '101%'; it must be a whole number"),
    ("2:", "what stays after 2 is ''; it must be a whole number"),
    ("2:3:4", "what stays after 2 is '3:4'; it must be a whole number"),
    ("2:nan", "what stays after 2 is 'nan'; it must be a whole number"),
    ({2: None}, "what stays after 2 is None; it must be a whole number"),
    ({2: True}, "what stays after 2 is True; it must be a whole number"),
    ({2: 1.5}, "what stays after 2 is 1.5; it must be a whole number"),
]


@pytest.mark.parametrize(("value", "message"), BAD, ids=[str(value) for value, _ in BAD])
def test_what_is_refused(value: object, message: str) -> None:
    with pytest.raises(BadInput, match=re.escape(message)):
        parse_schedule(value)


@given(
    st.dictionaries(st.integers(1, 40), st.integers(1, 100), min_size=1, max_size=5),
    st.sampled_from([", ", ",", " ", "\n", " , "]),
)
@settings(max_examples=100, deadline=None, derandomize=True)
def test_text_and_mapping_say_the_same(shares: dict[int, int], comma: str) -> None:
    falling = sorted(shares.values(), reverse=True)
    stops = dict(zip(sorted(shares), falling, strict=True))
    expected = parse_schedule({layer: share / 100 for layer, share in stops.items()})
    assert [(layer, round(100 * keep.fraction)) for layer, keep in expected] == list(stops.items())
    assert parse_schedule(comma.join(f"{layer}:{share}%" for layer, share in stops.items())) == expected
    grows = [*falling[:1], *falling[1:-1], falling[-1] + 1] if len(falling) > 1 and falling[-1] == falling[-2] else None
    if grows and grows[-1] <= 100:
        with pytest.raises(BadInput, match="Keep fewer the deeper"):
            parse_schedule({layer: share / 100 for layer, share in zip(stops, grows, strict=True)})


def facts(*windows: int | None) -> ModelFacts:
    return ModelFacts("made up", "0" * 32, len(windows), 2, 1, windows)


def test_stops_that_are_one_layer_are_refused_and_both_are_named() -> None:
    stops = parse_schedule({0.3: 0.5, 0.301: 0.3})
    with pytest.raises(BadInput) as caught:
        list_stops(stops, 30)
    assert str(caught.value) == (
        "schedule is '0.3:50%, 0.301:30%'; it must be of different layers; 0.3 and 0.301 are both layer 9 of 30. "
        "Move one of them, or leave it out."
    )
    assert list_stops(stops, 1000) == {300: Keep(fraction=0.5), 301: Keep(fraction=0.3)}


@given(st.integers(2, 40), st.sampled_from([*PRESETS]), st.lists(st.booleans(), min_size=40, max_size=40))
@settings(max_examples=150, deadline=None, derandomize=True)
def test_a_preset_fits_every_depth(size: int, name: str, slides: list[bool]) -> None:
    here = facts(*(8 if slide else None for slide in slides[:size]))
    stops, written = fit_preset(parse_schedule(name), here), parse_schedule(name)
    keeps = [keep for _, keep in stops]
    assert list_stops(stops, size) == dict(stops)
    assert keeps == [keep for _, keep in written if keep in keeps]
    assert keeps[-1] == written[-1][1]  # where stops fall together, the one that keeps fewer holds
    if legal := [layer for layer in here.global_layers if layer < size]:
        assert {layer for layer, _ in stops} <= set(legal)


@pytest.mark.parametrize(
    ("place", "shown"),
    [
        (0.99, "0.99; it must be the place of one of the layers 1 to 29; of 30 layers it is layer 30. Leave"),
        (30, "30; it must be a whole number from 1 to 29 (the model has 30 layers). Leave tokens out after a layer"),
        (0, "0; it must be a whole number from 1 to 29"),
    ],
)
def test_a_layer_that_the_model_lacks_is_named_as_it_was_written(place: float, shown: str) -> None:
    with pytest.raises(BadInput, match=re.escape(f"a layer of the schedule is {shown}")):
        find_layer(place, 30)


def test_small_fractions_are_the_first_layer() -> None:
    assert [find_layer(place, 30) for place in (0.001, 0.05, 0.5, 0.98, 29)] == [1, 2, 15, 29, 29]


def test_names_of_presets() -> None:
    assert [as_preset(name) for name in (" Balanced\n", "MILD", "brisk", "", "10:70%", None, 3)] == [
        "balanced",
        "mild",
        *[None] * 5,
    ]


def test_schedules_as_people_read_them() -> None:
    assert write_schedule(parse_schedule("0.25:50%, 0.5:9")) == "0.25:50%, 0.5:9 tokens"
    assert write_schedule(parse_schedule(" 10 : 0.7 ")) == "10:70%"
