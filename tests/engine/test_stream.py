"""An answer while it is written: the pieces joined are the text, however the reader behaves."""

from __future__ import annotations

import pytest
from tinytext import NUM_LAYERS, TOKENIZER

from fewer import Answer, Engine, StaticPrune

QUESTION, DOCUMENTS = "Who hello?", ["hello the world", "another one 😀"]


@pytest.fixture(scope="module")
def whole(engine: Engine) -> Answer:
    return engine.ask(QUESTION, DOCUMENTS, max_tokens=20)


def test_the_pieces_joined_are_the_text(engine: Engine, whole: Answer) -> None:
    stream = engine.stream(QUESTION, DOCUMENTS, max_tokens=20)
    pieces = list(stream)
    assert len(pieces) > 5
    assert all(pieces)
    assert "".join(pieces) == stream.answer.text == whole.text
    assert whole.text == TOKENIZER.decode(list(whole.ids), skip_special_tokens=True)
    assert stream.answer is stream.answer


def test_a_piece_is_there_before_the_next_token_is_computed(engine: Engine) -> None:
    stream = engine.stream(QUESTION, DOCUMENTS, max_tokens=20)
    for piece in stream:
        assert len(stream._sequence.ids) < 20
        assert stream._sequence.text.text.endswith(piece)
        break


def test_the_answer_without_reading_the_pieces(engine: Engine, whole: Answer) -> None:
    assert engine.stream(QUESTION, DOCUMENTS, max_tokens=20).answer.ids == whole.ids


def test_reading_on_after_a_pause(engine: Engine, whole: Answer) -> None:
    stream = engine.stream(QUESTION, DOCUMENTS, max_tokens=20)
    first = next(iter(stream))
    rest = "".join(stream)
    assert first + rest == whole.text
    assert list(stream) == []
    stream = engine.stream(QUESTION, DOCUMENTS, max_tokens=20)
    next(iter(stream))
    assert (stream.answer.text, stream.answer.finish_reason) == (whole.text, "length")


@pytest.mark.parametrize("pieces", [0, 1, 3])
def test_closing_early_keeps_what_is_there(engine: Engine, whole: Answer, pieces: int) -> None:
    with engine.stream(QUESTION, DOCUMENTS, max_tokens=20, prune=StaticPrune("100%")) as stream:
        reader = iter(stream)
        read = [next(reader) for _ in range(pieces)]
    assert list(reader) == list(stream) == []
    answer = stream.answer
    assert (answer.text, answer.finish_reason) == ("".join(read), "cancelled")
    assert whole.ids[: len(answer.ids)] == answer.ids
    assert len(answer.ids) < len(whole.ids)
    computed, prompt = answer.receipt.computed, answer.receipt.prompt
    assert computed.token_layers_full == (prompt.num_tokens + max(0, len(answer.ids) - 1)) * NUM_LAYERS
    if not pieces:
        assert (computed.token_layers_computed, answer.receipt.seconds.first_token_s) == (0, None)
        assert answer.receipt.memory.kv_total_bytes == 0
    stream.close()
    assert stream.answer.finish_reason == "cancelled"


def test_closing_a_finished_one_changes_nothing(engine: Engine, whole: Answer) -> None:
    with engine.stream(QUESTION, DOCUMENTS, max_tokens=20) as stream:
        list(stream)
    assert (stream.answer.ids, stream.answer.finish_reason) == (whole.ids, "length")


def test_an_exception_in_the_block_ends_the_request(engine: Engine) -> None:
    stream = engine.stream(QUESTION, DOCUMENTS, max_tokens=20)
    with pytest.raises(ZeroDivisionError), stream:
        _ = len(next(iter(stream))) / 0
    assert stream.answer.finish_reason == "cancelled"


def test_progress_is_told_of_every_layer_of_the_prefill(engine: Engine, whole: Answer) -> None:
    calls: list[tuple[int, int]] = []
    stream = engine.stream(QUESTION, DOCUMENTS, max_tokens=20, progress=lambda *call: calls.append(call))
    assert calls == []
    assert stream.answer.ids == whole.ids
    assert calls == [(layer, NUM_LAYERS) for layer in range(1, NUM_LAYERS + 1)]


def test_a_progress_that_raises(engine: Engine, whole: Answer) -> None:
    def progress(layer: int, layers: int) -> None:
        raise OSError("the terminal is gone")

    with pytest.raises(OSError, match="terminal is gone"):
        list(engine.stream(QUESTION, DOCUMENTS, max_tokens=20, progress=progress))
    assert engine.ask(QUESTION, DOCUMENTS, max_tokens=20).ids == whole.ids


def test_bad_settings_are_refused_before_anything_is_read(engine: Engine) -> None:
    with pytest.raises(TypeError, match="unknown keyword 'max_token'"):
        engine.stream(QUESTION, DOCUMENTS, max_token=20)
    with pytest.raises(ValueError, match="layer is 9"):
        engine.stream(QUESTION, DOCUMENTS, max_tokens=20, prune=StaticPrune(0.5, 9))
