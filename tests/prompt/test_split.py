"""Documents cut into pieces: nothing is lost, added or moved."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fewer.errors import BadInput
from fewer.prompt import Splitter


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("document", Splitter("document")),
        (" paragraph ", Splitter("paragraph")),
        ("256", Splitter("tokens", 256)),
        (1, Splitter("tokens", 1)),
        (Splitter("tokens", 3), Splitter("tokens", 3)),
    ],
)
def test_parse(value: str | int | Splitter, expected: Splitter) -> None:
    assert Splitter.parse(value) == expected
    assert Splitter.parse(str(expected)) == expected


@pytest.mark.parametrize(
    "value", ["", "sentence", "Document", 0, -3, "-3", "0", 2.5, "2.5", True, None, "²", "256 tokens"]
)
def test_parse_refuses(value: object) -> None:
    with pytest.raises(BadInput, match=r"split is .*document, paragraph, or a whole number of tokens"):
        Splitter.parse(value)


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("", [""]),
        ("one", ["one"]),
        ("one\ntwo", ["one\ntwo"]),
        ("one\n\ntwo", ["one\n\n", "two"]),
        ("one\n \t\n\n  two\n\nthree\n", ["one\n \t\n\n", "  two\n\n", "three\n"]),
        ("\n\none\n\n\n", ["\n\none\n\n\n"]),
        (" \n\n ", [" \n\n "]),
        ("a\n\nb\n\nc", ["a\n\n", "b\n\n", "c"]),
    ],
)
def test_paragraphs(text: str, pieces: list[str]) -> None:
    assert Splitter.parse("paragraph").split_text(text) == pieces


@settings(max_examples=200, deadline=None, derandomize=True)
@given(text=st.text("ab \n\t\u2028é"))
def test_pieces_are_the_text(text: str) -> None:
    for unit in ("document", "paragraph", "5"):
        pieces = Splitter.parse(unit).split_text(text)
        assert "".join(pieces) == text
        assert len(pieces) == 1 or all(piece.strip() for piece in pieces)


@pytest.mark.parametrize("size", [1, 2, 3, 9, 10, 11])
def test_runs_of_tokens(size: int) -> None:
    ids = list(range(10))
    runs = Splitter.parse(size).split_ids(ids)
    assert [token for run in runs for token in run] == ids
    assert all(len(run) == size for run in runs[:-1])
    assert 1 <= len(runs[-1]) <= size
    assert Splitter.parse("document").split_ids(ids) == Splitter.parse("paragraph").split_ids(ids) == [ids]
    assert Splitter.parse("document").split_ids([]) == Splitter.parse(size).split_ids([]) == []
