"""The page: well formed, alone, complete without its script, and safe whatever a user wrote."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser

import pytest
from made_runs import TASKS, make_items, make_study, write_run

from fewer.report import write_report

VOID = {"meta", "br", "input"}
NASTY = "\"><script>alert(1)</script><img src=x onerror=alert(2)>' {{ 7*7 }} | &amp; </title> $x_1$"
NAME = NASTY.replace("/", "").replace("\\", "")


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

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)

    def find(self, tag, **attributes):
        return [
            found
            for kind, found in self.elements
            if kind == tag and all(found.get(key.rstrip("_")) == value for key, value in attributes.items())
        ]


@pytest.fixture(scope="module")
def html(report):
    return (report / "report.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def page(html):
    return Page(html)


def test_loads_nothing_and_runs_only_its_own_script(html, page):
    outside = html.replace("default-src 'none'", "")
    assert not re.search(r"https?://|url\(|@import|javascript:|<link|<img|\ssrc=", outside)
    policy = next(each["content"] for each in page.find("meta") if "http-equiv" in each)
    assert policy.startswith("default-src 'none'; ")
    script = re.search(r"<script>(.*?)</script>", html, re.S)[1]
    style = re.search(r"<style>(.*?)</style>", html, re.S)[1]
    for name, text in (("script-src", script), ("style-src", style)):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{name} 'sha256-{digest}'" in policy
    assert not any(key.startswith("on") or key == "style" for _, each in page.elements for key in each)


def test_reads_on_a_phone_in_the_dark_and_in_print(html):
    assert 'name="viewport" content="width=device-width' in html
    for query in ("prefers-color-scheme: dark", "(max-width: 640px)", "@media print", "prefers-reduced-motion"):
        assert query in html


def test_every_picture_has_words_and_every_figure_its_table(page):
    pictures = page.find("svg", class_="plot")
    assert len(pictures) > 20
    assert all(each.get("aria-label") and each["role"] == "img" for each in pictures)
    anchors = {each["id"] for _, each in page.elements if each.get("id")}
    assert len(anchors) == sum(1 for _, each in page.elements if each.get("id"))
    links = [each["href"] for each in page.find("a")]
    assert links
    assert all(link[1:] in anchors for link in links)
    figures = [each["id"] for each in page.find("figure")]
    tables = [link for link in links if link.startswith("#t-")]
    assert len(figures) == len(tables)


def test_the_sections_come_in_their_order(page):
    order = ["run", "tasks", "arms", "equal", "length", "answers", "signals", "published", "not"]
    assert [each["id"] for each in page.find("section")] == order


def test_tables_are_there_without_the_script_and_can_be_sorted_with_it(html, report, page):
    for sheet in (report / "tables").glob("*.csv"):
        rows = sheet.read_text(encoding="utf-8").count("\n") - 1
        body = html.split(f'id="t-{sheet.stem}"')[1].split("<tbody>")[1].split("</tbody>")[0]
        assert body.count("<tr>") == rows
    assert all(each.get("scope") in ("col", "row") for each in page.find("th"))
    orders = [each["data-order"] for each in page.find("td", class_="n") if "data-order" in each]
    assert len(orders) > 500
    assert all(float(order) == float(order) for order in orders)


def test_series_are_switched_by_boxes_without_the_script(html, page):
    boxes = {each["value"] for each in page.find("input", type="checkbox")}
    assert boxes == {"0", "1", "2"}
    for value in boxes:
        assert f'input[value="{value}"]:not(:checked)) .k{value}{{display:none}}' in html
    assert any("k2" in (each.get("class") or "").split() for each in page.find("polygon"))


def test_everything_a_user_wrote_is_escaped(tmp_path):
    study = make_study(
        name=NAME,
        title=NASTY,
        tasks=[{"name": NAME}],
        arms=[{"name": "full"}, {"name": NAME, "prune": "static", "keep": "50%"}, {"prune": "random", "keep": "50%"}],
        outcomes=[{"name": NAME, "at_least": 0.5}],
        claims=[
            {"id": NAME, "statement": NASTY, "kind": "difference", "arm": NAME, "at_least": 0, "kill_below": -0.1}
        ],
    )  # fmt: skip
    words = {"task": NAME, "category": NASTY, "cluster": NASTY, "metric": NASTY}
    items = [
        item | words | {"cluster": f"{NASTY}{place}"} for place, item in enumerate(make_items(24, ["needle_words"]))
    ]
    registration = {"kind": "differs", "sentence": NASTY, "differences": [NASTY], "notes": [NASTY]}
    environment = dict.fromkeys(
        ("model", "device", "dtype", "weights", "fewer", "torch", "transformers", "python"), NASTY
    )
    header = {
        "registration": registration,
        "environment": environment | {"model_sha256": "ab" * 32},
        "setting": {"end_tokens": [NASTY], "truncation": NASTY, "decoding": NASTY, "observation_window": NASTY},
        "left_out": {NAME: 3},
    }
    change = {"reason": NASTY, "status": "failed"}
    run = write_run(
        tmp_path / "run",
        study=study,
        items=items,
        header=header,
        change_row=lambda row: change if row["unit"] == 3 else {},
    )
    out = tmp_path / "out"
    write_report([run], out, ("md", "html", "svg", "csv"))
    html = (out / "report.html").read_text(encoding="utf-8")
    page = Page(html)
    assert len(page.find("script")) == 1
    assert not page.find("img")
    assert not any(key.startswith("on") for _, each in page.elements for key in each)
    assert sum(NASTY in text for text in page.texts) >= 12
    assert "49" not in {text.strip() for text in page.texts}
    markdown = (out / "report.md").read_text(encoding="utf-8")
    assert "<script>" not in markdown.replace("\\<script\\>", "")
    assert all(re.fullmatch(r"[a-z0-9-]+", path.stem) for path in out.rglob("*.*") if path.parent != out)


def test_the_page_of_a_run_is_not_large(html):
    assert len(html) < 1_500_000
    assert set(TASKS) <= set(re.findall(r">([a-z_0-9]+)<", html))
