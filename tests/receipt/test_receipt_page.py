"""The page: well formed, alone, and safe whatever the user wrote."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from fewer.receipt import Receipt
from fewer.receipt.picture import list_labels

VOID = {"meta", "br"}
NASTY = '"><script>alert(1)</script><img src=x onerror=alert(2)>\' onmouseover="x" {{ 7*7 }} {% raw %} &amp; </title>'


class Page(HTMLParser):
    """Checks that every element is closed in order, and keeps elements, attributes and text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def find(self, tag: str, name: str = "") -> list[dict[str, str | None]]:
        return [each for kind, each in self.elements if kind == tag and (not name or each.get("class") == name)]


@pytest.mark.parametrize("num_layers", [1, 30, 80])
@pytest.mark.parametrize("num_chunks", [0, 1, 200])
def test_one_row_a_chunk_and_one_cell_a_layer(make, num_layers, num_chunks):
    html = make(chunks=[(f"c{i}", i + 1) for i in range(num_chunks)], num_layers=num_layers).to_html()
    assert html.startswith("<!doctype html>")
    page = Page(html)
    strips = page.find("svg", "strip")
    assert len(strips) == num_chunks + 1  # and the protected text
    assert {each["viewbox"] for each in strips} == {f"0 0 {num_layers} 1"}
    assert len(re.findall(r"<rect[^>]*><title>layer \d+: ", html)) == (num_chunks + 1) * num_layers
    assert ("The prompt has no chunks" in html) == (num_chunks == 0)
    assert len(html) < 20_000 + (num_chunks + 3) * (400 + 150 * num_layers)


def test_the_shade_is_the_share(make):
    html = make(chunks=[("a", 40)], num_layers=3, kept=lambda number, tokens, layer: (40, 10, 0)[layer - 1]).to_html()
    row = html[html.index('title="a"') :]
    cells = re.findall(r"<rect([^>]*)><title>([^<]*)</title>", row)[:3]
    assert [title for _, title in cells] == [
        "layer 1: 40 of 40 tokens (100%)",
        "layer 2: 10 of 40 tokens (25.0%)",
        "layer 3: 0 of 40 tokens (0%)",
    ]
    assert 'fill-opacity="1"' in cells[0][0]
    assert 'fill-opacity="0.34"' in cells[1][0]
    assert "fill-opacity" not in cells[2][0]


def test_loads_and_runs_nothing(make):
    html = make().to_html()
    assert not re.search(r"https?://|//[a-z]|url\(|@import|javascript:|<script|<link|<img|src=", html)
    assert "default-src 'none'" in html
    assert "prefers-color-scheme: dark" in html
    assert 'name="viewport" content="width=device-width' in html
    assert "@media (max-width: 640px)" in html


def test_everything_the_user_wrote_is_escaped(facts, evict):
    plain = evict(facts(chunks=[(NASTY, 40), ("b", 60)], kept=lambda number, tokens, layer: tokens - layer))
    plain["model"] |= {"name": NASTY, "family": NASTY, "source": NASTY, "sha256": NASTY}
    plain["run"] |= {"device": NASTY, "dtype_reason": NASTY}
    plain["settings"] = {
        "sampling": {NASTY: NASTY},
        "prune": {NASTY: [NASTY]},
        "evict": {NASTY: {NASTY: NASTY}, "name": NASTY},
    }
    plain["plans"][0]["reason"] = NASTY
    plain["bypass"] = [NASTY]
    plain["memory"]["peak_scope"] = NASTY
    plain["versions"]["torch"] = NASTY
    plain["certificate"] |= {"kind": "bound", "radius": 1.0, "assumptions": [NASTY], "says": NASTY}
    page = Page(Receipt.model_validate(plain).to_html())
    assert not page.find("script")
    assert not page.find("img")
    assert not any(key.startswith("on") for _, attributes in page.elements for key in attributes)
    assert sum(NASTY in text for text in page.texts) >= 15
    assert any(each.get("title") == NASTY for each in page.find("div", "name"))


def test_long_titles_are_clipped(make):
    html = make(chunks=[("word " * 10_000, 5)]).to_html()
    assert len(html) < 30_000
    title = max((str(each.get("title", "")) for each in Page(html).find("div", "name")), key=len)
    assert title.startswith("word word")
    assert title.endswith("…")
    assert len(title) == 160


