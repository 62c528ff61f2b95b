"""Turns laid out one after the other are the template's own rendering of the whole conversation."""

from __future__ import annotations

from functools import cache

import pytest
from speaker import CHAT, TOKENIZER, byte_tokenizer
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from fewer import ModelError
from fewer.model.store import resolve
from fewer.prompt import lay_out
from fewer.session.transcript import Transcript

END_ID = TOKENIZER.eos_token_id


@cache
def real_tokenizer() -> PreTrainedTokenizerBase:
    return AutoTokenizer.from_pretrained(resolve().path)


def converse(tokenizer, ends: list[bool]) -> tuple[list[int], list[dict[str, str]]]:  # type: ignore[no-untyped-def]
    """Ids of a conversation laid out piece by piece, and its messages; whether each answer ended by itself."""
    transcript, end = Transcript(True), tokenizer.eos_token_id
    ids = transcript.add(tokenizer, [{"role": "system", "content": "Be short."}, {"role": "user", "content": "One."}])
    messages = [{"role": "system", "content": "Be short."}, {"role": "user", "content": "One.\n\nTwo?"}]
    for number, ended in enumerate(ends):
        ids += transcript.add_question(tokenizer, "Two?" if not number else f"And {number}?")
        if number:
            messages.append({"role": "user", "content": f"And {number}?"})
        answer = tokenizer("Fine.", add_special_tokens=False)["input_ids"] + [end] * ended
        transcript.add_answer(tokenizer, answer, {end})
        ids += answer
        messages.append({"role": "assistant", "content": "Fine."})
    ids += transcript.add(tokenizer, "Last.")
    return ids, [*messages, {"role": "user", "content": "Last."}]


@pytest.mark.parametrize("ends", [[True, True], [False, False], [True, False, True], []])
def test_bytes(ends: list[bool]) -> None:
    ids, messages = converse(TOKENIZER, ends)
    text = TOKENIZER.apply_chat_template(messages, tokenize=False)
    if not ends:
        text = text.replace("One.\n\nTwo?<|end|>\n<|turn|>user\nLast.", "One.\n\nLast.")
    assert TOKENIZER.decode(ids, skip_special_tokens=False) == text.removesuffix("<|end|>\n")
    assert ids == TOKENIZER(text, add_special_tokens=False)["input_ids"][:-2]


@pytest.mark.real
@pytest.mark.parametrize("ends", [[True, True], [False, True]])
def test_the_embedded_models_own(ends: list[bool]) -> None:
    tokenizer = real_tokenizer()
    ids, messages = converse(tokenizer, ends)
    text = tokenizer.apply_chat_template(messages, tokenize=False).removesuffix("<|im_end|>\n")
    assert tokenizer.decode(ids, skip_special_tokens=False) == text


@pytest.mark.real
@pytest.mark.parametrize("chat", [True, False])
@pytest.mark.parametrize("question", ["What?", "1 or 2?", " Spaces? ", "<|im_end|> is no end"])
def test_a_first_question_is_laid_out_as_by_the_engine(chat: bool, question: str) -> None:
    tokenizer = real_tokenizer()
    theirs = lay_out(tokenizer, question, max_positions=512, chat=chat).ids.tolist()
    assert Transcript(chat).add_question(tokenizer, question) == theirs


def test_plain_text_has_blank_lines_between() -> None:
    transcript = Transcript(False)
    ids = transcript.add(TOKENIZER, "One.") + transcript.add_question(TOKENIZER, " Two? ")
    assert TOKENIZER.decode(ids) == "One.\n\nTwo?\n"
    transcript.add_answer(TOKENIZER, [65, END_ID], {END_ID})
    assert TOKENIZER.decode(transcript.add_question(TOKENIZER, "Three?")) == "\n\nThree?\n"


def test_control_tokens_in_a_text_stay_text() -> None:
    transcript = Transcript(True)
    ids = transcript.add(TOKENIZER, "a<|end|>b") + transcript.add_question(TOKENIZER, "<|turn|>")
    assert ids.count(END_ID) == 1
    assert TOKENIZER.decode(ids) == "<|turn|>user\na<|end|>b\n\n<|turn|><|end|>\n<|turn|>assistant\n"


def test_token_ids_belong_to_the_open_turn() -> None:
    transcript = Transcript(True)
    ids = transcript.add(TOKENIZER, "a")
    given = TOKENIZER("xy")["input_ids"]
    ids += transcript.add(TOKENIZER, given) + transcript.add_question(TOKENIZER, "b")
    assert TOKENIZER.decode(ids) == "<|turn|>user\naxy\n\nb<|end|>\n<|turn|>assistant\n"


@pytest.mark.parametrize(
    ("template", "words"),
    [
        (CHAT.replace("turn['content']", "turn['content'] if loop.last else 'gone'"), "every turn once"),
        (
            CHAT.replace("\n{{ turn['content']", "{{ '!' if loop.last else '?' }}\n{{ turn['content']"),
            "anew once others",
        ),
        ("{{ raise_exception('only two turns') if messages|length > 2 }}" + CHAT, "fails on the turns user, assistant"),
    ],
    ids=["forgets", "rewrites", "refuses"],
)
def test_templates_that_a_session_cannot_follow(template: str, words: str) -> None:
    tokenizer, transcript = byte_tokenizer(template), Transcript(True)
    transcript.add_question(tokenizer, "One?")
    transcript.add_answer(tokenizer, [65], {END_ID})
    with pytest.raises(ModelError, match=f"{words}.*chat=False"):
        transcript.add_question(tokenizer, "Two?")
