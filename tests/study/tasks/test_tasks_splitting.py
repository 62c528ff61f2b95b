"""Contexts cut into chunks: nothing is lost, no chunk is blank, and evidence is found across cuts."""

from __future__ import annotations

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from fewer.study.tasks.splitting import find_holders, split_at, split_text

TEXT = st.text(alphabet="ab .,\n\t€", max_size=400)


@settings(max_examples=150, deadline=None)
@given(TEXT, st.integers(2, 60))
def test_pieces_are_the_text_and_none_is_blank(text: str, size: int) -> None:
    pieces = split_text(text, size)
    assert "".join(pieces) == text
    assert not text.strip() or all(piece.strip() for piece in pieces)
    bodies = [piece for piece in pieces if len(piece.strip()) > size * 3 // 2]
    assert not bodies or max(map(len, bodies)) <= len(text)
    mark = re.compile("^a", re.M)
    for marked in (split_at(text, mark), split_at(text, mark, size)):
        assert "".join(marked) == text
        assert not text.strip() or all(piece.strip() for piece in marked)


def test_pieces_end_where_a_reader_pauses() -> None:
    paragraphs = "".join(f"{'word ' * 30}end.\n\n" for _ in range(20))
    assert all(piece.endswith(".\n\n") for piece in split_text(paragraphs, 400))
    lines = "".join(f"line {number} of the record\n" for number in range(200))
    assert all(piece.endswith("\n") for piece in split_text(lines, 400))
    sentences = "It is so. " * 200
    assert all(piece.endswith(". ") for piece in split_text(sentences, 400))
    pairs = "{" + ", ".join(f'"{number:08d}": "{number * 7:08d}"' for number in range(100)) + "}"
    assert all(piece.endswith(", ") for piece in split_text(pairs, 300)[:-1])
    assert [len(piece) for piece in split_text("x" * 1000, 200)] == [300, 300, 300, 100]


def test_sizes_are_near_the_one_asked_for() -> None:
    words = "some words of a text without any stop " * 400
    sizes = [len(piece) for piece in split_text(words, 900)]
    assert all(450 <= size <= 1350 for size in sizes[:-1])
    assert abs(sum(sizes) / len(sizes) - 900) < 100


def test_marks_begin_pieces() -> None:
    text = "Intro\nPassage 1:\none\nPassage 2:\ntwo"
    mark = re.compile(r"^Passage \d+:", re.M)
    assert split_at(text, mark) == ["Intro\nPassage 1:\none\n", "Passage 2:\ntwo"]
    assert split_at("no marks", mark) == ["no marks"]


def test_evidence_is_found_across_cuts() -> None:
    pieces = ["The lamp is ", "red. It is ", "old."]
    assert find_holders(pieces, ["The lamp"]) == (0,)
    assert find_holders(pieces, ["is red."]) == (0, 1)
    assert find_holders(pieces, ["old", "lamp"]) == (0, 2)
    assert find_holders(pieces, ["The lamp is red. It is old."]) == (0, 1, 2)
    assert find_holders(pieces, ["blue"]) is None
    assert find_holders(pieces, [" "]) is None
    assert find_holders(pieces, []) == ()
