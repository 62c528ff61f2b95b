"""Schedules in all their forms, and every one that is refused, with its words."""

from __future__ import annotations

import re
from types import MappingProxyType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fewer import BadInput, Keep
from fewer.prune.schedule import PRESETS, parse_schedule

WAY_OUT = "Write for example 'balanced', '10:70%, 18:50%', or {10: 0.7, 18: 0.5}."
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
    ({None: 0.5}, f"a layer of the schedule is None; it must be {PLACE}"),
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
    ("2:0", "keep is '0'; it must be a whole number of at least 1, or a fraction above 0 and at most 1"),
    ("2:-3", "keep is '-3'; it must be a whole number"),
    ("2:0%", "keep is '0%'; it must be a whole number"),
    ("2:101%", "keep is '101%'; it must be a whole number"),
    ("2:", "keep is ''; it must be a whole number"),
    ("2:3:4", "keep is '3:4'; it must be a whole number"),
    ("2:nan", "keep is 'nan'; it must be a whole number"),
    ({2: None}, "keep is None; it must be a whole number"),
    ({2: True}, "keep is True; it must be a whole number"),
    ({2: 1.5}, "keep is 1.5; it must be a whole number"),
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