def test_says_what_is_claimed_and_what_did_not_happen(facts):
    plain = facts()
    html = Receipt.model_validate(plain).to_html()
    assert "none; nothing is claimed about the tokens left out (no token was left out)" in html
    assert "did not happen" not in html
    plain["bypass"] = ["too short"]
    assert "Pruning was asked for and did not happen" in Receipt.model_validate(plain).to_html()


def test_a_cache_larger_than_a_full_runs_stays_inside_the_picture(facts):
    plain = facts(num_layers=2)
    plain["memory"] |= {"kv_bytes_per_layer": [10**6, 10**6], "kv_total_bytes": 2 * 10**6}
    plain["memory"]["kv_used_bytes_per_layer"] = [10**6, 10**6]
    heights = [float(each) for each in re.findall(r'height="([\d.]+)"', Receipt.model_validate(plain).to_html())]
    assert max(heights) == 1.0


@pytest.mark.parametrize(
    ("size", "labels"),
    [
        (1, [1]),
        (3, [1, 2, 3]),
        (12, [1, 2, 4, 6, 8, 10, 12]),
        (30, [1, 5, 10, 15, 20, 25, 30]),
        (32, [1, 5, 10, 15, 20, 25, 32]),
        (80, [1, 10, 20, 30, 40, 50, 60, 70, 80]),
        (1000, [1, 1000]),
    ],
)
def test_labels_under_the_picture(size, labels):
    assert list_labels(size) == labels


def bars_of(html: str, says: str) -> list[tuple[float, float, str]]:
    """Of the chart that is called so: the height behind, the height before it, and what the bar says."""
    chart = html[html.index(f'aria-label="{says}"') :]
    found = re.findall(
        r'<g><title>([^<]*)</title><rect[^>]*height="([\d.]+)"/><rect[^>]*height="([\d.]+)"/>', chart.split("</svg>")[0]
    )
    return [(float(behind), float(before), title) for title, behind, before in found]


def test_the_cache_is_compared_row_by_row(make):
    html = make(num_layers=2, kept=lambda number, tokens, layer: tokens if layer == 1 else 0).to_html()
    first, second = bars_of(html, "bytes of keys and values in use in each layer")
    assert first == (1.0, 1.0, "layer 1: 96.8 KiB in use; a full run: 96.8 KiB; 102.8 KiB held with reserved rows")
    assert second[:2] == (1.0, pytest.approx(29 / 129, abs=1e-4))
    assert "118.5 KiB in use, a full run 193.5 KiB (computed); 130.5 KiB held with the rows reserved" in html


def test_the_method_and_its_steps(facts, bring_back):
    plain = bring_back(facts(kept=lambda number, tokens, layer: tokens - layer), [3, 0, 12])
    plain["settings"]["prune"] = {"name": "lazyllm", "preset": "balanced", "schedule": "8:35%", "aux": "keep"}
    html = Receipt.model_validate(plain).to_html()
    Page(html)
    assert "lazyllm balanced, here 8:35%; aux keep" in html
    assert bars_of(html, "tokens that came back at each step") == [
        (0.0, 0.25, "step 1: 3 tokens came back"),
        (0.0, 0.0, "step 2: 0 tokens came back"),
        (0.0, 1.0, "step 3: 12 tokens came back"),
    ]
    many = Receipt.model_validate(bring_back(facts(decode_steps=9), [1, 3] * 150)).to_html()
    bars = bars_of(many, "tokens that came back at each step")
    assert len(bars) == 100
    assert bars[0] == (0.0, pytest.approx(5 / 9, abs=1e-4), "steps 1 to 3: 1.7 tokens a step came back")
    assert "step by step" not in Receipt.model_validate(bring_back(facts(), [0, 0], "off")).to_html()


def heads_of(html: str) -> list[tuple[str, str]]:
    """Of the picture of what each head kept: the name at the left, and what the first cell says."""
    part = html[html.index("What was evicted") :].split("</section>")[0]
    return re.findall(r'<div class="name" title="([^"]*)">.*?<title>([^<]*)</title>', part, re.DOTALL)


