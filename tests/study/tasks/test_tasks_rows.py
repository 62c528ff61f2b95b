"""Rows of this package's format: what they become, and that every malformed one is named with file and line."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rowfiles import make_row, write_chunks, write_lines, write_prompt

from fewer.errors import BadInput, DocumentError
from fewer.study.tasks.reading import read_lines, read_list
from fewer.study.tasks.rows import UNSCORED, merge_blank, read_rows

DEEP = '{"id": ' + "[" * 100_000 + "]" * 100_000 + "}"


def test_a_row_becomes_an_item(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "towers.jsonl", [make_row(0), make_row(3, supporting=..., answers=["red", "rot"])])
    first, second = read_rows(path, "towers")
    assert (first.id, first.task, first.category, first.cluster) == ("towers/0", "towers", "single_doc_qa", "tower 0")
    assert [(chunk.title, chunk.text) for chunk in first.chunks] == [("Harbour", "Tower 0 is red."), ("", "It is old.")]
    assert (first.question, first.answers, first.metric) == ("What colour is tower 0?", ("red",), "qa_f1")
    assert (first.supporting, second.supporting, second.answers) == ((0,), None, ("red", "rot"))
    assert (first.source, first.licence, first.meta["height"]) == ("a/b c.json d", "MIT", 41)
    assert first.meta["wording"].startswith("ours")
    assert write_prompt(first) == "Harbour\nTower 0 is red.\n\nIt is old.\n\nWhat colour is tower 0?"
    assert second.cluster == "tower 1"


def test_gzip_and_empty_lines_and_other_separators(tmp_path: Path) -> None:
    rows = [make_row(0, question="One\u2028two\x0bthree?"), "", "  ", make_row(1)]
    path = write_lines(tmp_path / "towers.jsonl.gz", rows)
    assert read_rows(path, "towers")[0].question == "One\u2028two\x0bthree?"
    assert [line.number for line in read_lines(path)] == [1, 4]


def test_fields_that_may_be_left_out(tmp_path: Path) -> None:
    row = make_row(0, meta=None, source=None, context_chunks=[], supporting=[])
    (item,) = read_rows(write_lines(tmp_path / "towers.jsonl", [row]), "towers")
    assert (item.chunks, item.supporting, item.source, item.licence) == ((), (), "", "")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"id": None}, "id is missing; the row has task, category"),
        ({"id": " "}, "id is ' '; it must be a text that is not blank"),
        ({"task": "spires"}, "task is 'spires'; it must be 'towers', as the file is named"),
        ({"category": 3}, "category is 3; it must be a text"),
        ({"group": None}, "group is missing"),
        ({"question": ""}, "question is ''; it must be a text that is not blank"),
        ({"question": "\ud800"}, r"question is '\\ud800'; it must be valid Unicode"),
        ({"answers": []}, r"answers is \[\]; it must be a list of at least one text"),
        ({"answers": "red"}, "answers is 'red'; it must be a list"),
        ({"answers": ["red", 4]}, r"answers\[1\] is 4; it must be a text"),
        ({"answers": [""]}, r"answers\[0\] is ''; it must be a text that is not blank"),
        ({"context_chunks": None}, "context_chunks is missing"),
        ({"context_chunks": "text"}, "context_chunks is 'text'; it must be a list of objects"),
        ({"context_chunks": ["text"]}, r"context_chunks\[0\] is 'text'; it must be an object with a text"),
        ({"context_chunks": [{"title": "no text"}]}, r"context_chunks\[0\] is .*; it must be an object with a text"),
        ({"context_chunks": [{"title": 1, "text": "a"}]}, r"context_chunks\[0\].title is 1; it must be a text"),
        ({"context_chunks": [{"text": "a"}, {"text": None}]}, r"context_chunks\[1\].text is None; it must be a text"),
        ({"context_chunks": [{"text": " \n"}]}, "context_chunks is .*at least one has text in it"),
        ({"supporting": None}, "supporting is missing"),
        ({"supporting": [2]}, r"supporting is \[2\]; it must be null, or a list of indices from 0 to 1"),
        ({"supporting": [-1]}, r"supporting is \[-1\]"),
        ({"supporting": [True]}, r"supporting is \[True\]"),
        ({"supporting": [0.0]}, r"supporting is \[0.0\]"),
        ({"supporting": "0"}, "supporting is '0'"),
        ({"context_chunks": [], "supporting": [0]}, "supporting is .* null or an empty list"),
        ({"metric": "bleurt"}, "metric of row 'towers/1' is 'bleurt'"),
        ({"metric": None}, "metric of row 'towers/1' is None"),
        ({"metric": "ramdocs"}, r"meta is \['height'\]; it must be an object with wrong_answers, which ramdocs needs"),
        ({"meta": [1]}, r"meta is \[1\]; it must be an object"),
        ({"source": "web"}, "source is 'web'; it must be an object"),
    ],
)
def test_a_malformed_row_is_named_with_file_and_line(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    path = write_lines(tmp_path / "towers.jsonl", [make_row(0), make_row(1, **changes)])
    with pytest.raises(BadInput, match=rf"towers\.jsonl, line 2: {said}"):
        read_rows(path, "towers")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"id": ', "is not JSON in UTF-8"),
        (b'{"id": "\xff"}', "is not JSON in UTF-8"),
        ('{"id": NaN}', "NaN is not a JSON number"),
        ("[1]", r"is \[1\]; it must be a JSON object"),
        (DEEP, "is not JSON in UTF-8"),
    ],
)
def test_a_line_that_is_no_object(tmp_path: Path, line: str | bytes, said: str) -> None:
    path = write_lines(tmp_path / "towers.jsonl", [make_row(0), line])
    with pytest.raises(BadInput, match=rf"towers\.jsonl, line 2 .*{said}"):
        read_rows(path, "towers")


def test_an_id_given_twice_names_both_lines(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "towers.jsonl", [make_row(0), make_row(1), "", make_row(0)])
    with pytest.raises(
        BadInput, match=r"line 4: id is 'towers/0'; it must be different in each row, and line 1 has it"
    ):
        read_rows(path, "towers")


def test_half_a_gzip_file(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "towers.jsonl.gz", [make_row(number) for number in range(50)])
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DocumentError, match=r"towers\.jsonl\.gz is a broken gzip file after line \d+"):
        read_rows(path, "towers")
    path.write_bytes(b"no gzip at all")
    with pytest.raises(DocumentError, match="is a broken gzip file after line 0"):
        read_rows(path, "towers")
    path.write_bytes(gzip.compress(b"x" * 4000)[:20] + b"\0" * 40)
    with pytest.raises(DocumentError, match="is a broken gzip file"):
        read_rows(path, "towers")


def test_files_that_are_not_there_or_empty(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match=r"gone\.jsonl cannot be read after line 0: No such file"):
        read_rows(tmp_path / "gone.jsonl", "gone")
    with pytest.raises(DocumentError, match=r"gone\.json cannot be read"):
        read_list(tmp_path / "gone.json")
    (tmp_path / "towers.jsonl").write_bytes(b"\n \n")
    with pytest.raises(BadInput, match="has no rows"):
        read_rows(tmp_path / "towers.jsonl", "towers")
    (tmp_path / "towers.json").write_text("[1]")
    with pytest.raises(BadInput, match="is not one list of JSON objects"):
        read_list(tmp_path / "towers.json")
    (tmp_path / "towers.json").write_text("[")
    with pytest.raises(BadInput, match="is not JSON in UTF-8"):
        read_list(tmp_path / "towers.json")


def test_rows_without_a_reference_are_not_scored(tmp_path: Path) -> None:
    row = make_row(0, metric="rouge_l", meta={"open_ended": True})
    (item,) = read_rows(write_lines(tmp_path / "towers.jsonl", [row]), "towers")
    assert item.metric == UNSCORED


def test_blank_chunks_go_with_a_neighbour(tmp_path: Path) -> None:
    texts = ["\n", "def f():", "    return 1", " ", "", "x = 2\n"]
    row = make_row(0, context_chunks=[{"text": text} for text in texts], supporting=[0, 3, 5])
    row |= {"task": "code_stdlib_infile", "metric": "edit_sim"}
    (item,) = read_rows(write_lines(tmp_path / "code_stdlib_infile.jsonl", [row]), "code_stdlib_infile")
    assert write_chunks(item) == ["\n\ndef f():", "    return 1\n \n", "x = 2\n"]
    assert "\n".join(write_chunks(item)) == "\n".join(texts)
    assert item.supporting == (0, 1, 2)


CHUNKS = st.lists(
    st.tuples(st.sampled_from(["", "T", "U"]), st.sampled_from(["", " ", "\n", "a", "b\n", "c d"])), max_size=8
)


@settings(max_examples=150, deadline=None)
@given(CHUNKS, st.sampled_from(["\n", "\n\n", " "]), st.data())
def test_merging_blank_chunks_loses_nothing(chunks: list[tuple[str, str]], between: str, data: st.DataObject) -> None:
    places = st.lists(st.integers(0, max(0, len(chunks) - 1)), max_size=3)
    supporting = tuple(data.draw(places)) if chunks else ()
    merged, moved = merge_blank(chunks, supporting, between)

    def spell(parts: list[tuple[str, str]]) -> list[str]:
        return [f"{title}\n{text}" if title else text for title, text in parts]

    assert between.join(spell(merged)) == between.join(spell(chunks))
    if any(text.strip() for _, text in chunks):
        assert all(text.strip() for _, text in merged)
    starts = [len(between.join(spell(chunks)[:index])) + len(between) * bool(index) for index in supporting]
    holders = [spell(merged)[: index + 1] for index in moved or ()]
    assert moved is not None
    assert len(moved) <= len(set(supporting))
    for start in starts:  # each supporting chunk lies in one that `moved` names
        ends = [len(between.join(holder)) for holder in holders]
        begins = [end - len(holder[-1]) for end, holder in zip(ends, holders, strict=True)]
        assert any(begin <= start <= end for begin, end in zip(begins, ends, strict=True))
    assert merge_blank(chunks, None, between) == (merged, None)
