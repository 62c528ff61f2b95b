"""From tokens to text: pieces joined are the decoded text, no half characters, and never a part of a stop string."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tinytext import END_ID, TOKENIZER, TURN_ID, VOCAB, byte_letter, random_ids, request, space_tokenizer
from transformers import PreTrainedTokenizerBase

from fewer import Engine
from fewer.engine.batch import Batch
from fewer.engine.sequence import Sequence
from fewer.engine.text import TextStream

SPACES = space_tokenizer()
BROKEN = "\ufffd"
LETTERS = "aéß中文字한ไทभा😀👩‍👧🇩🇪 \n\t▁Ġ'.,\u0301\u200d"
TEXTS = st.text(st.one_of(st.sampled_from(LETTERS), st.characters(codec="utf-8")), max_size=30)
often = settings(max_examples=100, deadline=None, derandomize=True)


def read(
    tokenizer: PreTrainedTokenizerBase, ids: list[int], stop: tuple[str, ...] = ()
) -> tuple[list[str], TextStream]:
    """The pieces as the engine takes them: up to a stop string, and what is left at the end."""
    stream = TextStream(tokenizer, stop)
    pieces = []
    for token in ids:
        pieces.append(stream.push(token))
        assert stream.text == "".join(pieces)
        if stream.stopped:
            break
    pieces.append(stream.finish())
    assert stream.text == "".join(pieces)
    return pieces, stream


def decode(tokenizer: PreTrainedTokenizerBase, ids: list[int]) -> str:
    return tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)


def encode(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    return tokenizer(text, add_special_tokens=False, split_special_tokens=True)["input_ids"]


def spell(tokenizer: PreTrainedTokenizerBase, data: bytes) -> list[int]:
    """A token for every byte."""
    return [tokenizer.convert_tokens_to_ids(byte_letter(byte)) for byte in data]


def check_text(tokenizer: PreTrainedTokenizerBase, text: str) -> None:
    ids = encode(tokenizer, text)
    pieces, stream = read(tokenizer, ids)
    assert stream.text == decode(tokenizer, ids)
    for piece in pieces:
        assert BROKEN not in piece or BROKEN in decode(tokenizer, ids)  # the tokenizer may lack a byte
        piece.encode()  # no half of a surrogate pair


@given(TEXTS)
@often
def test_any_text_over_bytes(text: str) -> None:
    check_text(TOKENIZER, text)
    ids = spell(TOKENIZER, text.encode())
    _, stream = read(TOKENIZER, ids)
    assert stream.text == text


@given(st.text(st.sampled_from("ab the中文éß\n😀x ▁"), max_size=30))
@often
def test_any_text_with_spaces_as_letters(text: str) -> None:
    check_text(SPACES, text)


@pytest.mark.real
@given(text=TEXTS)
@often
def test_any_text_with_the_real_tokenizer(real_tokenizer: PreTrainedTokenizerBase, text: str) -> None:
    check_text(real_tokenizer, text)


@given(st.lists(st.integers(0, VOCAB - 1), max_size=30))
@often
def test_any_tokens_at_all(ids: list[int]) -> None:
    pieces, stream = read(TOKENIZER, ids)
    assert stream.text == decode(TOKENIZER, ids)
    shown = ""
    for piece in pieces[:-1]:
        shown += piece
        assert not piece.endswith(BROKEN)


@given(st.lists(st.sampled_from([1, 2, 3, 260, 261, 320, 354, 356, 358, 360, 362, 363, 364]), max_size=20))
@often
def test_words_that_begin_with_a_space_keep_it(ids: list[int]) -> None:
    """Also beside control tokens, and beside tokens without a text of their own."""
    _, stream = read(SPACES, ids)
    assert stream.text == decode(SPACES, ids)


@pytest.mark.parametrize("character", ["é", "中", "😀", "€"])
def test_a_character_waits_for_its_last_byte(character: str) -> None:
    data = character.encode()
    pieces, _ = read(TOKENIZER, [0, *spell(TOKENIZER, data), 1])
    assert pieces == ["!", *[""] * (len(data) - 1), character, '"', ""]


@pytest.mark.parametrize("size", [1, 2, 3])
def test_an_unfinished_character_is_shown_as_broken_at_the_end(size: int) -> None:
    ids = [0, *spell(TOKENIZER, "😀".encode()[:size])]
    pieces, stream = read(TOKENIZER, ids)
    assert pieces == ["!", *[""] * size, BROKEN]
    assert stream.text == decode(TOKENIZER, ids) == "!" + BROKEN


def test_a_character_in_two_merged_tokens() -> None:
    half, rest = TOKENIZER.convert_tokens_to_ids(["Ġð", "Ł"]), spell(TOKENIZER, "😀".encode()[2:])
    pieces, _ = read(TOKENIZER, [*half, *rest])
    assert pieces == ["", "", "", " 😀", ""]


def test_a_character_the_model_itself_calls_broken() -> None:
    ids = [0, *spell(TOKENIZER, BROKEN.encode()), 1]
    assert read(TOKENIZER, ids)[1].text == "!" + BROKEN + '"'
    assert read(TOKENIZER, ids[:-1])[1].text == "!" + BROKEN


def test_control_tokens_are_no_text() -> None:
    half = spell(TOKENIZER, "é".encode())
    pieces, _ = read(TOKENIZER, [TURN_ID, 0, END_ID, half[0], TURN_ID, half[1], END_ID])
    assert pieces == ["", "!", "", "", "", "é", "", ""]


HELLO = [259, 220, 83, 256]  # hello, space, t, he
CASES = {
    "none there": (HELLO, ("xyz",), "hello the", False),
    "a whole token": (HELLO, ("he",), "", True),
    "in the middle of a token": (HELLO, ("ll",), "he", True),
    "over two tokens": (HELLO, ("o t",), "hell", True),
    "over three tokens": (HELLO, (" the",), "hello", True),
    "at the very start": (HELLO, ("hello",), "", True),
    "the whole answer": (HELLO, ("hello the",), "", True),
    "at the very end": (HELLO, ("e",), "h", True),
    "only its beginning": (HELLO, ("then",), "hello the", False),
    "its beginning twice": ([*encode(TOKENIZER, "a aab"), 64, 0], ("aaba!",), "a ", True),
    "overlapping itself": (spell(TOKENIZER, b"aaab"), ("aab",), "a", True),
    "almost, then really": (spell(TOKENIZER, b"ababac."), ("abac",), "ab", True),
    "one inside another": (spell(TOKENIZER, b"xabcd"), ("abcd", "bc"), "xa", True),
    "both in one token": ([259], ("lo", "el"), "h", True),
    "one begins where the other fails": (spell(TOKENIZER, b"xabay"), ("abc", "bay"), "xa", True),
    "a half one before the end token": ([*HELLO, 198], ("\n\n",), "hello the\n", False),
    "unicode": (spell(TOKENIZER, "a中文b".encode()), ("文",), "a中", True),
    "behind half a character": ([*spell(TOKENIZER, b"x"), TOKENIZER.convert_tokens_to_ids("aÃ")], ("a",), "x", True),
}


@pytest.mark.parametrize("case", CASES)
def test_stop_strings(case: str) -> None:
    ids, stop, text, stopped = CASES[case]
    _, stream = read(TOKENIZER, ids, stop)
    assert (stream.text, stream.stopped) == (text, stopped)
    assert stream.finish() == ""


@given(
    st.text(st.sampled_from("ab é中"), max_size=20),
    st.lists(st.text(st.sampled_from("ab é中"), min_size=1, max_size=4), min_size=1, max_size=3),
)
@often
def test_the_text_never_holds_a_stop_string(text: str, stop: list[str]) -> None:
    for ids in (encode(TOKENIZER, text), spell(TOKENIZER, text.encode())):
        _, stream = read(TOKENIZER, ids, tuple(stop))
        assert stream.stopped == any(one in text for one in stop)
        assert not any(one in stream.text for one in stop)
        if stream.stopped:
            assert any(text.startswith(stream.text + one) for one in stop)
        else:
            assert stream.text == text


def play(engine: Engine, ids: list[int], **sampling: object) -> Sequence:
    """A request through the engine that "generates" these tokens."""
    batch = Batch(engine.adapter, engine.tokenizer, engine.end_tokens)
    sequence = batch.add(request(random_ids(1, 5), **{"max_tokens": len(ids), **sampling}))
    script = iter(ids)
    sequence.sampler.choose = lambda logits: next(script)
    while not batch.idle:
        batch.step()
    return sequence


@pytest.mark.parametrize("case", CASES)
def test_stop_strings_end_the_request(engine: Engine, case: str) -> None:
    ids, stop, text, stopped = CASES[case]
    sequence = play(engine, ids, stop=stop)
    assert (sequence.text.text, sequence.finish_reason) == (text, "stop_string" if stopped else "length")
    assert sequence.ids == ids[: len(sequence.ids)]
    if not stopped:
        ended = play(engine, [*ids, END_ID, 5], stop=stop)
        assert (ended.text.text, ended.finish_reason, ended.ids) == (text, "stop", [*ids, END_ID])


def test_nothing_is_generated_after_a_stop_string(engine: Engine) -> None:
    assert play(engine, [259, 220, 83, 256, 0, 0, 0], stop=(" th",)).ids == [259, 220, 83, 256]


def test_a_half_character_at_the_last_token(engine: Engine) -> None:
    half = spell(TOKENIZER, "中".encode()[:2])
    assert play(engine, [0, *half]).text.text == "!" + BROKEN
    assert play(engine, [0, *half, END_ID]).text.text == "!" + BROKEN


def test_stop_strings_cut_what_would_have_been_generated(engine: Engine) -> None:
    (free,) = engine.generate([request(random_ids(10, 17), max_tokens=30)])
    for start in range(0, len(free.text) - 3, 4):
        stop = free.text[start : start + 3]
        (answer,) = engine.generate([request(random_ids(10, 17), max_tokens=30, stop=stop)])
        assert answer.text == free.text[: free.text.index(stop)]
        assert answer.finish_reason == "stop_string"
        assert answer.ids == free.ids[: len(answer.ids)]
        assert answer.receipt.settings.sampling["stop"] == [stop]
