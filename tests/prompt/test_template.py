"""The chat templates of well-known models, and templates that cannot be used."""

from __future__ import annotations

import pytest
from placing import DOCUMENTS, QUESTION, USER_TURN, check, place, read
from tinytokens import CHATML, INST, byte_level

from fewer.errors import ModelError

SYSTEM_LAST = (  # Mistral's later templates
    "{{ bos_token }}{% for m in messages %}{% if m['role'] == 'system' %}{% set system = m['content'] %}{% endif %}"
    "{% endfor %}{{ '[INST] ' }}{% for m in messages %}{% if m['role'] == 'system' %}{{ m['content'] + '\n\n' }}"
    "{% endif %}{% endfor %}{{ messages[-1]['content'] + '[/INST]' }}"
)
SYSTEM_LOST = (
    "{% for m in messages %}{% if m['role'] == 'user' %}{{ '<|im_start|>' + m['content'] }}{% endif %}{% endfor %}"
)


@pytest.mark.parametrize(
    ("chat", "expected"),
    [
        (CHATML, "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"),
        (INST, "<s>[INST] Be brief.\n\n{} [/INST]"),
        (SYSTEM_LAST, "<s>[INST] Be brief.\n\n{}[/INST]"),
        (SYSTEM_LOST, "<|im_start|>Be brief.\n\n{}"),
    ],
    ids=["its own turn", "refused by the template", "before the last turn", "not written by the template"],
)
def test_system_text(chat: str, expected: str) -> None:
    tokenizer = byte_level(chat)
    prompt = place(tokenizer, QUESTION, DOCUMENTS, system="Be brief.", answer_prefix="It is ")
    check(prompt)
    assert read(tokenizer, prompt) == expected.format(USER_TURN) + "It is "
    assert read(tokenizer, prompt, *prompt.query) == f" {QUESTION}"


def test_empty_system_text_replaces_the_templates_own() -> None:
    tokenizer = byte_level()
    assert "Be kind." in read(tokenizer, place(tokenizer, QUESTION))
    assert "Be kind." not in read(tokenizer, place(tokenizer, QUESTION, system=""))


@pytest.mark.parametrize(
    ("chat", "message"),
    [
        ("{{ messages[0]['content'] * 2 }}", "writes the document 1 2 times"),
        ("{{ 'Hello' }}", "writes the document 1 0 times"),
        ("{{ messages[0]['content'].split('Read')[0] }}", "writes the document 1 0 times"),
        ("{{ raise_exception('No users') }}", "template fails .*No users"),
        ("{{ messages[0]['content'][0]['text'].x.y }}", "template fails"),
        ("{% if %}", "template fails"),
    ],
)
def test_templates_that_cannot_be_used(chat: str, message: str) -> None:
    with pytest.raises(ModelError, match=rf"{message}.*Take out"):
        place(byte_level(chat), QUESTION, DOCUMENTS)
    assert len(place(byte_level(chat), QUESTION, DOCUMENTS, chat=False)) > 20
