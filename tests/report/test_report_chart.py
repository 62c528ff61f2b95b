"""Pictures: what is drawn where, that it can be read on both grounds, and that the files are the same each time."""

from __future__ import annotations

import itertools
import re
import struct
import warnings
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fewer.report.chart.axis import fit_axis, fit_text, spread
from fewer.report.chart.heat import Cell, plot_heat, plot_scale
from fewer.report.chart.inline import write_svg
from fewer.report.chart.mark import Bar, Dot, Figure, Label, Line, Panel, measure
from fewer.report.chart.paint import paint
from fewer.report.chart.palette import DARK, LIGHT, NUM_SERIES, SHAPES, heat_text, tone_of
from fewer.report.chart.rows import Row, plot_rows
from fewer.report.chart.xy import Level, Point, Series, plot_xy

UNIT = st.floats(0, 1)


def luminance(colour):
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(first, second):
    light, dark = sorted((luminance(first), luminance(second)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def mix(low, high, share):
    pairs = [(int(low[place : place + 2], 16), int(high[place : place + 2], 16)) for place in (1, 3, 5)]
    return "#" + "".join(f"{round(a + (b - a) * share):02x}" for a, b in pairs)


@pytest.mark.parametrize("ground", [LIGHT, DARK])
def test_texts_and_series_have_contrast_on_the_card_and_the_page(ground):
    for tone in ("ink", "muted", *(tone_of(number) for number in range(NUM_SERIES))):
        assert contrast(ground[tone], ground["card"]) >= 4.5
        assert contrast(ground[tone], ground["page"]) >= 4.5


@pytest.mark.parametrize("ground", [LIGHT, DARK])
def test_numbers_on_heat_have_contrast_at_every_value(ground):
    for step in range(1001):
        under = mix(ground["cell"], ground["heat"], step / 1000)
        assert contrast(ground[heat_text(step / 1000)], under) >= 4.4


def test_series_differ_in_shape_and_not_by_colour_alone():
    assert len(set(SHAPES)) == NUM_SERIES
    assert LIGHT.keys() == DARK.keys()


@given(st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=20), st.integers(2, 9))
@settings(deadline=None, max_examples=60)
def test_an_axis_holds_its_values_between_round_ticks(values, count):
    axis = fit_axis("x", values, count=count)
    rounding = 1e-8 * (axis.high - axis.low)
    assert axis.low <= min(values) + rounding
    assert axis.high >= max(values) - rounding
    assert 2 <= len(axis.ticks) <= count + 3
    assert len(set(axis.names)) == len(axis.names) == len(axis.ticks)
    steps = [b - a for a, b in itertools.pairwise(axis.ticks)]
    assert max(steps) - min(steps) <= 1e-6 * max(steps) + 1e-9


def test_an_axis_stays_within_its_ends_and_cuts_what_lies_beyond():
    axis = fit_axis("score", [-6.2, 0.5, 7.1], within=(0, 1))
    assert (axis.low, axis.high) == (0.0, 1.0)
    assert axis.names == ("0.0", "0.2", "0.4", "0.6", "0.8", "1.0")
    assert axis.place(7.1, 0, 100) == 100.0
    assert axis.place(-6.2, 0, 100) == 0.0
    assert fit_axis("kept", (), include=(0, 1), percent=True).names == ("0%", "20%", "40%", "60%", "80%", "100%")
    assert fit_axis("small", [-0.025, 0.025], count=2).names == ("−0.025", "0.000", "0.025")


@given(st.lists(st.floats(0, 200), min_size=1, max_size=12))
@settings(deadline=None, max_examples=80)
def test_labels_are_pushed_apart_inside_and_keep_their_order(places):
    moved = spread(places, 13, 0, 200)
    assert all(-1e-6 <= place <= 200 + 1e-6 for place in moved)
    ordered = sorted(moved)
    gap = min(13, 200 / max(1, len(places) - 1))
    assert all(b - a >= gap - 1e-6 for a, b in itertools.pairwise(ordered))
    for (a, x), (b, y) in itertools.combinations(zip(places, moved, strict=True), 2):
        assert (a < b) <= (x < y)


def test_texts_are_cut_to_their_room():
    assert fit_text("full", 80) == "full"
    long = fit_text("static layer=10 grain=chunk", 80)
    assert long.endswith("…")
    assert measure(long) <= 80
    assert fit_text("a\x00b\nc", 99) == "a\ufffdb c"


def make_xy(label="static", **level):
    x_axis, y_axis = fit_axis("kept", (), include=(0, 1), percent=True), fit_axis("score", (), include=(0, 1))
    series = [Series(0, label, (Point(0.25, 0.4, 0.3, 0.5, "tip one"), Point(0.5, 0.6, 0.5, 0.7, "tip two")))]
    return plot_xy("questions", x_axis, y_axis, series, [Level("full", 0.8, 0.75, 0.85, **level)])


def test_points_lie_where_their_numbers_are_and_carry_their_words():
    panel = make_xy()
    dots = [mark for mark in panel.marks if isinstance(mark, Dot)]
    assert [dot.tip for dot in dots] == ["tip one", "tip two"]
    assert dots[0].x < dots[1].x
    assert dots[0].y > dots[1].y
    bars = [mark for mark in panel.marks if isinstance(mark, Line) and mark.tip == "tip one"]
    low, high = (point[1] for point in bars[0].points)
    assert high < dots[0].y < low
    assert (low + high) / 2 == pytest.approx(dots[0].y)
    assert {mark.series for mark in dots} == {0}


def test_every_series_and_level_is_named_in_the_picture():
    texts = [mark.text for mark in make_xy().marks if isinstance(mark, Label)]
    assert "static" in texts
    assert "full" in texts
    assert {"kept", "score", "0%", "100%"} <= set(texts)


def test_rows_write_their_number_and_the_comparison():
    axis = fit_axis("AUC", (), include=(0, 1))
    panel = plot_rows("keep 25%", axis, [Row("static", 2, 0.7, 0.6, 0.8, (0.65, 0.75), "0.70", "tip")], (0.5, "chance"))
    dot = next(mark for mark in panel.marks if isinstance(mark, Dot))
    box = next(mark for mark in panel.marks if isinstance(mark, Bar))
    assert box.x < dot.x < box.x + box.width
    assert dot.shape == SHAPES[2]
    assert "0.70" in [mark.text for mark in panel.marks if isinstance(mark, Label)]
    assert any(isinstance(mark, Line) and mark.tip == "chance" and mark.dashed for mark in panel.marks)


def test_a_heat_map_writes_every_number_with_its_n_and_leaves_holes_open():
    panel = plot_heat("static", ("tokens", ["512", "1,024"]), ("depth", ["0", "1"]), {(0, 1): Cell(0.25, 7, "tip")})
    texts = [mark.text for mark in panel.marks if isinstance(mark, Label)]
    assert "0.25" in texts
    assert "n 7" in texts
    assert texts.count("–") == 3
    shade = [mark for mark in panel.marks if isinstance(mark, Bar) and mark.tone == "heat"]
    assert [mark.opacity for mark in shade] == [0.25]


def test_svg_is_well_formed_and_escapes_every_text():
    nasty = '"><script>alert(1)</script>&amp;'
    panel = Panel(nasty, 380, 250, (*make_xy(nasty).marks, Bar(0, 0, 1, 1, "s0", 0.5, 3, nasty)), nasty)
    svg = ElementTree.fromstring(write_svg(panel))
    assert svg.get("aria-label") == f"{nasty}: {nasty}"
    assert {element.tag for element in svg.iter()} <= {"svg", "text", "title", "polyline", "rect", "circle", "polygon"}
    assert nasty in [element.text for element in svg.iter("title")]
    assert any("k3" in (element.get("class") or "").split() for element in svg.iter())


def test_files_are_the_same_each_time_and_hold_all_panels():
    heat = plot_heat("a", ("tokens", ["1"]), ("depth", ["0"]), {(0, 0): Cell(1.0, 3)})
    figure = Figure("name", "A title", "caption", (make_xy(), heat, plot_scale("score")), notes=("A note. " * 40,))
    first, second = paint(figure, ("png", "svg")), paint(figure, ("png", "svg"))
    assert first == second
    assert first["png"].startswith(b"\x89PNG")
    width, height = struct.unpack(">II", first["png"][16:24])
    assert width == 2 * (16 + 430 + 22 + 380 + 16)
    assert height > 2 * 250
    text = first["svg"].decode()
    root = ElementTree.fromstring(text)
    assert root.tag.endswith("svg")
    for words in ("A title", "questions", "n 3", "full"):
        assert f">{words}<" in text
    assert "<dc:date>" not in text
    assert not re.search(r'href="(?!#)', text)


def test_names_in_any_letters_and_signs_make_files_without_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        files = paint(Figure("n", "$x_1$ 見 \x00 <b>", "c", (make_xy("$\\frac$ 見"),)), ("png", "svg"))
    assert "$x_1$" in files["svg"].decode()
    ElementTree.fromstring(files["svg"].decode())
