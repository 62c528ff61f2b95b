"""Question answering from this project's own questions and from files, and haystacks of the caller's."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from generating import bytes_tokenizer, lay_out, make, spell

from fewer.errors import BadInput, DocumentError
from fewer.study.tasks.generate import generate_task
from fewer.study.tasks.generate.questions import load_questions, occurs
from fewer.types import Document

LENGTH = 1500
GOLD = "The mill at Orrin grinds buckwheat for the whole valley and is run by the Tamsin family."
SECOND = "The Tamsin family came from the island of Varro, where its house still stands."
OTHER = [f"The bakery number {place} sells rolls, and nothing of note happens there in winter." for place in range(9)]


def _write_squad(path: Path, version: str) -> Path:
    asked = {"question": "What does the mill at Orrin grind?", "answers": [{"text": "buckwheat", "answer_start": 22}]}
    paragraphs: list[dict[str, Any]] = [{"context": GOLD, "qas": [asked]}]
    paragraphs += [{"context": f" {text}\n", "qas": []} for text in OTHER]
    if version == "v2.0":
        asked["is_impossible"] = False
        paragraphs[1]["qas"] = [{"question": "Who owns it?", "answers": [], "is_impossible": True}]
    path.write_text(json.dumps({"version": version, "data": [{"title": "Orrin", "paragraphs": paragraphs}]}), "utf-8")
    return path


def _write_hotpot(path: Path) -> Path:
    context = [["Orrin", [GOLD]], ["Tamsin", [SECOND]], *([f"Bakery {at}", [text]] for at, text in enumerate(OTHER))]
    row = {"question": "From which island came the family that runs the mill at Orrin?", "answer": "Varro"}
    rows = [
        row | {"context": context, "supporting_facts": [["Orrin", 0], ["Tamsin", 0]]},
        row | {"question": "Is it so?", "answer": "yes", "context": context, "supporting_facts": [["Orrin", 0]]},
    ]
    path.write_text(json.dumps(rows), "utf-8")
    return path


def _row(number: int) -> dict[str, Any]:
    return {
        "group": f"g{number}",
        "source": {"licence": "CC BY 4.0"},
        "context_chunks": [{"title": "Orrin", "text": GOLD}, *({"title": "", "text": text} for text in OTHER)],
        "question": "What does the mill at Orrin grind?",
        "answers": ["buckwheat", "wheat of a kind"],
        "supporting": [0],
    }


def _write_rows(path: Path) -> Path:
    text = "\n".join(json.dumps(_row(number)) for number in range(3)) + "\n\n"
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


@pytest.mark.parametrize("kind", ["v1.1", "v2.0", "rows.jsonl", "rows.jsonl.gz"])
@pytest.mark.parametrize("length", [600, LENGTH])
def test_one_hop_from_a_file(tmp_path: Path, kind: str, length: int) -> None:
    file = _write_rows(tmp_path / kind) if kind.startswith("rows") else _write_squad(tmp_path / f"{kind}.json", kind)
    for item in generate_task("ruler_qa_1", bytes_tokenizer(), length=length, num_items=2, source=str(file)):
        assert len(lay_out(item)) == length
        assert item.question == "What does the mill at Orrin grind?"
        assert item.answers == ("buckwheat",)  # the other answer is not in the passage
        (place,) = item.supporting or ()
        assert GOLD in item.chunks[place].text
        assert [chunk.title for chunk in item.chunks] == [f"Document {at}:" for at in range(1, len(item.chunks) + 1)]
        assert item.source == file.name
        assert item.licence == ("CC BY 4.0" if kind.startswith("rows") else "CC BY-SA 4.0 (SQuAD)")
        whole = sum(any(text in chunk.text for text in OTHER) for chunk in item.chunks)
        assert whole >= min(len(OTHER) - 1, len(item.chunks) - 2)
        if length == LENGTH:
            assert item.meta["prose"] == len(item.chunks) - 10


def test_two_hops_from_hotpotqa(tmp_path: Path) -> None:
    source = _write_hotpot(tmp_path / "hotpot.json")
    (item,) = generate_task("ruler_qa_2", bytes_tokenizer(), length=800, num_items=1, source=source)
    assert len(lay_out(item)) == 800
    first, second = (item.chunks[place].text for place in item.meta["gold_positions"])
    assert first == f"Orrin\n{GOLD}"
    assert second == f"Tamsin\n{SECOND}"
    assert item.answers == ("Varro",)
    assert len(load_questions(source, 2).questions) == 1  # yes is in no passage


def test_a_folder_of_rows_is_one_source(tmp_path: Path) -> None:
    _write_rows(tmp_path / "a.jsonl")
    _write_rows(tmp_path / "b.jsonl.gz")
    assert len(load_questions(tmp_path, 1).questions) == 6
    assert len(load_questions(tmp_path, 1).passages) == 10


def test_groups_are_clusters(tmp_path: Path) -> None:
    source = _write_rows(tmp_path / "rows.jsonl")
    items = generate_task("ruler_qa_1", bytes_tokenizer(), length=600, num_items=6, source=source)
    assert sorted(item.cluster for item in items) == sorted(f"ruler_qa_1/s0/g{at}" for at in (0, 1, 2, 0, 1, 2))


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("rows.jsonl", json.dumps(_row(0)) + "\n{broken", "line 2, is not of a known format"),
        (
            "rows.jsonl",
            json.dumps({"question": "Who?"}),
            "line 1, is not of a known format .KeyError: 'context_chunks'",
        ),
        ("data.json", "[1, 2]", "is not of a known format"),
        ("data.json", '{"data": [{}]}', "is not of a known format"),
        ("data.json", "[]", "holds no question with 1 gold passages"),
        ("data.json", "\ufeff", "is not of a known format"),
        ("missing", None, "cannot be read"),
    ],
)
def test_a_file_that_is_no_source(tmp_path: Path, name: str, content: str | None, complaint: str) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_text(content, "utf-8")
    with pytest.raises(DocumentError, match=complaint) as caught:
        generate_task("ruler_qa_1", bytes_tokenizer(), length=600, num_items=1, source=path)
    assert str(path) in str(caught.value)


def test_broken_gzip_is_no_source(tmp_path: Path) -> None:
    path = _write_rows(tmp_path / "rows.jsonl.gz")
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DocumentError, match="cannot be read"):
        load_questions(path, 1)


def test_every_own_question_is_asked_before_one_comes_again() -> None:
    items = make("ruler_qa_1", 500, 85)
    assert len({item.question for item in items[:80]}) == 80
    assert {item.question for item in items[80:]} <= {item.question for item in items[:80]}
    assert len({item.cluster for item in items}) == 40


@pytest.mark.parametrize(("hops", "number"), [(1, 80), (2, 40)])
def test_own_answers_are_in_one_passage(hops: int, number: int) -> None:
    source = load_questions(None, hops)
    assert len(source.questions) == number
    assert len(source.passages) == 40
    for question in source.questions:
        assert len(question.gold) == hops
        (answer,) = question.answers
        assert [p for p in source.passages if occurs(answer, p.spelled)] == [question.gold[-1]]
        assert not occurs(answer, question.text)
    if hops == 2:  # the first passage names the second
        assert all(question.gold[1].title in question.gold[0].text for question in source.questions)


def test_a_haystack_of_the_callers() -> None:
    text = " ".join(f"The {place}th goat of Mrs. Hale went home." for place in range(40, 90))
    (one,) = make("ruler_niah_single_2", LENGTH, 1, haystack=text)
    documents = [Document(text[:1000], "A title that is dropped"), Document(text[1000:])]
    (other,) = generate_task("passcode", bytes_tokenizer(), length=LENGTH, num_items=1, haystack=documents)
    for item in (one, other):
        assert len(lay_out(item)) == LENGTH
        assert item.meta["haystack"] == "the caller's"
        assert all("goat of Mrs. Hale" in text for text in spell(item))
        assert "title" not in "".join(spell(item))
        assert item.source.endswith("the caller's haystack")
    longer = make("ruler_niah_single_2", 5000, 1, haystack=text)[0]
    assert longer.meta["haystack_passes"] > 2
    assert one.meta["haystack_passes"] < longer.meta["haystack_passes"]
    assert one.id != make("ruler_niah_single_2", LENGTH, 1, haystack="noise")[0].id


def test_a_needle_is_never_in_the_haystack() -> None:
    """Nine of ten five-digit numbers are in this haystack: 12 draws without a look would all be new once in 10^12."""
    text = " ".join(f"Number {number}." for number in range(10000, 91000))
    for item in generate_task("passcode", bytes_tokenizer(), length=500, num_items=12, haystack=text):
        assert item.answers[0] not in text


@pytest.mark.parametrize("haystack", ["esay", "short text", 3, [], ["text"], [Document("too short")]])
def test_no_haystack(haystack: Any) -> None:
    with pytest.raises(BadInput, match=r"haystack is .*; it must be 'essay', 'noise', a text of at least 200"):
        generate_task("passcode", bytes_tokenizer(), length=500, num_items=1, haystack=haystack)
