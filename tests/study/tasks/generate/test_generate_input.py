"""What is refused, and the parts that make lengths exact."""

from __future__ import annotations

import re
from random import Random
from typing import Any

import pytest
from generating import bytes_tokenizer, make, pieces_tokenizer

from fewer.errors import BadInput
from fewer.prompt import lay_out
from fewer.study.tasks.generate import GENERATORS, generate_task
from fewer.study.tasks.generate.fit import Meter, NoFit, TooShort, stretch
from fewer.study.tasks.generate.haystack import load_haystack
from fewer.study.tasks.generate.lines import fill_lines
from fewer.study.tasks.generate.scatter import Needle, scatter
from fewer.study.tasks.generate.words import _load_lists, draw_new, draw_number, load_words
from fewer.types import Document, Wording


@pytest.mark.parametrize(
    ("name", "settings", "complaint"),
    [
        ("ruler_niah", {}, "task is 'ruler_niah'; it must be one of ruler_niah_single_1"),
        (3, {}, "task is 3"),
        ("passcode", {"length": 0}, "length is 0; it must be a whole number of 1 to 16777216"),
        ("passcode", {"length": 500.0}, r"length is 500\.0"),
        ("passcode", {"num_items": 0}, "num_items is 0"),
        ("passcode", {"seed": -1}, "seed is -1"),
        ("passcode", {"seed": True}, "seed is True"),
        ("passcode", {"depth": 1.5}, r"depth is 1\.5; it must be None or a number of 0 to 1"),
        ("passcode", {"depth": "deep"}, "depth is 'deep'"),
        ("ruler_vt", {"depth": 0.5}, r"depth is 0\.5; it must be None for ruler_vt"),
        ("ruler_cwe", {"haystack": "noise"}, "haystack is 'noise'; it must be None for ruler_cwe"),
        ("passcode", {"hops": 3}, "settings is 'hops'; it must be among chat for passcode"),
        ("passcode", {"chat": 1}, "chat is 1; it must be True or False"),
        ("ruler_vt", {"hops": 17}, "hops is 17; it must be a whole number of 1 to 16"),
        ("ruler_vt", {"hops": 2.0}, r"hops is 2\.0"),
        ("ruler_fwe", {"alpha": 1}, r"alpha is 1; it must be a number of 1\.1 to 4"),
        ("diffuse", {"kind": "mean"}, "kind is 'mean'; it must be 'list' or 'sum' or 'count'"),
        ("ruler_qa_1", {"source": 3}, "source is 3; it must be a path or None"),
        ("passcode", {"tokenizer": "gpt2"}, "tokenizer is 'str'; it must be a transformers tokenizer"),
    ],
)
def test_bad_input(name: Any, settings: dict[str, Any], complaint: str) -> None:
    arguments = {"tokenizer": bytes_tokenizer(), "length": 900, "num_items": 1} | settings
    with pytest.raises(BadInput, match=complaint):
        generate_task(name, **arguments)


def test_every_setting_has_a_legal_default() -> None:
    for generator in GENERATORS.values():
        for name, setting in generator.settings.items():
            setting.check(name, setting.default)


def test_settings_change_the_id_but_not_the_cluster() -> None:
    (one,), (other,) = make("diffuse", 900, 1, parts=3), make("diffuse", 900, 1, parts=4)
    assert one.id != other.id
    assert one.cluster == other.cluster


@pytest.mark.parametrize("make_tokenizer", [bytes_tokenizer, pieces_tokenizer])
@pytest.mark.parametrize("between", ["\n", "\n\n", ",\n ", ""])
def test_a_meter_counts_as_the_layout_does(make_tokenizer: Any, between: str) -> None:
    tokenizer = make_tokenizer()
    meter = Meter(tokenizer, between)
    texts = ["Anne had been too little from home.", "7 chapters", "- so it went on, and on", "x"]
    prompts = [
        lay_out(
            tokenizer,
            "Why?",
            [Document(text) for text in some],
            max_positions=4096,
            wording=Wording("Read.\n", between, "\n{question}"),
        )
        for some in (texts[:1], texts)
    ]
    assert len(prompts[1]) - len(prompts[0]) == meter.total(texts) - meter.total(texts[:1])
    assert [chunk.num_tokens for chunk in prompts[1].chunks][1:] == meter.count(texts)[1:]


@pytest.mark.parametrize("make_tokenizer", [bytes_tokenizer, pieces_tokenizer])
def test_a_text_of_every_size(make_tokenizer: Any) -> None:
    meter = Meter(make_tokenizer(), "\n")
    words = " ".join(load_haystack("essay").read(3, 12)).split()
    for target in range(12, 120, 3):
        text = stretch(meter, words, target, Random(target), render=lambda text: f"Before. {text} After it.")
        assert meter.count([f"Before. {text} After it."]) == [target]
        assert text[0].isupper()
        assert text.endswith(".")


