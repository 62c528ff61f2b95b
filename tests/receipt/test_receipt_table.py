"""The terminal table: what it says, and that it fits."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from fewer.receipt import Receipt
from fewer.receipt.summary import describe_policy, describe_pruning
from fewer.receipt.table import draw_marks
from fewer.receipt.units import clip, format_bytes, format_seconds, format_share


def show(receipt: Receipt, width: int = 100, encoding: str = "utf-8") -> str:
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding=encoding)
    Console(file=file, width=width, color_system=None).print(receipt.to_table())
    file.flush()
    return raw.getvalue().decode(encoding)


def test_says_what_was_left_out(make):
    text = show(make(kept=lambda number, tokens, layer: tokens if layer <= 2 else tokens // 4))
    assert "120 tokens: 20 protected, 100 in 2 chunks" in text
    assert "474 of 774 token-layers; 38.8% skipped" in text
    assert "after layer 2: 45 went deeper, 75 did not" in text
    assert "first token 500 ms, then 18 ms a token; total 1.42 s" in text
    assert "none; nothing is claimed about the tokens left out" in text
    assert "no token was left out" not in text
    said = " ".join(text.split())
    assert "355.5 KiB in use, a full run 580.5 KiB (computed); 391.5 KiB held with the rows reserved" in said
    assert "method lazyllm; keep 50%" in said


def test_a_full_run_says_so(facts, evict):
    assert "(no token was left out)" in show(Receipt.model_validate(facts()))
    assert "no token was left out" not in show(Receipt.model_validate(evict(facts())))


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("num_layers", [1, 30, 80])
@pytest.mark.parametrize("chunks", [(), (("one", 9),), [(f"{i} " + "long title " * 20, 1000 + i) for i in range(200)]])
def test_fits(make, width, num_layers, chunks):
    text = show(make(chunks=chunks, num_layers=num_layers), width)
    assert max(map(len, text.splitlines())) <= width
    if len(chunks) == 200:
        assert "189 more" in text
    if chunks:
        assert "█" in text


def test_many_plans_are_counted(make):
    text = show(make(num_layers=12, kept=lambda number, tokens, layer: tokens - layer))
    assert "and 8 more plans" in text


def test_user_text_is_not_markup_and_cannot_steer_the_terminal(make):
    text = show(make(chunks=[("[red]x[/red]", 3), ("a\x1b[2Jb\r\nc\u202ed", 3), ("", 2)]))
    assert "[red]x[/red]" in text
    assert "\x1b" not in text
    assert "\r" not in text
    assert "a\ufffd[2Jb c\ufffdd" in text
    assert "chunk 3" in text


def test_ascii_terminal(make):
    text = show(make(chunks=[("灯台", 8)], kept=lambda number, tokens, layer: 8 if layer < 3 else 4), 60, "ascii")
    assert "??" in text
    assert "884444" in text


def test_bypass_and_claim_are_shown(facts):
    plain = facts(num_layers=2)
    plain["bypass"] = ["the prompt is shorter than the window"]
    plain["certificate"] |= {
        "kind": "bound",
        "radius": 0.5,
        "assumptions": ["sums are exact"],
        "says": "error below it",
    }
    text = show(Receipt.model_validate(plain))
    assert "not pruned  the prompt is shorter than the window" in text
    assert "bound, 0.5: error below it" in text
    assert "if sums are exact" in text


def test_marks_show_none_only_for_none():
    assert draw_marks([100, 50, 1, 0], 100, 18) == "█▄▁·"
    assert draw_marks([100, 100, 0, 0, 0], 100, 3) == "█··"
    assert draw_marks([0, 0], 0, 18) == "··"


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (format_seconds(None), "-"),
        (format_seconds(0.0), "0 ms"),
        (format_seconds(0.00042), "0.4 ms"),
        (format_seconds(0.0181), "18 ms"),
        (format_seconds(0.9996), "1.00 s"),
        (format_seconds(125.2), "125 s"),
        (format_bytes(0), "0 B"),
        (format_bytes(1023), "1,023 B"),
        (format_bytes(1024), "1.0 KiB"),
        (format_bytes(1024**2 - 1), "1.0 MiB"),
        (format_bytes(5 * 1024**4), "5.0 TiB"),
        (format_share(0, 0), "-"),
        (format_share(0, 9), "0%"),
        (format_share(9, 9), "100%"),
        (format_share(1, 10_000), "<0.1%"),
        (format_share(9_999, 10_000), ">99.9%"),
        (format_share(1, 3), "33.3%"),
        (clip(" a \n b\t", 10), "a b"),
        (clip("abcdef", 4), "abc…"),
        (clip("x\x00y", 4), "x\ufffdy"),
    ],
)
def test_numbers_as_people_read_them(shown, expected):
    assert shown == expected


@pytest.mark.parametrize("width", [60, 80, 120])
def test_what_came_back_at_each_step(facts, bring_back, width):
    plain = bring_back(facts(kept=lambda number, tokens, layer: tokens - layer), [16, 0, 8, 1])
    text = show(Receipt.model_validate(plain), width)
    assert "█·▄▁ one mark for 1 step; highest: 16" in text
    assert "8.41 one mark for 1 step; highest: 16" in show(Receipt.model_validate(plain), width, "ascii")
    said = " ".join(text.split())
    assert (
        "revived 25 tokens came back in 4 steps, at most 16 at one; 0 token-layers for them; 2.0 KiB of states" in said
    )
    assert "held; a step saw 45 to 61 prompt tokens above the last stop" in said
    long = show(Receipt.model_validate(bring_back(facts(), [1, 3] * 100)), width)
    assert f"one mark for {12 if width == 60 else 6} steps; highest: 3" in " ".join(long.split())
    assert max(map(len, long.splitlines())) <= width


def test_nothing_that_came_back_has_no_marks(facts, bring_back):
    off = " ".join(show(Receipt.model_validate(bring_back(facts(), [0, 0], "off"))).split())
    assert "revived nothing comes back (aux off), in 2 steps; a step saw 45 prompt tokens above the last stop" in off
    assert "one mark for 1 step" not in off


def test_bytes_are_named_only_where_some_were_freed(facts):
    plain = facts(kept=lambda number, tokens, layer: tokens if layer < 3 else tokens // 2)
    assert "went deeper, 50 did not; 75.0 KiB freed (lowest" in " ".join(show(Receipt.model_validate(plain)).split())
    plain["plans"][0]["released_bytes"] = 0
    assert "went deeper, 50 did not (lowest" in " ".join(show(Receipt.model_validate(plain)).split())


@pytest.mark.parametrize(
    ("prune", "says"),
    [
        (
            {
                "name": "lazyllm",
                "preset": "mild",
                "schedule": "8:55%",
                "profile": "M (ab)",
                "aux": "off",
                "shortest": 9,
            },
            "lazyllm mild, here 8:55%; profile M (ab); aux off",
        ),
        ({"name": "lazyllm", "preset": "mild", "schedule": "mild"}, "lazyllm mild"),
        ({"name": "lazyllm", "preset": None, "schedule": "3:9 tokens"}, "lazyllm 3:9 tokens"),
        ({"name": "static", "keep": "40%", "layer": 2, "grain": "chunk"}, "static; keep 40%; layer 2; grain chunk"),
        ({"name": "random", "keep": "9 tokens", "layer": None}, "random; keep 9 tokens"),
        ({"name": "entroprefill", "preset": "paper", "profile": "none"}, "entroprefill; profile none; preset paper"),
        ({}, ""),
    ],
)
def test_methods_in_a_line(prune, says):
    assert describe_pruning(prune) == says


def test_an_audits_bound_and_a_gap_have_names_and_units(facts):
    plain = facts(kept=lambda number, tokens, layer: tokens if layer < 3 else tokens // 2)
    plain["plans"][0] |= {"bound": 0.05628, "dual_gap": 123.6}
    shown = " ".join(show(Receipt.model_validate(plain)).split())
    assert "; audit bound 0.05628; dual gap 124 tokens" in shown
    plain["plans"][0] |= {"bound": None, "dual_gap": None}
    shown = " ".join(show(Receipt.model_validate(plain)).split())
    assert "audit bound" not in shown
    assert "dual gap" not in shown


@pytest.mark.parametrize("width", [60, 80, 120])
def test_what_was_evicted_and_what_that_may_have_cost(facts, evict, certify, width):
    plain = certify(evict(facts(), turns=6), [0.2, 0.05, 0.1, 0.0])
    text = show(Receipt.model_validate(plain), width)
    said = " ".join(text.split())
    assert "policy systematic:question; budget 25%; heads adaptive; hajek" in said
    assert (
        "evicted after 120 tokens: 23.3% of the rows stayed (504 of 2,160); 1.1 MiB in use before, "
        "252.0 KiB after; 1.1 MiB and 270.0 KiB held with reserved rows and 36 rows of padding; 12 ms" in said
    )
    assert "and 3 more compressions" in said
    assert "18.0 KiB of it padding" in said
    assert "held with the rows reserved, at a compression at most 1.1 MiB" in said
    numbers = "0.1 with radii above 1 counted as 1, 0.2 without"
    assert f"certificate estimate, {numbers}: relative error of attention outputs at level 0.1 " in said
    assert "over 4 steps the mean is 0.04375 and the largest 0.1; not clipped, 0.0875 and 0.2" in said
    assert "█▂▄· one mark for 1 step; highest: 0.1 at step 1" in said
    assert "▄▄▄▄▄█ one mark for 1 layer; highest: 0.2 at layer 6" in said
    assert "if honest draws, luck (in full in the JSON)" in said
    assert "rows held: of its keys and values, at the end" in said
    (alpha,) = [line.split() for line in text.splitlines() if line.startswith("Alpha")]
    assert (alpha[2], alpha[-1]) == ("100%", "19.2%")  # computed; held, at the last of six compressions
    assert "bound" not in said
    assert max(map(len, text.splitlines())) <= width
    assert "824. one mark for 1 step" in show(Receipt.model_validate(plain), width, "ascii")


def test_radii_of_nothing_lost_have_no_marks(facts, evict, certify):
    said = " ".join(show(Receipt.model_validate(certify(evict(facts()), [0.0, 0.0]))).split())
    assert "estimate, 0 with radii above 1 counted as 1, 0 without: relative error" in said
    assert "over 2 steps the mean is 0 and the largest 0; not clipped, 0 and 0" in said
    assert "one mark for 1 step" not in said


@pytest.mark.parametrize(("prune", "label"), [(None, "not evicted"), ({"name": "static", "keep": "100%"}, "not done")])
def test_an_eviction_that_left_all_rows(facts, evict, prune, label):
    plain = evict(facts())
    plain["eviction"] |= {"compressions": [], "most_bytes": 0}
    plain["seconds"]["evict_s"] = 0.0
    plain["settings"]["prune"] = prune
    plain["bypass"] = ["the budget covers every row of the cache"]
    said = " ".join(show(Receipt.model_validate(plain)).split())
    assert f"{label} the budget covers every row of the cache" in said
    assert "(no token was left out)" in said


@pytest.mark.parametrize(
    ("evict", "says"),
    [
        (
            {
                "name": "snapkv",
                "budget.keep": "256 tokens",
                "budget.layers": "pyramid",
                "budget.heads": "equal",
                "every": 64,
                "block": None,
                "moment": "context",
                "estimator": "plug-in",
            },
            "snapkv; budget 256 tokens; layers pyramid; every 64; before the question is read; plug-in",
        ),
        ({"name": "x", "block": 512, "moment": "prompt"}, "x; block 512"),
        ({}, ""),
    ],
)
def test_policies_in_a_line(evict, says):
    assert describe_policy(evict) == says
