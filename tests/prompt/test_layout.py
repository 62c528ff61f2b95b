"""Where the parts of a prompt lie, on tokenizers of every kind."""

from __future__ import annotations

import pytest
import torch
from placing import DOCUMENTS, QUESTION, TEXTS, USER_TURN, Make, check, place, read
from tinytokens import ALL, CHATML, INST, TURNS, byte_level

from fewer.errors import BadInput, DocumentError, PromptTooLong
from fewer.prompt import lay_out
from fewer.types import Document


@pytest.mark.parametrize("chat", [CHATML, INST, TURNS], ids=["chatml", "inst", "turns"])
@pytest.mark.parametrize("make", ALL, ids=lambda make: make.__name__)
def test_ids_are_those_of_the_whole_text(make: Make, chat: str) -> None:
    tokenizer = make(chat)
    for documents, turn in ((DOCUMENTS, USER_TURN), ([], QUESTION)):
        prompt = place(tokenizer, QUESTION, documents)
        check(prompt)
        whole = tokenizer.apply_chat_template([{"role": "user", "content": turn}], add_generation_prompt=True)
        assert prompt.ids.tolist() == whole["input_ids"]
        assert read(tokenizer, prompt, *prompt.query).strip() == QUESTION


@pytest.mark.parametrize("make", ALL, ids=lambda make: make.__name__)
def test_plain_layout(make: Make) -> None:
    tokenizer = make(None)
    whole = "\n\n".join(["Be brief.", *TEXTS, QUESTION]) + "\n"
    for prompt in (
        place(tokenizer, QUESTION, DOCUMENTS, system="Be brief."),
        place(make(CHATML), QUESTION, DOCUMENTS, system="Be brief.", chat=False),
    ):
        check(prompt)
        assert prompt.ids.tolist() == tokenizer(whole)["input_ids"]
        assert prompt.ids.tolist().count(tokenizer.bos_token_id) == 1


def test_chunks_query_and_titles() -> None:
    tokenizer = byte_level()
    prompt = place(tokenizer, f"  {QUESTION}\n", DOCUMENTS)
    assert [chunk.title for chunk in prompt.chunks] == ["lamp.txt", "Stairs", "document 3"]
    assert [read(tokenizer, prompt, chunk.start, chunk.stop) for chunk in prompt.chunks] == TEXTS
    assert read(tokenizer, prompt, *prompt.query) == f" {QUESTION}"


@pytest.mark.parametrize("split", ["document", "paragraph", 7])
def test_duplicate_documents_are_two_chunks(split: str | int) -> None:
    prompt = place(byte_level(), QUESTION, [DOCUMENTS[1], DOCUMENTS[1]], split=split)
    check(prompt)
    spans = [prompt.ids[chunk.start : chunk.stop].tolist() for chunk in prompt.chunks]
    half = len(spans) // 2
    assert spans[:half] == spans[half:]
    assert len({chunk.start for chunk in prompt.chunks}) == len(spans)