def test_long_words_are_left_out_where_nothing_else_fits() -> None:
    meter = Meter(bytes_tokenizer(), "\n")
    text = stretch(meter, ["9f8e7d6c5b4a" * 4, "a", "house", "and", "a", "road"], 6, Random(0))
    assert meter.count([text]) == [6]
    with pytest.raises(NoFit):
        stretch(meter, ["9f8e7d6c5b4a" * 4], 6, Random(0))


def test_lines_that_cannot_add_up() -> None:
    meter = Meter(bytes_tokenizer(), "\n")
    numbers = iter(range(10000, 99999))
    size = meter.count(["line a"])[0]
    assert size == meter.count(["line b"])[0]

    def draw() -> str:
        return "line " + "ab"[next(numbers) % 2]

    cost = size + meter.between
    lines, place, depth = fill_lines(meter, draw, "line c", 0.5, size + 6 * cost, Random(0))
    assert (len(lines), place, depth) == (7, 3, 0.5)
    with pytest.raises(NoFit) as caught:
        fill_lines(meter, draw, "line c", 0.5, size + 6 * cost + 1, Random(0))
    assert (caught.value.fewer, caught.value.more) == (1, cost - 1)
    with pytest.raises(TooShort) as short:
        fill_lines(meter, draw, "line c", 0.5, size, Random(0))
    assert short.value.needed == size + cost


def test_lengths_that_lines_cannot_have_come_with_two_that_they_can() -> None:
    """One or two pairs of UUIDs leave gaps between the lengths that are possible."""
    refused = {}
    for length in range(260, 420, 19):
        try:
            make("kv_retrieval", length, 1)
        except BadInput as error:
            refused[length] = str(error)
    assert any("probably" in message for message in refused.values())
    for length, message in refused.items():
        assert f"length is {length}; it must be a length that the filler of kv_retrieval can have exactly" in message
        hints = [int(part) for part in re.findall(r"\d+", message.partition("probably")[2])]
        assert not hints or hints[0] < length < hints[1]


@pytest.mark.parametrize("each", [False, True])
def test_needles_in_chunks_of_their_own(each: bool) -> None:
    """Under a budget of any size, with depths that ask for one and the same place."""
    meter, haystack = Meter(bytes_tokenizer(), "\n\n"), load_haystack("essay")
    needles = [Needle(f"Number {place} is here.", 0.4) for place in range(5)]
    for budget in (*range(200, 420, 11), *range(500, 2200, 400)):
        found = scatter(needles, haystack, meter, budget, Random(budget), apart=True, each=each)
        assert meter.total(found.chunks) == budget
        assert len(set(found.places)) == 5
        assert all(needle.text in found.chunks[at] for needle, at in zip(needles, found.places, strict=True))
        assert list(found.places) == sorted(found.places)
        assert each == (len(found.chunks) == 5) or budget < 700
        assert sum(chunk.count("is here.") for chunk in found.chunks) == 5
    with pytest.raises(TooShort) as caught:
        scatter(needles, haystack, meter, 50, Random(0), apart=True, each=each)
    needed = caught.value.needed
    assert meter.total(scatter(needles, haystack, meter, needed, Random(0), apart=True, each=each).chunks) == needed


def test_chunks_have_about_a_hundred_tokens() -> None:
    (item,) = make("ruler_niah_single_2", 6000, 1)
    sizes = [
        len(bytes_tokenizer()(chunk.text)["input_ids"])
        for place, chunk in enumerate(item.chunks)
        if place not in (item.supporting or ())
    ]
    assert 80 < sum(sizes) / len(sizes) < 120
    assert sum(45 <= size <= 165 for size in sizes) > 0.9 * len(sizes)


def test_the_supply_of_names() -> None:
    lists = _load_lists()
    assert all(len(names) == len(set(names)) for names in lists.values())
    assert len(lists["adjectives"]) * len(lists["nouns"]) > 50_000
    assert len(load_words()) == 4608
    taken: set[str] = set()
    rng = Random(0)
    assert {draw_new(lambda: draw_number(rng, 1), taken) for _ in range(9)} == set("123456789") == taken
    with pytest.raises(BadInput, match="names drawn is 9"):
        draw_new(lambda: draw_number(rng, 1), taken)


def test_the_shipped_novel() -> None:
    novel = load_haystack("essay")
    assert 150_000 < len(novel.text) < 250_000
    assert novel.sentences[0].startswith("Sir Walter Elliot, of Kellynch Hall")
    assert not any(character.isdigit() for character in novel.text)
    assert "gutenberg" not in novel.text
    assert novel.licence == "public domain"
    assert max(map(len, novel.sentences)) < 700
