"""Every task: exact lengths, labelled evidence, and the same items however they are made."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from generating import COUNTED, NAMES, bytes_tokenizer, holds, lay_out, make, pieces_tokenizer, spell
from transformers import AutoTokenizer

from fewer.errors import BadInput
from fewer.model.store import resolve
from fewer.study.metrics import METRICS
from fewer.study.tasks.generate import GENERATORS, generate_task

LENGTH = 1500  # long enough for every task under the tests' tokenizers
SHORT = {  # settings with which a task is shorter
    "ruler_vt": {"example": False},
    "diffuse": {"parts": 3},
    "multi_hop": {"distractors": 1},
    "several_questions": {"questions": 2},
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("length", [LENGTH, 2077])
def test_every_item_has_the_length_asked_for(name: str, length: int) -> None:
    for item in make(name, length):
        prompt = lay_out(item)
        assert len(prompt) == length == item.meta["length"]
        assert len(prompt.chunks) == len(item.chunks)
        assert (item.task, item.category) == (name, GENERATORS[name].category)


@pytest.mark.parametrize("name", NAMES)
def test_lengths_under_a_tokenizer_that_adds_a_space(name: str) -> None:
    tokenizer = pieces_tokenizer()
    (item,) = generate_task(name, tokenizer, length=2500, num_items=1)
    assert len(lay_out(item, tokenizer)) == 2500


@pytest.mark.parametrize("name", NAMES)
def test_plain_text(name: str) -> None:
    (item,) = make(name, LENGTH, 1, chat=False)
    assert len(lay_out(item)) == LENGTH
    text = bytes_tokenizer().decode(lay_out(item).ids)
    assert "<|im_start|>" not in text
    assert text.endswith(item.answer_prefix)
    assert item.answer_prefix.startswith(" ")


@pytest.mark.parametrize("name", sorted(SHORT))
@pytest.mark.parametrize("length", [500, 601])
def test_short_lengths(name: str, length: int) -> None:
    (item,) = make(name, length, 1, **SHORT[name])
    assert len(lay_out(item)) == length


@pytest.mark.parametrize("name", NAMES)
def test_the_shortest_length_is_named_and_works(name: str) -> None:
    with pytest.raises(BadInput, match=r"length is 1; it must be at least \d+ tokens") as caught:
        make(name, 1, 1)
    shortest = int(str(caught.value).split("at least ")[1].split()[0])
    assert shortest > 50
    with pytest.raises(BadInput, match=f"length is {shortest - 1}; it must be at least {shortest} "):
        make(name, shortest - 1, 1)
    (item,) = make(name, shortest, 1)
    assert len(lay_out(item)) == shortest


@pytest.mark.parametrize("name", [name for name in NAMES if name not in COUNTED])
def test_answers_are_in_the_supporting_chunks_and_nowhere_else(name: str) -> None:
    for item in make(name, LENGTH):
        texts = spell(item)
        for answer in item.answers:
            found = {place for place, text in enumerate(texts) if holds(text, answer)}
            assert found, answer
            assert found <= set(item.supporting or ())


@pytest.mark.parametrize("name", NAMES)
def test_an_item_does_not_depend_on_how_many_are_made(name: str) -> None:
    (one,), (first, second) = make(name, LENGTH, 1), make(name, LENGTH, 2)
    assert one.fingerprint == first.fingerprint != second.fingerprint
    assert one.id == first.id != second.id


@pytest.mark.parametrize("name", NAMES)
def test_another_seed_gives_other_items(name: str) -> None:
    one, other = make(name, LENGTH)[0], make(name, LENGTH, 1, seed=1)[0]
    assert spell(one) != spell(other)
    assert one.id != other.id
    assert one.cluster != other.cluster


@pytest.mark.parametrize("name", [name for name in NAMES if name not in COUNTED])
def test_needles_stay_the_same_at_every_length(name: str) -> None:
    for one, other in zip(make(name, LENGTH), make(name, 2077), strict=True):
        assert (one.question, one.answers, one.cluster) == (other.question, other.answers, other.cluster)
        assert one.id != other.id


@pytest.mark.parametrize("name", NAMES)
def test_a_generator_says_what_it_is(name: str) -> None:
    generator, (item, _) = GENERATORS[name], make(name, LENGTH)
    assert generator.what
    assert generator.source
    assert item.source
    assert item.licence
    assert item.metric in METRICS
    assert all(setting.what and setting.legal for setting in generator.settings.values())


def test_another_process_makes_the_same_items(tmp_path: Path) -> None:
    """With other hashes of texts, and random states that were used before."""
    bytes_tokenizer().save_pretrained(tmp_path)
    script = (
        "import json, random, sys, numpy\n"
        "random.random(), numpy.random.random()\n"
        "from transformers import AutoTokenizer\n"
        "from fewer.study.tasks.generate import GENERATORS, generate_task\n"
        "tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])\n"
        f"made = [generate_task(name, tokenizer, length={LENGTH}, num_items=1) for name in GENERATORS]\n"
        "print(json.dumps([item.fingerprint for items in made for item in items]))\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)],
        env={"PYTHONHASHSEED": "1234", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(run.stdout) == [make(name, LENGTH)[0].fingerprint for name in NAMES]


@pytest.mark.real
@pytest.mark.parametrize(
    ("name", "lengths"),
    [
        ("ruler_niah_single_2", (256, 1024, 8192)),
        ("ruler_niah_multikey_3", (1024, 8192)),
        ("ruler_cwe", (1024, 8192)),
        ("ruler_qa_2", (512, 4096)),
        ("diffuse", (512, 4096)),
        ("kv_retrieval", (1024, 32768)),
    ],
)
def test_lengths_under_the_embedded_models_tokenizer(name: str, lengths: tuple[int, ...]) -> None:
    tokenizer = AutoTokenizer.from_pretrained(resolve().path)
    for length in lengths:
        for item in generate_task(name, tokenizer, length=length, num_items=2):
            assert len(lay_out(item, tokenizer)) == length