def test_splits() -> None:
    tokenizer = byte_level()
    whole, paragraphs, sevens = (place(tokenizer, QUESTION, DOCUMENTS, split=s) for s in ("document", "paragraph", "7"))
    assert torch.equal(whole.ids[~whole.protected], sevens.ids[~sevens.protected])
    assert torch.equal(whole.ids, paragraphs.ids)
    assert [chunk.title for chunk in paragraphs.chunks] == [
        "lamp.txt",
        "Stairs (1 of 2)",
        "Stairs (2 of 2)",
        "document 3",
    ]
    for title, size in (("lamp.txt", whole.chunks[0].num_tokens), ("document 3", whole.chunks[2].num_tokens)):
        sizes = [chunk.num_tokens for chunk in sevens.chunks if chunk.title.startswith(title)]
        assert sizes == [7] * (size // 7) + [size % 7] * (size % 7 > 0)


def test_sinks() -> None:
    tokenizer = byte_level(None)
    for sinks in (0, 1, 4):
        prompt = place(tokenizer, QUESTION, DOCUMENTS, sinks=sinks)
        check(prompt, sinks)
        assert prompt.chunks[0].start == max(1, sinks)  # the begin-of-text token is no part of a document
    everything = place(tokenizer, QUESTION, DOCUMENTS, sinks=1000)
    assert everything.protected.all()
    assert everything.chunks == ()


def test_truncation_at_every_length() -> None:
    tokenizer = byte_level()
    full = place(tokenizer, QUESTION, DOCUMENTS)
    text = full.ids[~full.protected]
    head, tail = full.ids[: full.chunks[0].start], full.ids[full.chunks[-1].stop :]
    delimiter = full.chunks[1].start - full.chunks[0].stop
    fewest = len(head) + 1 + len(tail)
    for room in range(len(full), fewest - 1, -1):
        prompt = lay_out(tokenizer, QUESTION, DOCUMENTS, max_positions=room + 8, max_tokens=8, truncate=True)
        check(prompt)
        assert 0 <= room - len(prompt) <= delimiter  # a document that is cut away takes its delimiter along
        kept = prompt.ids[~prompt.protected]
        assert torch.equal(kept, text[: len(kept)])
        assert torch.equal(prompt.ids[: prompt.chunks[0].start], head)
        assert torch.equal(prompt.ids[prompt.chunks[-1].stop :], tail)
        assert read(tokenizer, prompt, *prompt.query) == f" {QUESTION}"
        assert prompt.truncated == len(text) - len(kept)
    assert len(prompt) == fewest
    with pytest.raises(PromptTooLong, match=f"not enough: the other {fewest - 1} tokens"):
        lay_out(tokenizer, QUESTION, DOCUMENTS, max_positions=fewest + 7, max_tokens=8, truncate=True)


def test_what_fits_is_not_cut() -> None:
    whole = lay_out(byte_level(), QUESTION, DOCUMENTS, max_positions=4096)
    allowed = lay_out(byte_level(), QUESTION, DOCUMENTS, max_positions=4096, truncate=True)
    assert torch.equal(allowed.ids, whole.ids)
    assert (allowed.truncated, allowed.chunks) == (0, whole.chunks)


def test_too_long() -> None:
    tokenizer = byte_level()
    size = len(place(tokenizer, QUESTION, DOCUMENTS))
    assert len(place(tokenizer, QUESTION, DOCUMENTS, max_positions=size + 5, max_tokens=5)) == size
    with pytest.raises(PromptTooLong) as caught:
        place(tokenizer, QUESTION, DOCUMENTS, max_positions=size + 4, max_tokens=5)
    assert f"has {size} tokens and 5 more" in str(caught.value)
    assert f"{size + 5} together; the model has {size + 4} positions" in str(caught.value)
    assert "--truncate" in str(caught.value)
    with pytest.raises(PromptTooLong, match="Shorten the question"):
        place(tokenizer, QUESTION * 9, max_positions=20, truncate=True)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"question": ""}, BadInput, "question is ''"),
        ({"question": " \n\t "}, BadInput, "not blank"),
        ({"question": None}, BadInput, "question is None; it must be a string"),
        ({"question": "\ud800"}, BadInput, "surrogate"),
        ({"system": 3}, BadInput, "system is 3"),
        ({"answer_prefix": None}, BadInput, "answer_prefix is None"),
        ({"documents": ["x", " \n"]}, DocumentError, "Document 2 is empty"),
        ({"documents": [Document("", "T", "t.md")]}, DocumentError, r"Document 1 \(T\) \(t.md\) is empty"),
        ({"documents": "text"}, BadInput, "a list"),
        ({"split": "sentence"}, BadInput, "split is 'sentence'"),
        ({"sinks": -1}, BadInput, "sinks is -1; it must be a whole number of at least 0"),
        ({"sinks": 1.5}, BadInput, "sinks is 1.5"),
        ({"max_tokens": -1}, BadInput, "max_tokens is -1"),
        ({"max_positions": 0}, BadInput, "max_positions is 0"),
        ({"max_positions": True}, BadInput, "max_positions is True"),
    ],
)
def test_bad_input(options: dict[str, object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        place(byte_level(), **{"question": QUESTION, **options})
