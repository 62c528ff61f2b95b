"""What each task promises about its contents, recomputed from the chunks."""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise

import pytest
from generating import bytes_tokenizer, holds, lay_out, make, spell

from fewer.study.item import Item
from fewer.study.metrics import score
from fewer.study.tasks.generate import GENERATORS
from fewer.study.tasks.generate.frequent import _zeta

LENGTH = 1500
DEEP = [name for name, generator in GENERATORS.items() if generator.takes_depth]


def _text(item: Item) -> str:
    return "\n".join(spell(item))


@pytest.mark.parametrize("name", DEEP)
@pytest.mark.parametrize("depth", [0.0, 0.5, 1.0])
def test_the_needle_is_at_the_depth_asked_for(name: str, depth: float) -> None:
    (item,) = make(name, LENGTH, 1, depth=depth)
    (place,) = item.supporting or ()
    chunk = lay_out(item).chunks[place]
    context = sum(chunk.num_tokens for chunk in lay_out(item).chunks)
    unit = 260 / context  # half of a long passage or two sentences
    assert item.meta["depth"] == pytest.approx(depth, abs=unit)
    if depth != 0.5:
        assert place == depth * (len(item.chunks) - 1)
        assert item.meta["depth"] == pytest.approx(depth, abs=0.01)
    before = chunk.start - lay_out(item).chunks[0].start
    assert before / context <= item.meta["depth"] + 0.05


def test_depths_cover_the_context_evenly() -> None:
    """No two neighbours among 24 depths are further apart than three even steps, whatever the number of items."""
    depths = sorted(item.meta["depth"] for item in make("ruler_niah_single_1", LENGTH, 24))
    assert depths[0] < 3 / 24
    assert depths[-1] > 1 - 3 / 24
    assert max(high - low for low, high in pairwise(depths)) < 3 / 24


@pytest.mark.parametrize(
    ("name", "needles", "answers"),
    [("single_3", 1, 1), ("multikey_1", 4, 1), ("multivalue", 4, 4), ("multiquery", 4, 4)],
)
def test_needles_have_rulers_form(name: str, needles: int, answers: int) -> None:
    for item in make(f"ruler_niah_{name}", LENGTH):
        found = re.findall(r"One of the special magic (numbers|uuids) for (\S+) is: (\S+)\.", _text(item))
        assert len(found) == needles
        assert len(item.answers) == answers
        values = {value: key for _, key, value in found}
        assert len(values) == needles
        assert all(values[answer] in item.question for answer in item.answers)
        keys = list(dict.fromkeys(values[answer] for answer in item.answers))
        assert keys == sorted(keys, key=item.question.index)  # in the order asked
        assert keys == item.meta["keys"]


@pytest.mark.parametrize("name", ["ruler_niah_multikey_2", "ruler_niah_multikey_3", "kv_retrieval"])
def test_lines_have_different_keys_and_values(name: str) -> None:
    for item in make(name, LENGTH):
        pattern = r'"(\S+)": "(\S+)"' if name == "kv_retrieval" else r"for (\S+) is: (\S+)\.$"
        pairs = [re.search(pattern, text) for text in spell(item)]
        names = [part for pair in pairs if pair for part in pair.groups()]
        assert len(names) == 2 * len(item.chunks) == len(set(names))
        (place,) = item.supporting or ()
        assert pairs[place].groups() == (item.meta["keys"][0], item.answers[0])


def test_variables_form_a_chain_in_order() -> None:
    (item,) = make("ruler_vt", 2077, 1, chains=2, hops=3)
    steps = re.findall(r"VAR ([A-Z]{5}) = (?:VAR )?(\w+)", _text(item))
    assert len(steps) == 8
    links = dict(steps)
    assert len(links) == 8
    ends = {name: name for name in links}
    for name in links:
        while ends[name] in links:
            ends[name] = links[ends[name]]
    assert {name for name, value in ends.items() if value == item.meta["value"]} == set(item.answers)
    places = {name: place for place, (name, _) in enumerate(steps)}
    assert list(item.answers) == sorted(item.answers, key=places.__getitem__)
    assert "4 variables are assigned the value" in item.answer_prefix
    assert len(re.findall(r"VAR [A-Z]{3} =", item.wording.before)) == 8
    (bare,) = make("ruler_vt", LENGTH, 1, example=False)
    assert "VAR" not in bare.wording.before


@pytest.mark.parametrize(("length", "often", "seldom"), [(1500, 6, 1), (5000, 30, 3)])
def test_common_words_are_common(length: int, often: int, seldom: int) -> None:
    (item,) = make("ruler_cwe", length, 1)
    entries = re.findall(r"(\d+)\. (\S+)", _text(item))
    assert [int(number) for number, _ in entries] == list(range(1, len(entries) + 1))
    counts = Counter(word for _, word in entries)
    assert {word for word, count in counts.items() if count == often} == set(item.answers)
    assert max(count for word, count in counts.items() if word not in item.answers) == seldom
    assert item.meta["common_repeats"] == often
    example = Counter(re.findall(r"\d+\. (\S+)", item.wording.before.split("Question:")[0]))
    assert sorted(set(example.values())) == ([1, 3] if length < 4096 else [3, 10])
    assert score(item.metric, " ".join(item.answers), item.answers, item.meta) == 1


@pytest.mark.parametrize("alpha", [1.5, 2.0, 3.5])
def test_coded_words_follow_the_distribution(alpha: float) -> None:
    (item,) = make("ruler_fwe", 4000, 1, alpha=alpha)
    counts = Counter(_text(item).split())
    assert counts.most_common(1)[0][0] == "..."
    best = counts.most_common(5)[1:]
    assert tuple(word for word, _ in best[:3]) == item.answers
    assert [count for _, count in best] == item.meta["counts"]
    assert best[2][1] > best[3][1]
    total = sum(counts.values())
    for rank, (_, count) in enumerate(best[:3], 2):
        assert count / total == pytest.approx(rank**-alpha / _zeta(alpha), rel=0.2)


