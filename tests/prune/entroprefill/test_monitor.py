"""Which layers and heads are watched: all ways to write it, what a model does not have, and layers with windows."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fewer import BadInput, ModelFacts
from fewer.prune.entroprefill.monitor import fit_monitor, parse_monitor, write_monitor


def facts(num_layers: int = 10, heads: int = 4, windows: dict[int, int] | None = None) -> ModelFacts:
    sizes = tuple((windows or {}).get(layer) for layer in range(1, num_layers + 1))
    return ModelFacts("made up", "0" * 32, num_layers, heads, 2, sizes)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("8:3, 5:all", {5: (0, 1, 2, 3), 8: (3,)}),
        ("8:3 5:all", {5: (0, 1, 2, 3), 8: (3,)}),
        ("8:3+1", {8: (1, 3)}),
        ("8", {8: (0, 1, 2, 3)}),
        (8, {8: (0, 1, 2, 3)}),
        (0.5, {5: (0, 1, 2, 3)}),
        ("2-4:1", {2: (1,), 3: (1,), 4: (1,)}),
        ("0.2-0.4:1", {2: (1,), 3: (1,), 4: (1,)}),
        ("0.2-3:1", {2: (1,), 3: (1,)}),
        ({8: [3], 5: "all"}, {5: (0, 1, 2, 3), 8: (3,)}),
        ({"8": 3, "2-3": "0+1"}, {2: (0, 1), 3: (0, 1), 8: (3,)}),
        ({0.5: None}, {5: (0, 1, 2, 3)}),
        ([5, 8], {5: (0, 1, 2, 3), 8: (0, 1, 2, 3)}),
        ((5, "7-8"), {5: (0, 1, 2, 3), 7: (0, 1, 2, 3), 8: (0, 1, 2, 3)}),
        ("5:1, 4-6:2", {4: (2,), 5: (1, 2), 6: (2,)}),
        ("5:1+1+1", {5: (1,)}),
        ("5:4.2+1", {5: (1, 40_002)}),  # head 2 of layer 4, beside its own
        ("5:5.2+1", {5: (1, 2)}),
        ({5: ["4.2", 1], 8: "3.0"}, {5: (1, 40_002), 8: (30_000,)}),
        (" 8 : 3 + 1 , 5: all", {5: (0, 1, 2, 3), 8: (1, 3)}),
        ({8: "3 + 1"}, {8: (1, 3)}),
        ("5:2.3+1", {5: (1, 20003)}),  # head 3 of layer 2 as well
        ("5:5.3+1", {5: (1, 3)}),
        ({5: ["2.3", 1]}, {5: (1, 20003)}),
    ],
    ids=str,
)
def test_ways_to_write_it(written: Any, expected: dict[int, tuple[int, ...]]) -> None:
    parsed = parse_monitor(written)
    assert fit_monitor(parsed, facts()) == expected
    assert list(fit_monitor(parsed, facts())) == sorted(expected)
    assert parse_monitor(parsed) == parsed
    assert parse_monitor(write_monitor(parsed)) == parsed


PLACES = st.integers(1, 60) | st.integers(1, 999).map(lambda share: share / 1000)
HEADS = st.none() | st.sets(st.integers(0, 60), min_size=1).map(lambda heads: tuple(sorted(heads)))


@given(st.lists(st.tuples(PLACES, PLACES, HEADS), min_size=1, max_size=4).map(tuple))
def test_what_is_written_is_read_again(monitor: Any) -> None:
    assert parse_monitor(write_monitor(monitor)) == parse_monitor(monitor) == monitor


@pytest.mark.parametrize(
    "written",
    [
        *(
            "",
            ",",
            "8:",
            ":7",
            "x",
            "8:x",
            "8:1+",
            "8-",
            "-8",
            "8-9-10",
            "8:7:6",
            "8 : 7 :",
            "8 : 1 + ",
            "0",
            "1.0",
            "1.5",
            "nan",
        ),
        *(
            {},
            [],
            (),
            None,
            True,
            [True],
            {8: []},
            {8: True},
            {8: [1.5]},
            {8: [-1]},
            {8: [10_000]},
            {8: "0.1"},
            {8: "7."},
            {8: ".7"},
            {8: {"a": 1}},
        ),
        *({None: "all"}, {8.5: "all"}, {0: [1]}, {-1: [1]}, [0.0], [1.0], [math.nan], [math.inf], b"8", "²:1", "8:²"),
        *((((1, 2, 3), (1, 2, 3), None),), {(1, 2, 3): "all"}, 0, -1, 1.0, math.nan),
    ],
    ids=repr,
)
def test_what_cannot_be_read(written: Any) -> None:
    with pytest.raises(BadInput, match="monitor"):
        parse_monitor(written)


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("10:all", r"monitor is '10'; it must be layers from 1 to 9 \(the model has 10; pruning needs one behind it\)"),
        ("8-10:all", "monitor is '8-10'; it must be layers from 1 to 9"),
        ("11:all", "monitor is '11'"),
        ("8-7:all", "a span of monitor is '8-7'; it must be from A to B with A before B. "),
        (
            "0.8-0.5:all",
            r"a span of monitor is '0\.8-0\.5'; it must be from A to B with A before B \(here it is 8 to 5\)",
        ),
        ("8:4", "a head of monitor is 4; it must be from 0 to 3"),
        ("8:0+17", "a head of monitor is 17; it must be from 0 to 3"),
        ("8:7.4", "a head of monitor is 4; it must be from 0 to 3"),
        ("8:9.1", r"a head of monitor is '9\.1'; it must be of a layer up to 8, the watched one"),
    ],
)
def test_what_the_model_does_not_have(written: str, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        fit_monitor(parse_monitor(written), facts())


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        (548.7, "In YAML put it in quotes: 9:8.7 without them is read as 548.7."),
        (967, "In YAML put it in quotes: 16:7 without them is read as 967."),
        ([967], "In YAML put it in quotes: 16:7 without them is read as 967."),
    ],
    ids=str,
)
def test_what_yaml_made_of_a_layer_and_a_head(value: Any, hint: str) -> None:
    with pytest.raises(BadInput, match="monitor is ") as caught:
        fit_monitor(parse_monitor(value), facts())
    assert str(caught.value).endswith(hint)
    for other in (1.5, 11, "11:all"):
        with pytest.raises(BadInput) as caught:
            fit_monitor(parse_monitor(other), facts())
        assert "YAML" not in str(caught.value)


@pytest.mark.parametrize("num_layers", range(2, 40))
def test_fractions_are_layers_with_one_behind_them(num_layers: int) -> None:
    for written in ("0.001", "0.999", "0.1-0.9:all", "0.53-0.8:all"):
        found = list(fit_monitor(parse_monitor(written), facts(num_layers)))
        assert 1 <= found[0] <= found[-1] < num_layers
        assert found == list(range(found[0], found[-1] + 1))
    assert list(fit_monitor(parse_monitor("0.5"), facts(30))) == [15]


def test_a_model_of_one_layer_has_none() -> None:
    for written in ("0.5", "1", "0.1-0.9"):
        with pytest.raises(BadInput, match="pruning needs one behind it"):
            fit_monitor(parse_monitor(written), facts(1))


def test_layers_with_windows_are_left_out_of_spans_and_refused_by_name() -> None:
    mixed = facts(6, windows={1: 512, 3: 512, 5: 512})
    assert list(fit_monitor(parse_monitor("1-5:2"), mixed)) == [2, 4]
    assert fit_monitor(parse_monitor("0.1-0.9:all, 2:1"), mixed)[2] == (0, 1, 2, 3)
    legal = r"a layer of monitor is 3; it must be a layer without a sliding window \(2, 4, 6\)"
    with pytest.raises(BadInput, match=legal):
        fit_monitor(parse_monitor("2, 3:all"), mixed)
    with pytest.raises(BadInput, match=legal):
        fit_monitor(parse_monitor("0.5:all"), mixed)
    with pytest.raises(BadInput, match=r"monitor is '0\.4-0\.5:all'; it must be a span with a layer"):
        fit_monitor(parse_monitor("0.4-0.5:all"), facts(6, windows={2: 9, 3: 9}))
    with pytest.raises(BadInput, match=r"without a sliding window \(none\)"):
        fit_monitor(parse_monitor("2"), facts(3, windows={1: 9, 2: 9, 3: 9}))