def test_what_was_evicted(facts, evict):
    html = Receipt.model_validate(evict(facts())).to_html()
    page = Page(html)
    assert "systematic:question; budget 25%; heads adaptive; hajek" in html
    assert (
        "after 120 tokens: 23.3% of the rows stayed (504 of 2,160); 1.1 MiB in use before, "
        "252.0 KiB after; 1.1 MiB and 270.0 KiB held with reserved rows and 36 rows of padding; 12 ms" in html
    )
    assert heads_of(html) == [
        ("head 1", "layer 1: 30 rows of 120 tokens (25.0%)"),
        ("head 2", "layer 1: 24 rows of 120 tokens (20.0%)"),
        ("head 3", "layer 1: 30 rows of 120 tokens (25.0%)"),
        ("Alpha", "layer 1: 28 of 120 rows held"),
        ("Beta", "layer 1: 42 of 180 rows held"),
    ]
    assert "of 120 tokens seen; below, of each part of the prompt, rows held at the end. One column" in html
    assert "Alpha: 168 of 720 rows held" in html
    assert len(page.find("svg", "strip")) == 3 + 3 + 2  # protected, two chunks; three heads; two chunks again
    bars = bars_of(html, "rows that stayed by chance, by their inclusion probability")
    assert [(height, title) for _, height, title in bars if height] == [
        (0.5, "pi 0.2 to 0.3: 6 rows"),
        (1.0, "pi 0.9 to 1: 12 rows"),
    ]
    assert len(bars) == 10
    assert "486 rows were certain to stay (pi = 1), 18 rows stayed by chance" in html
    assert "18.0 KiB of it padding" in html
    for label, value in (("evict", "12 ms"), ("of it padding", "18.0 KiB"), ("most at a compression", "1.1 MiB")):
        assert f"<dt>{label}</dt><dd>{value}</dd>" in html
    assert '<div class="label">Rows kept</div><div class="value">23.3%</div>' in html


def test_heads_that_keep_alike_are_one_row_and_top_k_has_no_probabilities(facts, evict):
    html = Receipt.model_validate(evict(facts(), (30, 30, 30), sampled=False, turns=2)).to_html()
    assert heads_of(html)[0] == ("every head", "layer 1: 29 rows of 121 tokens (24.0%)")
    assert [title for title, _ in heads_of(html)] == ["every head", "Alpha", "Beta"]
    assert "2 compressions" in html
    assert "inclusion probability" not in html
    assert "none; nothing is claimed about the tokens left out</p>" in html


def test_nothing_evicted_has_no_section(facts, evict):
    assert "What was evicted" not in Receipt.model_validate(facts()).to_html()
    plain = evict(facts(), turns=1)
    plain["eviction"] |= {"compressions": [], "most_bytes": 4096}
    plain["seconds"]["evict_s"] = 0.0
    plain["bypass"] = ["the budget covers every row of the cache"]
    html = Receipt.model_validate(plain).to_html()
    assert "What was evicted" not in html
    assert "Eviction was asked for and did not happen" in html
    assert "(no token was left out)" in html
    plain["settings"]["prune"] = {"name": "static"}
    assert "not all that was asked for happened" in Receipt.model_validate(plain).to_html()


def test_the_certificate_is_a_picture(facts, evict, certify):
    html = Receipt.model_validate(certify(evict(facts()), [0.2, 0.05, 0.1])).to_html()
    Page(html)
    assert '<section class="panel claim estimate">' in html
    assert "estimate, 0.1 with radii above 1 counted as 1, 0.2 without: relative error of attention outputs" in html
    clipped = "those above 1 counted as 1"
    assert bars_of(html, f"the radius at each decode step, averaged over layers and heads, {clipped}") == [
        (0.0, 1.0, "step 1: radius 0.1"),
        (0.0, 0.25, "step 2: radius 0.025"),
        (0.0, 0.5, "step 3: radius 0.05"),
    ]
    layers = bars_of(html, f"the radius at each layer, averaged over heads, {clipped}")
    assert [(height, title) for _, height, title in layers[-2:]] == [(0.5, "layer 5: 0.1"), (1.0, "layer 6: 0.2")]
    assert re.findall(r'its highest</div>\n<div class="tokens muted">([^<]*)<', html) == ["0.1", "0.2"]
    assert "over 3 steps the mean is 0.05833 and the largest 0.1; not clipped, 0.1167 and 0.2." in html
    assert "if honest draws: the draws are honest" in html
    assert "An average of radii bounds no error of anything." in html
    assert "bounds no error" not in Receipt.model_validate(evict(facts())).to_html()
