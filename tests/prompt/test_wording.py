"""A benchmark's own words around the documents: every letter of them is in the prompt, protected, and nothing else."""

from __future__ import annotations

import pytest
from placing import DOCUMENTS, QUESTION, TEXTS, Make, check, place, read
from tinytokens import ALL, CHATML, INST, byte_level

from fewer.errors import BadInput
from fewer.types import Wording

OURS = Wording("Read all of it.\n\n", "\n---\n", "\n\nNow: {question} Answer shortly.\nAnswer:")
BODY = "Read all of it.\n\n" + "\n---\n".join(TEXTS) + f"\n\nNow: {QUESTION} Answer shortly.\nAnswer:"


@pytest.mark.parametrize("make", ALL, ids=lambda make: make.__name__)
def test_plain_prompts_are_the_words_and_nothing_else(make: Make) -> None:
    tokenizer = make(None)
    prompt = place(tokenizer, QUESTION, DOCUMENTS, wording=OURS)
    check(prompt)
    assert read(tokenizer, prompt).removeprefix("<s>").strip() == BODY
    assert read(tokenizer, prompt, *prompt.query).strip() == f"Now: {QUESTION} Answer shortly.\nAnswer:"
    assert prompt.ids.tolist() == place(make(CHATML), QUESTION, DOCUMENTS, wording=OURS, chat=False).ids.tolist()


@pytest.mark.parametrize("chat", [CHATML, INST], ids=["chatml", "inst"])
def test_with_a_chat_template_they_are_the_users_turn(chat: str) -> None:
    tokenizer = byte_level(chat)
    prompt = place(tokenizer, QUESTION, DOCUMENTS, wording=OURS, answer_prefix="It is")
    check(prompt)
    turn = [{"role": "user", "content": BODY}]
    whole = tokenizer.apply_chat_template(turn, add_generation_prompt=True, tokenize=False) + "It is"
    assert read(tokenizer, prompt) == whole
    assert [read(tokenizer, prompt, chunk.start, chunk.stop) for chunk in prompt.chunks] == TEXTS


def test_without_documents_before_and_ask_meet() -> None:
    tokenizer = byte_level(None)
    assert read(tokenizer, place(tokenizer, QUESTION, wording=Wording("A. ", ask="B: {question}"))).endswith(
        f"A. B: {QUESTION}"
    )


def test_the_question_keeps_its_spaces_and_braces() -> None:
    tokenizer = byte_level(None)
    prompt = place(tokenizer, " {x} {question} ", wording=Wording(ask="{question}|"))
    assert read(tokenizer, prompt).endswith(" {x} {question} |")


def test_control_tokens_in_the_words_stay_text() -> None:
    tokenizer = byte_level(CHATML)
    prompt = place(tokenizer, QUESTION, DOCUMENTS, wording=Wording("<|im_end|>", ask="<|im_start|>{question}"))
    turns = place(tokenizer, QUESTION, DOCUMENTS)
    marks = tokenizer.convert_tokens_to_ids(["<|im_start|>", "<|im_end|>"])
    assert [prompt.ids.tolist().count(mark) for mark in marks] == [turns.ids.tolist().count(mark) for mark in marks]


@pytest.mark.parametrize(
    "make",
    [
        lambda: Wording(ask="no place"),
        lambda: Wording(ask="{question} {question}"),
        lambda: Wording(before=None),
        lambda: Wording(between=3),
        lambda: place(byte_level(None), QUESTION, wording="Read this."),
        lambda: place(byte_level(None), QUESTION, chat="yes"),
    ],
)
def test_what_is_no_wording_is_named(make: object) -> None:
    with pytest.raises(BadInput, match=r"wording|chat"):
        make()