def test_zeta() -> None:
    assert _zeta(2.0) == pytest.approx(1.6449340668482264, abs=1e-12)
    assert _zeta(4.0) == pytest.approx(1.0823232337111382, abs=1e-12)


@pytest.mark.parametrize("hops", [2, 3, 4])
def test_a_chain_of_facts_leads_to_the_answer(hops: int) -> None:
    (item,) = make("multi_hop", 2077, 1, hops=hops, distractors=2)
    text = _text(item)
    name = item.question.split("the teacher of ")[1].removesuffix("? Answer with the name only.")
    name = re.split(r" was born| flows", name)[0]
    patterns = [
        "The teacher of {} was ([A-Z][a-z]+ [A-Z][a-z]+)",
        "{} was born in the town of ([A-Z][a-z]+)",
        "The river ([A-Z][a-z]+) flows through the town of {}",
        "The river {} ends in Lake ([A-Z][a-z]+)",
    ]
    for pattern, chunk in zip(patterns[:hops], item.meta["answer_chunks"], strict=True):
        (found,) = re.findall(pattern.format(name), text)
        assert re.search(pattern.format(name), item.chunks[chunk].text)
        name = found
    assert (name,) == item.answers
    assert len(set(item.meta["answer_chunks"])) == hops
    assert len(item.meta["wrong_answers"]) == 2
    assert all(holds(text, wrong) for wrong in item.meta["wrong_answers"])


def test_several_questions_are_asked_in_another_order() -> None:
    (item,) = make("several_questions", 2077, 1, questions=6)
    asked = re.findall(r"\d\. What is the locker code of (.+)\?", item.question)
    assert len(asked) == len(set(item.meta["answer_chunks"])) == 6
    assert item.meta["answer_chunks"] != sorted(item.meta["answer_chunks"])
    for person, code, chunk in zip(asked, item.answers, item.meta["answer_chunks"], strict=True):
        assert f"The locker code of {person} is {code}." in item.chunks[chunk].text


@pytest.mark.parametrize("rule", ["newest", "official"])
def test_the_rule_decides_between_the_sources(rule: str) -> None:
    (item,) = make("contradictory", LENGTH, 1, rule=rule, sources=4)
    pattern = (
        r"(?:of \d+ [A-Z][a-z]+ (\d{4}) says|(harbour office) writes|\S+ \S+ \S+) that the ferry .+ from (\S+) Pier"
    )
    found = re.findall(pattern, _text(item))
    assert len(found) == 4
    if rule == "newest":
        right = max(found, key=lambda match: int(match[0]))[2]
        assert len({year for year, _, _ in found}) == 4
    else:
        (right,) = [pier for _, office, pier in found if office]
    assert (right,) == item.answers
    types = item.meta["doc_types"]
    assert len(types) == len(item.chunks)
    assert [types[place] for place in item.supporting or ()].count("true") == 1
    assert types.count("false") == 3
    assert right in item.chunks[types.index("true")].text
    both = f"{right} or {item.meta['wrong_answers'][0]}"
    assert [score(item.metric, text, item.answers, item.meta) for text in (right, both)] == [1, 0]


@pytest.mark.parametrize("kind", ["list", "sum", "count"])
def test_every_chunk_has_a_part(kind: str) -> None:
    (item,) = make("diffuse", LENGTH, 1, kind=kind, parts=7)
    notes = [re.findall(r"Delivery note: (.+?) brought (\d) sacks of (\w+)", text) for text in spell(item)]
    assert [len(found) for found in notes] == [1] * 7
    assert item.supporting == tuple(range(7))
    people, numbers, grains = zip(*(found[0] for found in notes), strict=True)
    right = {"list": people, "sum": (str(sum(map(int, numbers))),), "count": (str(grains.count("barley")),)}[kind]
    assert sorted(item.answers) == sorted(right)
    assert score(item.metric, ", ".join(right), item.answers, item.meta) == 1


def test_the_same_chunks_in_several_orders() -> None:
    items = make("reordered", LENGTH, 8, orders=4)
    for run in (items[:4], items[4:]):
        assert len({item.cluster for item in run}) == 1
        assert len({tuple(sorted(spell(item))) for item in run}) == 1
        assert len({tuple(spell(item)) for item in run}) == 4
        last = len(run[0].chunks) - 1
        assert [item.supporting for item in run] == [(round(order / 3 * last),) for order in range(4)]
        assert [item.meta["gold_positions"] for item in run] == [list(item.supporting or ()) for item in run]
    assert items[0].cluster != items[4].cluster


def test_meta_depth_is_where_the_needle_is() -> None:
    """Recomputed from the prompt's ids: the tokens before the needle over all but the needle's."""
    (item,) = make("passcode", LENGTH, 1, depth=0.6)
    prompt, tokenizer = lay_out(item), bytes_tokenizer()
    needle = f"The pass key is {item.answers[0]}."
    context = tokenizer.decode(prompt.ids[prompt.chunks[0].start : prompt.chunks[-1].stop])
    before = len(tokenizer(context[: context.index(needle)])["input_ids"])
    whole = len(tokenizer(context)["input_ids"])
    own = len(tokenizer(f"{needle} Remember it. {item.answers[0]} is the pass key.")["input_ids"])
    assert item.meta["depth"] == pytest.approx(before / (whole - own), abs=0.01)
